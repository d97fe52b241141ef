"""Workspaces that the store did not take in time: kept on this host's disk and delivered when the store is back.

Each lies in a directory of its own under `<data_dir>/state/spool`, itself a local store, so that names, links and bytes
are treated as in any other. The spool's copy is the newest state of its workspace: it is delivered before a session
restores from the store.

What is half made or half removed has a name of its own, and what is whole gets its name in one step, so that a process
that is killed leaves no part of a workspace that could be taken for all of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote
from weakref import WeakValueDictionary

import structlog

from kernel_gateway.services.mirroring.mirrors import Mirrors, prefix
from kernel_gateway.services.mirroring.outage_detector import OutageDetector
from kernels.sandbox import SandboxInfo
from workspace_sync import AsOf, DurableWorkspace, FlushReport, Mirror, ObjectStore, TransferLimits, open_store
from workspace_sync.directory.owned_directory import OwnedDirectory, remove_tree
from workspace_sync.errors import ObjectNotFound, WorkspaceSyncError

log = structlog.get_logger(__name__)
TAKE_SECONDS = 1800.0
"""Longest time one workspace takes into the spool: what does not get there is lost."""
SECONDS = 600.0
"""Time that one workspace has out of it, and a second more for each `SLOWEST` bytes."""
SLOWEST = 1_000_000
ATTEMPTS = 2
"""Attempts in a row that may fail before a delivery waits for the next round."""
IN_PART = "in-part"
"""Beside the files of a copy that lacks what could not be read: the store keeps what it has of that."""
PART, WHOLE, OUT, GONE, ASIDE = ".part", ".whole", ".out", ".gone", ".aside"
"""Being made; made, in place of an older copy that may still be there; on the way to the store; being removed; and what
is left to the operator, since another gateway has had the workspace."""


OnDelivered = Callable[[str, AsOf | None], Awaitable[None]]
"""Awaited when a workspace that had waited here is in the store, with the execution that it is as of."""


async def _ignore(_workspace_id: str, _as_of: AsOf | None) -> None:
    pass


@dataclass(frozen=True)
class _Copy:
    """What waits: the execution it is as of, the time it has on its way, and whether it is the whole workspace."""

    as_of: AsOf | None
    seconds: float
    whole: bool


class Spool:
    """`take` when a sandbox ends, `deliver` before a restore and from time to time."""

    def __init__(self, directory: Path, mirrors: Mirrors, on_delivered: OnDelivered = _ignore) -> None:
        self._directory = directory
        self._mirrors = mirrors
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._on_delivered = on_delivered

    def clear(self) -> None:
        """Finish what an earlier process left half done; called once at start, before anything else."""
        if self._directory.is_dir():
            for each in list(self._directory.iterdir()):
                if each.suffix == WHOLE:
                    _put_in_place(each)
                elif each.suffix in (PART, OUT, GONE):
                    _delete(each)

    def waiting(self) -> list[str]:
        """The workspaces that wait for the store."""
        if not self._directory.is_dir():
            return []
        names = {each.stem if each.suffix == WHOLE else each.name for each in self._directory.iterdir()}
        return sorted(name for name in names if not name.endswith((PART, OUT, GONE, ASIDE)))

    async def take(self, info: SandboxInfo, workspace_id: str, as_of: AsOf | None = None) -> None:
        """Copy a live workspace into the spool, in place of an older copy; raises WorkspaceSyncError, OSError."""
        async with self._lock(workspace_id):
            part = self._place(workspace_id + PART)
            await asyncio.to_thread(_empty, part)
            mirror = self._mirrors.mirror_to_spool(_local(part), info, workspace_id)
            skipped = (await _flush(mirror, as_of, TAKE_SECONDS)).skipped
            if skipped:
                await asyncio.to_thread(DurableWorkspace(_local(part), prefix(workspace_id)).put_beside, IN_PART, b"")
            await asyncio.to_thread(_replace, part)
        log.warning("workspace_spooled", workspace=workspace_id, left_out=len(skipped))

    async def deliver(self, workspace_id: str) -> bool:
        """Bring the spooled copy, if there is one, to the store and remove it; says whether there was one.

        Raises WorkspaceSyncError when the store does not take it; the copy stays.
        """
        async with self._lock(workspace_id):
            if not self._has(workspace_id):
                return False
            place = await asyncio.to_thread(self._whole, workspace_id)
            if place is None:
                return False
            # A store that is away is found out at once; a flush would wait for it to come back.
            await self._mirrors.run(self._mirrors.durable(workspace_id).summary)
            out = Path(tempfile.mkdtemp(prefix=workspace_id, suffix=OUT, dir=self._directory))
            try:
                copy = await self._restore(out, _local(place), workspace_id)
                mirror = self._mirror(str(out), self._mirrors.store, workspace_id, removes=copy.whole)
                await _flush(mirror, copy.as_of, copy.seconds)
            finally:
                await asyncio.to_thread(_delete, out)
            # Before the copy goes: a process that is killed in between delivers it once more, which changes nothing.
            await self._on_delivered(workspace_id, copy.as_of)
            await asyncio.to_thread(_remove, place)
        log.info("workspace_delivered", workspace=workspace_id)
        return True

    async def discard(self, workspace_id: str) -> None:
        """Remove the copy, if there is one: the store has something newer."""
        async with self._lock(workspace_id):
            if not self._has(workspace_id):
                return
            place = await asyncio.to_thread(self._whole, workspace_id)
            if place is not None:
                await asyncio.to_thread(_remove, place)

    def set_aside(self, workspace_id: str) -> None:
        """Called at start: never deliver this copy, since another gateway has had the workspace meanwhile."""
        place = self._whole(workspace_id)
        if place is not None:
            aside = place.rename(place.with_name(f"{place.name}-{uuid.uuid4().hex}{ASIDE}"))
            log.error("workspace_set_aside", workspace=workspace_id, place=str(aside))

    async def deliver_all(self, in_use: Callable[[str], bool]) -> None:
        """Deliver what waits, but for workspaces that a live session holds.

        One that cannot be delivered waits for next time and holds no other back; a store that is away does.
        """
        outages = OutageDetector()
        for workspace_id in self.waiting():
            if not in_use(workspace_id) and outages.away(await self._try(workspace_id)):
                return

    async def _try(self, workspace_id: str) -> Exception | None:
        """What kept a workspace from being delivered."""
        try:
            await self.deliver(workspace_id)
        except (WorkspaceSyncError, OSError, TimeoutError) as error:
            log.warning("workspace_not_delivered", workspace=workspace_id, error=str(error))
            return error
        return None

    async def _restore(self, directory: Path, store: ObjectStore, workspace_id: str) -> _Copy:
        """Fill a directory from a spooled copy."""
        copy = await asyncio.to_thread(_inspect, DurableWorkspace(store, prefix(workspace_id)))
        mirror = self._mirror(str(directory), store, workspace_id)
        try:
            async with asyncio.timeout(copy.seconds):
                report = await mirror.restore()
        finally:
            await mirror.aclose()
        return replace(copy, whole=copy.whole and not report.skipped)

    def _mirror(self, directory: str, store: ObjectStore, workspace_id: str, *, removes: bool = True) -> Mirror:
        return Mirror(
            directory,
            store,
            prefix(workspace_id),
            owner=None,
            limits=TransferLimits(flush_attempts=ATTEMPTS),
            executor=self._mirrors.executor,
            opener=OwnedDirectory(directory).open,
            removes=removes,
        )

    def _has(self, workspace_id: str) -> bool:
        """Whether there may be a copy. Not for a thread: each start and each end asks, nearly always in vain."""
        return any(self._place(workspace_id + end).is_dir() for end in ("", WHOLE))

    def _whole(self, workspace_id: str) -> Path | None:
        """The copy, if there is one; the newest when another was just to take its place."""
        place, newest = self._place(workspace_id), self._place(workspace_id + WHOLE)
        if newest.is_dir():
            _put_in_place(newest)
        return place if place.is_dir() else None

    def _lock(self, workspace_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workspace_id, asyncio.Lock())

    def _place(self, name: str) -> Path:
        return self._directory / name


def _inspect(spooled: DurableWorkspace) -> _Copy:
    """What a copy says of itself, held against what is there: what is not there was not removed by its session.

    Nobody but the service removes anything here. A copy without its manifest, or without files that it names, is one
    that the disk has lost a part of: it may have been emptied, or restored from a backup.
    """
    seconds = SECONDS + spooled.summary().size_bytes / SLOWEST
    missing = spooled.count_missing()
    if missing != 0:
        log.error("spooled_workspace_damaged", missing="the manifest" if missing is None else missing)
        return _Copy(spooled.execution(), seconds, whole=False)
    try:
        spooled.open_beside(IN_PART)[0].close()
    except ObjectNotFound:
        return _Copy(spooled.execution(), seconds, whole=True)
    return _Copy(spooled.execution(), seconds, whole=False)


async def _flush(mirror: Mirror, as_of: AsOf | None, seconds: float) -> FlushReport:
    try:
        mirror.request_flush(as_of)
        return await mirror.flush(seconds)
    finally:
        await mirror.aclose()


def _local(directory: Path) -> ObjectStore:
    return open_store("file://" + quote(str(directory)))


def _empty(directory: Path) -> None:
    _delete(directory)
    directory.mkdir(parents=True, mode=0o700)


def _replace(part: Path) -> None:
    """Let a copy count that is complete; from here on it outlives the process, and the host's power."""
    for directory, _, _ in os.walk(part):
        _sync(Path(directory))
    _put_in_place(part.rename(part.with_suffix(WHOLE)))


def _put_in_place(whole: Path) -> None:
    _sync(whole.parent)  # the new copy is on the disk under a name of its own before the older one goes
    place = whole.with_suffix("")
    if place.is_dir():
        _remove(place)
    whole.rename(place)
    _sync(place.parent)


def _remove(place: Path) -> None:
    """In one step for every reader; what cannot be deleted then is deleted by the next start."""
    gone = place.rename(place.with_name(f"{place.name}-{uuid.uuid4().hex}{GONE}"))
    _delete(gone)


def _delete(directory: Path) -> None:
    """What cannot be deleted stays for the next start."""
    with contextlib.suppress(OSError):
        remove_tree(directory)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
