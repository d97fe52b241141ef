"""A store that one service at a time uses: the object `in-use-by.json` says which, and no other writes or lists there.

The holder writes the object again every `RENEW_SECONDS`. Another service takes the store over once nobody has done so
for `LEASE_SECONDS`, by the store's own clock. A holder that could not renew for `OWN_SECONDS` (it hung, the store was
away) looks who holds the store before it writes anything else: whoever was taken over from writes nothing more.
A claim is a read and then a write. In a local store they are made under a lock. Elsewhere whoever claims what others
may claim too names itself first, under `in-use-by.json.claims/`, and reads the mark once nobody else is named there: of
two that claim at once, one at least finds the other's name, or, where that has gone again, the other's mark.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec
import structlog

from workspace_sync.errors import ObjectNotFound, StoreError, StoreUnavailable, StoreUnusable
from workspace_sync.store import Ahead, Item, ObjectStore, StoredObject, Written
from workspace_sync.stores.claim_files import UsedStores
from workspace_sync.stores.local import LocalStore

log = structlog.get_logger()
KEY = "in-use-by.json"
RENEW_SECONDS = 15.0
OWN_SECONDS = 40.0
"""How long after a renewal began the holder takes the store for its own; less than others wait, by a wide margin."""
LEASE_SECONDS = 60.0
CLAIMS = f"{KEY}.claims/"
MOST_CLAIMS = 100
"""Names of those who claim at once that are looked at."""
TURN_ROUNDS, ROUND_SECONDS = 40, 0.25
"""How often a claim looks whether it is alone, and how long it waits between: longer than another one has its name."""
SLOW_SECONDS = 4.0
"""A mark that was read longer ago is not written upon: with the write's own deadline it is there before others may."""
WAIT_SECONDS = 30.0
"""How long a writer waits for a renewal under way."""
DELETE_BATCH = 1000
_MOST_BYTES = 10_000


class Claim(msgspec.Struct, frozen=True):
    """`service` is the id of a data directory, `life` one process on it; `place`, its host and path, is only shown."""

    place: str
    life: str
    service: str = ""
    released: bool = False


