"""Ranges of host user ids, one per sandbox, claimed for all services that share a run directory.

A claim is a file named after the first id of its range, written under a lock, holding the path of the sandbox it
belongs to. A claim whose sandbox directory is gone is stale and may be taken over. Services may count from different
first ids: a range is free when no live claim has an id of it.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed
from kernels.oci.bundle import UID_RANGE

_LOCK: Final = "lock"
_OLD_SLOTS: Final = 65_536
"""Claims with smaller names are of an older version and say a slot; no range begins below this."""


class UidRanges:
    """`count` ranges of 65,536 ids each, from host id `base` up; claims lie in `directory`.

    `first_id` says what range a sandbox directory has by its own journal, for claims of older versions.
    """

    def __init__(
        self, directory: Path, *, base: int, count: int, first_id: Callable[[Path], int | None] = lambda _: None
    ) -> None:
        self._directory = directory
        self._base = base
        self._count = count
        self._first_id = first_id

    def claim(self, owner: Path) -> int:
        """The first host id of a free range, now belonging to the sandbox directory `owner`."""
        with self._lock():
            first = self._find_unclaimed()
            if first is None:
                self._remove_stale()
                first = self._find_unclaimed()
            if first is not None:
                (self._directory / str(first)).write_text(str(owner))
                return first
        raise SandboxFailed(
            f"all {self._count} uid ranges from {self._base} on are in use; end sessions or raise uid_ranges"
        )

    def keep(self, first_id: int, owner: Path) -> bool:
        """Claim a range once more that `owner` had; false when it is another's by now."""
        with self._lock():
            self._rename_old()
            claims = {int(claim.name): claim for claim in self._claims()}
            if first_id in claims:
                return claims[first_id].read_text() == str(owner)
            if _overlap(first_id, sorted(claims)):
                return False
            (self._directory / str(first_id)).write_text(str(owner))
            return True

    def release(self, first_id: int, owner: Path) -> None:
        """Give a range back; only its owner can, and doing it twice is fine."""
        claim = self._directory / str(first_id)
        with self._lock(), contextlib.suppress(FileNotFoundError):
            self._rename_old()
            if claim.read_text() == str(owner):  # after a first release it may be the next owner's
                claim.unlink()

    def _find_unclaimed(self) -> int | None:
        self._rename_old()
        claimed = sorted(int(claim.name) for claim in self._claims())
        firsts = (self._base + slot * UID_RANGE for slot in range(self._count))
        return next((first for first in firsts if not _overlap(first, claimed)), None)

    def _remove_stale(self) -> None:
        """Remove the claims of sandboxes that are gone: looked for when nothing else is free."""
        for claim in self._claims():
            holder = claim.read_text()
            if not holder or not Path(holder).exists():
                claim.unlink()

    def _rename_old(self) -> None:
        """Give claims by slot the name that tells all services what they hold."""
        for claim in self._claims():
            slot = int(claim.name)
            if slot < _OLD_SLOTS:
                first = self._first_id(Path(claim.read_text()))
                claim.rename(self._directory / str(self._base + slot * UID_RANGE if first is None else first))

    def _claims(self) -> list[Path]:
        return [path for path in self._directory.iterdir() if path.name.isdecimal()]

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._directory / _LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _overlap(first: int, claimed: list[int]) -> bool:
    """Whether a range has an id in common with one of those that begin at `claimed`, which are in order (pure)."""
    place = bisect.bisect_right(claimed, first - UID_RANGE)
    return place < len(claimed) and claimed[place] < first + UID_RANGE
