"""A store that one service at a time uses: the object `in-use-by.json` says which, and no other writes or lists there.

The holder writes the object again every `RENEW_SECONDS`. Another service takes the store over once nobody has done so
for `LEASE_SECONDS`, by the store's own clock. A holder that could not renew for `OWN_SECONDS` (it hung, the store was
away) looks who holds the store before it writes anything else: whoever was taken over from writes nothing more.
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import structlog

from workspace_sync.errors import ObjectNotFound, StoreUnavailable, StoreUnusable
from workspace_sync.store import Ahead, Item, ObjectStore, StoredObject, Written

log = structlog.get_logger()
KEY = "in-use-by.json"
RENEW_SECONDS = 15.0
OWN_SECONDS = 40.0
"""How long after a renewal began the holder takes the store for its own; less than others wait, by a wide margin."""
LEASE_SECONDS = 60.0
_MOST_BYTES = 10_000


class Claim(msgspec.Struct, frozen=True):
    """`place` is the host and data directory of a service, `life` one process of it."""

    place: str
    life: str
    released: bool = False


class ClaimedStore:
    """An `ObjectStore` of the service at `place`, over the one behind. `renew` claims it, and says who else has it.

    `remembered` is a file that says that this service has used this store: it then has its mark, or is not that store.
    """

    def __init__(self, behind: ObjectStore, place: str, remembered: Path) -> None:
        self._behind = behind
        self._claim = Claim(place, uuid.uuid4().hex)
        self._remembered = remembered
        self._own_until = 0.0
        self._held = False
        self._renewing = threading.Lock()

    @property
    def description(self) -> str:
        return self._behind.description

    def renew(self) -> None:
        """Claim the store, or say once more that it is in use. Blocking.

        Raises `StoreUnusable` while another service has it, `StoreUnavailable` when it is not the store that it was,
        and what the store raises.
        """
        with self._renewing:
            self._renew()

    def release(self) -> None:
        """Let the next service have it at once; only what holds it does."""
        with self._renewing:
            if self._held and self._read() == self._claim:
                self._write(Claim(self._claim.place, self._claim.life, released=True))
            self._held, self._own_until = False, 0.0

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        self._require()
        return self._behind.put(key, source, size)

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        return self._behind.get(key, offset, size)

    def get_ahead(self, wanted: Iterable[tuple[Item, str]]) -> contextlib.AbstractContextManager[Ahead[Item]]:
        return self._behind.get_ahead(wanted)

    def stat(self, key: str) -> StoredObject:
        return self._behind.stat(key)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        self._require()  # what is found there, or is not, decides what a session begins with
        return self._behind.list(prefix)

    def delete(self, keys: Iterable[str]) -> None:
        self._require()
        self._behind.delete(keys)

    def copy(self, source: str, target: str, *, etag: str = "") -> Written:
        self._require()
        return self._behind.copy(source, target, etag=etag)

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        return self._behind.presign(key, seconds, filename)

    def check(self) -> tuple[str, ...]:
        return self._behind.check()

    def close(self) -> None:
        self._behind.close()

    def _require(self) -> None:
        if _now() >= self._own_until:
            with self._renewing:
                if _now() >= self._own_until:  # another thread may just have renewed it
                    self._renew()

    def _renew(self) -> None:
        began = _now()
        found = self._read()
        if found is None:
            self._require_new()
        elif self._is_anothers(found):
            self._own_until = 0.0
            raise StoreUnusable(self._explain(found))
        self._write(self._claim)
        if not self._held:
            self._remembered.write_text(self.description)
            if found is not None and found.place != self._claim.place:
                log.warning("store_taken_over", store=self.description, other=found.place, released=found.released)
        self._held, self._own_until = True, began + OWN_SECONDS

    def _is_anothers(self, found: Claim) -> bool:
        if self._held:  # whoever has written something else since has taken the store over
            return found != self._claim
        # A data directory has one service at a time, so an earlier process of it has ended.
        return not (found.released or found.place == self._claim.place or self._age_seconds() >= LEASE_SECONDS)

    def _explain(self, found: Claim) -> str:
        another = f"{self.description} is in use by another service, {found.place}"
        why = "Two services would overwrite each other's workspaces"
        if self._held:
            return f"{another}, which has taken it over from this one: nothing more is written there. {why}"
        return (
            f"{another}. {why}: give this one a prefix or directory of its own, or stop the other; {LEASE_SECONDS:.0f}"
            " seconds after that one has died this one may take over"
        )

    def _require_new(self) -> None:
        """A store without the mark is one that is not in use yet; not one that was."""
        with contextlib.suppress(OSError):
            if self._held or self._remembered.read_text() == self.description:
                raise StoreUnavailable(
                    f"{self.description} lacks {KEY}, which this service has written there, so it is not the store that"
                    f" it was. Is its file system mounted? To begin with an empty store, remove {self._remembered}"
                )

    def _age_seconds(self) -> float:
        """How long ago the mark was written, by the clock of the store."""
        probe = f"{KEY}.{self._claim.life}"
        self._behind.put(probe, io.BytesIO(b""), 0)
        try:
            return self._behind.stat(probe).modified - self._behind.stat(KEY).modified
        finally:
            self._behind.delete([probe])

    def _read(self) -> Claim | None:
        try:
            with self._behind.get(KEY, 0, _MOST_BYTES) as stream:
                return msgspec.json.decode(stream.read(), type=Claim)
        except ObjectNotFound:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnusable(f"{self.description}: {KEY} cannot be read: {error}. Remove it, or mend it") from None

    def _write(self, claim: Claim) -> None:
        data = msgspec.json.encode(claim)
        self._behind.put(KEY, io.BytesIO(data), len(data))


def _now() -> float:
    """Seconds that also pass while the host is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
