"""Workspaces that the store did not take in time: kept on this host's disk and delivered when the store is back.

Each lies in a directory of its own under `<data_dir>/state/spool`, itself a local store, so that names, links and bytes
are treated as in any other. The spool's copy is the newest state of its workspace: it is delivered before a session
restores from the store.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote
from weakref import WeakValueDictionary

import structlog

from kernel_gateway.services.mirrors import Mirrors, prefix
from kernels.sandbox import SandboxInfo
from workspace_sync import Mirror, ObjectStore, TransferLimits, open_store
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)
SECONDS = 600.0
"""Longest time one workspace takes into the spool or out of it."""
PART, OUT = ".part", ".out"


class Spool:
    """`take` when a sandbox ends, `deliver` before a restore and from time to time."""

    def __init__(self, directory: Path, mirrors: Mirrors) -> None:
        self._directory = directory
        self._mirrors = mirrors
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def clear(self) -> None:
        """Remove what an earlier process left half made; called once at start, before anything else."""
        if self._directory.is_dir():
            for each in self._directory.iterdir():
                if each.name.endswith((PART, OUT)):
                    shutil.rmtree(each, ignore_errors=True)

    def waiting(self) -> list[str]:
        """The workspaces that wait for the store."""
        if not self._directory.is_dir():
            return []
        return sorted(each.name for each in self._directory.iterdir() if not each.name.endswith((PART, OUT)))

    async def take(self, info: SandboxInfo, workspace_id: str) -> None:
        """Copy a live workspace into the spool, in place of an older copy; raises WorkspaceSyncError, OSError."""
        async with self._lock(workspace_id):
            part = self._place(workspace_id + PART)
            await asyncio.to_thread(_empty, part)
            await _flushed(self._mirrors.mirror_to(_local(part), info, workspace_id))
            await asyncio.to_thread(_replace, part, self._place(workspace_id))
        log.warning("workspace_spooled", workspace=workspace_id)

    async def deliver(self, workspace_id: str) -> bool:
        """Bring the spooled copy, if there is one, to the store and remove it; says whether there was one.

        Raises WorkspaceSyncError when the store does not take it; the copy stays.
        """
        place = self._place(workspace_id)
        async with self._lock(workspace_id):
            if not place.is_dir():
                return False
            # A store that is away is found out at once; a flush would wait for it to come back.
            await self._mirrors.run(self._mirrors.durable(workspace_id).summary)
            out = Path(tempfile.mkdtemp(prefix=workspace_id, suffix=OUT, dir=self._directory))
            try:
                await self._restore(out, _local(place), workspace_id)
                await _flushed(self._mirror(str(out), self._mirrors.store, workspace_id))
            finally:
                await asyncio.to_thread(shutil.rmtree, out, ignore_errors=True)
            await asyncio.to_thread(shutil.rmtree, place)
        log.info("workspace_delivered", workspace=workspace_id)
        return True

    async def discard(self, workspace_id: str) -> None:
        """Remove the copy, if there is one: the store has something newer."""
        place = self._place(workspace_id)
        if place.is_dir():
            async with self._lock(workspace_id):
                await asyncio.to_thread(shutil.rmtree, place, ignore_errors=True)

    async def deliver_all(self, in_use: Callable[[str], bool]) -> None:
        """Deliver what waits, but for workspaces that a live session holds; the store's failures wait for next time."""
        for workspace_id in self.waiting():
            if in_use(workspace_id):
                continue
            try:
                await self.deliver(workspace_id)
            except (WorkspaceSyncError, OSError, TimeoutError) as error:
                log.warning("workspace_not_delivered", workspace=workspace_id, error=str(error))
                return

    async def _restore(self, directory: Path, store: ObjectStore, workspace_id: str) -> None:
        mirror = self._mirror(str(directory), store, workspace_id)
        try:
            async with asyncio.timeout(SECONDS):
                await mirror.restore()
        finally:
            await mirror.aclose()

    def _mirror(self, directory: str, store: ObjectStore, workspace_id: str) -> Mirror:
        return Mirror(
            directory,
            store,
            prefix(workspace_id),
            owner=None,
            limits=TransferLimits(),
            executor=self._mirrors.executor,
        )

    def _lock(self, workspace_id: str) -> asyncio.Lock:
        return self._locks.setdefault(workspace_id, asyncio.Lock())

    def _place(self, name: str) -> Path:
        return self._directory / name


async def _flushed(mirror: Mirror) -> None:
    try:
        await mirror.flush(SECONDS)
    finally:
        await mirror.aclose()


def _local(directory: Path) -> ObjectStore:
    return open_store("file://" + quote(str(directory)))


def _empty(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True, mode=0o700)


def _replace(new: Path, old: Path) -> None:
    shutil.rmtree(old, ignore_errors=True)
    new.rename(old)
