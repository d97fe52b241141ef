"""Where a session's files and notebook lie in the store, and the mirrors that carry them there."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

from kernel_gateway.services.admission.fair_shares import FairThreads
from kernels.errors import KernelsError
from kernels.sandbox import SandboxInfo
from kernels.sandboxed.workspace_copy import WorkspaceCopy
from workspace_sync import DurableWorkspace, Mirror, ObjectStore, TransferLimits
from workspace_sync.mirroring.durable import tell_counts

NOTEBOOK = "history.ipynb"
MANIFEST = "history.json"
"""What the notebook is verified against."""
STORE_SECONDS = 300.0
"""Longest time one piece of work on the store takes."""
OPEN_SECONDS = 30.0
"""Longest time to open one file that this process may not."""
BETWEEN_COPIES_SECONDS = 1.0
"""From one flush of a workspace on another machine to the next, unless somebody waits: each costs the guest a walk."""
SPOOL_THREADS = 4
"""Files copied at once to the spool or from it."""
T = TypeVar("T")


class Mirrors:
    """One store, and the threads that move files to and from it.

    `open_closed(sandbox_id, path)` opens what a workspace's user has closed to himself, and so to us. Files on their
    way to new sandboxes have threads of their own: they may take long, and no other flush or start waits for them.
    So has the spool: when it is needed, a store that stalls may hold all the others. So has what callers ask of durable
    files (`run_durable`), however many of them read, pack and copy at once; those threads serve principals in turn.
    A restore is tried again while nothing arrives for as long as `restore_seconds`.
    """

    def __init__(
        self,
        store: ObjectStore,
        threads: int,
        open_closed: Callable[[str, bytes], Awaitable[int]],
        restore_seconds: float = TransferLimits.restore_seconds,
    ) -> None:
        self.store = store
        self._open_closed = open_closed
        self._restore_seconds = restore_seconds
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="transfer")
        self._restores = ThreadPoolExecutor(threads, thread_name_prefix="restore")
        self.apart = FairThreads(threads, "durable")
        self.spooling = ThreadPoolExecutor(SPOOL_THREADS, thread_name_prefix="spool")

    def mirror(self, info: SandboxInfo, workspace_id: str, copy: WorkspaceCopy | None = None) -> Mirror:
        """The mirror of a live sandbox's workspace, or of the copy of one."""
        return self._mirror_to(self.store, info, workspace_id, self.executor, copy)

    def mirror_to_spool(self, spool: ObjectStore, info: SandboxInfo, workspace_id: str) -> Mirror:
        """The same, to a directory of the spool."""
        return self._mirror_to(spool, info, workspace_id, self.spooling)

    def _mirror_to(
        self,
        store: ObjectStore,
        info: SandboxInfo,
        workspace_id: str,
        executor: Executor,
        copy: WorkspaceCopy | None = None,
    ) -> Mirror:
        """What a mirror makes in the workspace is the sandbox's user's by itself."""
        limits = replace(_limits(info.workspace_directory), restore_seconds=self._restore_seconds)
        return Mirror(
            info.workspace_directory,
            store,
            prefix(workspace_id),
            # Changes are made elsewhere: each flush asks the guest for all names, and walks the copy.
            limits=limits if copy is None else replace(limits, watch=False, between_seconds=BETWEEN_COPIES_SECONDS),
            executor=executor,
            restore_executor=self._restores,
            opener=self._opener(info.sandbox_id),
            bring=None if copy is None else _bringer(copy),
        )

    def _opener(self, sandbox_id: str) -> Callable[[bytes], int]:
        """Called in one of the threads, while the loop that made it runs."""
        loop = asyncio.get_running_loop()

        async def open_closed(path: bytes) -> int:
            async with asyncio.timeout(OPEN_SECONDS):
                return await self._open_closed(sandbox_id, path)

        def open_now(path: bytes) -> int:
            try:
                return asyncio.run_coroutine_threadsafe(open_closed(path), loop).result(OPEN_SECONDS * 2)
            except (KernelsError, TimeoutError) as error:
                raise OSError(errno.EACCES, f"Permission denied ({error})") from error

        return open_now

    def durable(self, workspace_id: str) -> DurableWorkspace:
        """The files of a workspace in the store."""
        return DurableWorkspace(self.store, prefix(workspace_id))

    async def run(self, work: Callable[[], T]) -> T:
        """Carry out a blocking piece of work on the store in one of the threads; raises what it raises, in time."""
        async with asyncio.timeout(STORE_SECONDS):
            return await asyncio.wrap_future(self.executor.submit(work))

    async def run_durable(self, owner: str, work: Callable[[], T], ended: Callable[[], None] | None = None) -> T:
        """The same in other threads: for what a principal, the owner, asks of durable files, on which no session waits.

        Its time begins when it does. `ended` is called once the work has ended, which may be long after it was given
        up here.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(STORE_SECONDS) as deadline:

            def begin() -> T:
                _call(loop, lambda: _restart(deadline, STORE_SECONDS))
                return work()

            future = self.apart.submit(owner, begin)
            if ended is not None:
                future.add_done_callback(lambda _: _call(loop, ended))
            found: T = await asyncio.wrap_future(future)
            return found

    def close(self) -> None:
        for executor in (self.executor, self._restores, self.spooling):
            executor.shutdown(wait=False, cancel_futures=True)
        self.apart.close()


def _restart(deadline: asyncio.Timeout, seconds: float) -> None:
    """Count from now, unless it is over already."""
    with contextlib.suppress(RuntimeError):
        deadline.reschedule(asyncio.get_running_loop().time() + seconds)


def _call(loop: asyncio.AbstractEventLoop, then: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and with it all that waited
        loop.call_soon_threadsafe(then)


def _limits(directory: str) -> TransferLimits:
    """No more is mirrored than the sandbox's disk holds: of files with holes there can be more than that."""
    limits = TransferLimits()
    try:
        disk = os.statvfs(directory)
    except OSError:  # told when the directory is first opened
        return limits
    return replace(limits, workspace_bytes=min(limits.workspace_bytes, disk.f_blocks * disk.f_frsize))


def _bringer(copy: WorkspaceCopy) -> Callable[[], Mapping[bytes, str]]:
    """Called in one of the threads, while the loop that made it runs."""
    loop = asyncio.get_running_loop()

    async def pull() -> None:
        async with asyncio.timeout(STORE_SECONDS):
            await copy.pull()

    def pull_now() -> Mapping[bytes, str]:
        try:
            asyncio.run_coroutine_threadsafe(pull(), loop).result(STORE_SECONDS * 2)
        except (KernelsError, TimeoutError) as error:
            raise OSError(errno.EIO, f"the sandbox's files cannot be fetched ({error})") from error
        return copy.unknown

    return pull_now


def keep_account(store: ObjectStore, counted: Callable[[str, int, int], None]) -> None:
    """Have `counted(workspace_id, files, bytes)` called, in any thread, whenever a state of a workspace is durable."""
    tell_counts(store, lambda where, files, size: counted(where.rpartition("/")[2], files, size))


def prefix(workspace_id: str) -> str:
    """Under it lie `workspace/`, `manifest.json`, `history.ipynb` and `history.json`."""
    return f"workspaces/sessions/{workspace_id}"
