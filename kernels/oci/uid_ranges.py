"""Ranges of host user ids, one per sandbox, claimed host-wide.

A claim is a file named after its slot, written under a lock of the whole host, holding the path of the sandbox it
belongs to. A claim whose sandbox directory is gone is stale and may be taken over.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from kernels.errors import SandboxFailed
from kernels.oci.bundle import UID_RANGE


class UidRanges:
    """`count` ranges of 65,536 ids each, from host id `base` up; claims lie in `directory`."""

    def __init__(self, directory: Path, *, base: int, count: int) -> None:
        self._directory = directory
        self._base = base
        self._count = count

    def claim(self, owner: Path) -> int:
        """The first host id of a free range, now belonging to the sandbox directory `owner`."""
        with self._locked():
            for slot in range(self._count):
                if self._take(self._directory / str(slot), owner):
                    return self._base + slot * UID_RANGE
        raise SandboxFailed(f"all {self._count} uid ranges of this host are in use; end sessions or raise uid_ranges")

    def release(self, first_id: int, owner: Path) -> None:
        """Give a range back; only its owner can, and doing it twice is fine."""
        claim = self._directory / str((first_id - self._base) // UID_RANGE)
        with self._locked(), contextlib.suppress(FileNotFoundError):
            if claim.read_text() == str(owner):
                claim.unlink()

    def _take(self, claim: Path, owner: Path) -> bool:
        with contextlib.suppress(FileNotFoundError):
            holder = claim.read_text()
            if holder and Path(holder).exists():
                return False
        claim.write_text(str(owner))
        return True

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._directory / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