class ClaimedStore:
    """An `ObjectStore` of one service, over the one behind. `renew` claims it, and says who else has it.

    A store in `used` has its mark, or is not that store. `marks` is the same store with deadlines that suit the mark.
    `shared`: all who name this service are one, and none of them lets the store go for the others.
    """

    def __init__(
        self,
        behind: ObjectStore,
        service: str,
        place: str,
        used: UsedStores,
        *,
        marks: ObjectStore | None = None,
        shared: bool = False,
    ) -> None:
        self._behind = behind
        self._marks = behind if marks is None else marks
        self._claim = Claim(place, service if shared else uuid.uuid4().hex, service)
        self._shared = shared
        self._used = used
        self._remembered = False
        self._own_until = 0.0
        self._held = False
        self._released = False
        self._renewing = threading.Lock()
        self._failure: Exception | None = None
        self._failures = 0
        """How many renewals have failed: one failure answers all who waited for that renewal."""

    @property
    def description(self) -> str:
        return self._behind.description

    def renew(self) -> None:
        """Claim the store, or say once more that it is in use. Blocking.

        Raises `StoreUnusable` while another service has it, `StoreUnavailable` when it is not the store that it was,
        and what the store raises.
        """
        with self._turn():
            self._try_renewing()

    def release(self) -> None:
        """Let the next service have it at once; only what holds it does. Nothing is claimed or written from now on."""
        self._released, self._own_until = True, 0.0
        with self._turn():
            self._own_until = 0.0
            if self._held and not self._shared and self._read() == self._claim:
                self._write(msgspec.structs.replace(self._claim, released=True))
            self._held = False

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
        waiting = iter(keys)
        while batch := list(itertools.islice(waiting, DELETE_BATCH)):
            self._require()
            self._behind.delete(batch)

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        self._require()
        return self._behind.copy(source, target, etag=etag, size=size)

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        return self._behind.presign(key, seconds, filename)

    def check(self) -> tuple[str, ...]:
        return self._behind.check()

    def close(self) -> None:
        self._behind.close()
        if self._marks is not self._behind:
            self._marks.close()

    def _require(self) -> None:
        if _now() < self._own_until:
            return
        failures = self._failures
        with self._turn():
            if _now() < self._own_until:  # another thread has just renewed it
                return
            if self._failure is not None and self._failures != failures:  # or failed to, while this one waited
                raise self._failure.with_traceback(None)
            self._try_renewing()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if not self._renewing.acquire(timeout=WAIT_SECONDS):
            raise StoreUnavailable(f"{self.description} does not answer: who uses it could not be read in time")
        try:
            yield
        finally:
            self._renewing.release()

    def _try_renewing(self) -> None:
        if self._released:
            raise StoreUnavailable(f"{self.description} was let go: this service has ended")
        try:
            self._renew()
        except Exception as error:
            self._failure = error.with_traceback(None)
            self._failures += 1
            raise

    def _renew(self) -> None:
        began = _now()
        with self._alone() as locked:
            found = self._look()
            # A holder whose mark may have expired is one of those that claim: another may be about to take it over.
            contested = not locked and (began >= self._own_until if self._held else self._is_free(found))
            if contested:
                found, began = self._look_alone()
            self._require_quick(began)
            self._write(self._claim)  # when that fails its name stays: the mark may be there a moment later
            if contested:
                self._withdraw()
        if not self._held:
            self._log_takeover(found)
        self._remembered = self._remembered or self._used.add(self.description)
        self._held = True
        if not self._released:  # meanwhile
            self._own_until = began + OWN_SECONDS

    def _alone(self) -> contextlib.AbstractContextManager[bool]:
        return self._behind.alone() if isinstance(self._behind, LocalStore) else contextlib.nullcontext(False)  # noqa: FBT003

    def _is_free(self, found: Claim | None) -> bool:
        """Whether others may claim it at this moment too: not what this service has had until just now."""
        if found is None or found.released or found.service != self._claim.service:
            return True
        return self._age_seconds() >= LEASE_SECONDS / 2

    def _look(self) -> Claim | None:
        """The mark, if this service may write its own in its place; raises what `renew` does."""
        found = self._read()
        if found is None:
            self._require_new()
        elif self._is_anothers(found):
            self._own_until = 0.0
            raise StoreUnusable(self._explain(found))
        return found

    def _require_quick(self, began: float) -> None:
        if _now() - began >= SLOW_SECONDS:
            raise StoreUnavailable(f"{self.description} answers too slowly: its {KEY} is read again")

    def _look_alone(self) -> tuple[Claim | None, float]:
        """The mark, once no other service is about to write one, and when it was asked for."""
        try:
            self._marks.put(self._name, io.BytesIO(b""), 0)
            self._wait_for_turn()
            began = _now()
            found = self._look()
            self._require_quick(began)
        except BaseException:
            with contextlib.suppress(StoreError):
                self._withdraw()
            raise
        return found, began

    @property
    def _name(self) -> str:
        """What says that this service claims the store; an earlier process of it is no other."""
        return CLAIMS + (self._claim.service or self._claim.life)

    def _withdraw(self) -> None:
        self._marks.delete([self._name])

    def _wait_for_turn(self) -> None:
        """Of several the first by name waits for the others to withdraw, or for their marks; raises StoreUnusable."""
        for _ in range(TURN_ROUNDS):
            named = {each.key: each.modified for each in itertools.islice(self._marks.list(CLAIMS), MOST_CLAIMS)}
            own = named.pop(self._name, None)
            others = [key for key, since in named.items() if own is not None and own - since < LEASE_SECONDS]
            if own is not None and not others:
                self._marks.delete(named)  # of services that died while they claimed it
                return
            if others and min(others) < self._name:
                break
            time.sleep(ROUND_SECONDS)
        raise StoreUnusable(f"{self.description} is being claimed by another service at the same moment: try again")

    def _log_takeover(self, found: Claim | None) -> None:
        """From a process that did not release it: it was killed, or it is there and will write nothing more."""
        if found is not None and not found.released and found.life != self._claim.life:
            same = found.service == self._claim.service
            log.warning("store_taken_over", store=self.description, other=found.place, same_data_directory=same)

    def _is_anothers(self, found: Claim) -> bool:
        if self._held:  # whoever has written something else since has taken the store over
            return found != self._claim
        # A data directory has one service at a time, so an earlier process of it has ended.
        return not (found.released or found.service == self._claim.service or self._age_seconds() >= LEASE_SECONDS)

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
        try:
            used = self._held or self._used.has(self.description)
        except OSError as error:
            raise StoreUnavailable(f"{self._used.file} cannot be read, which says whether {self.description} was used"
                                   f" before: {error.strerror or error}") from error  # fmt: skip
        if used:
            raise StoreUnavailable(
                f"{self.description} lacks {KEY}, which this service has written there, so it is not the store that it"
                f" was. Is its file system mounted? To begin with an empty store, remove its line from"
                f" {self._used.file}"
            )

    def _age_seconds(self) -> float:
        """How long ago the mark was written, by the clock of the store."""
        probe = f"{KEY}.{self._claim.life}"
        self._marks.put(probe, io.BytesIO(b""), 0)
        try:
            return self._marks.stat(probe).modified - self._marks.stat(KEY).modified
        finally:
            self._marks.delete([probe])

    def _read(self) -> Claim | None:
        try:
            with self._marks.get(KEY, 0, _MOST_BYTES) as stream:
                return msgspec.json.decode(stream.read(), type=Claim)
        except ObjectNotFound:
            return None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnusable(f"{self.description}: {KEY} cannot be read: {error}. Remove it, or mend it") from None

    def _write(self, claim: Claim) -> None:
        data = msgspec.json.encode(claim)
        self._marks.put(KEY, io.BytesIO(data), len(data))


def _now() -> float:
    """Seconds that also pass while the host is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
