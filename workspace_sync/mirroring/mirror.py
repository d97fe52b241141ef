"""One live directory mirrored to one prefix of a store: restore, flush in the background, report.

One task per mirror does all flushing, so two flushes of a directory never overlap. Requests made while one runs become
one more run; one made when nothing changed is complete at once. What fails is tried again until it succeeds or the
mirror is closed. Files go first, the manifest last: it names one consistent state, as of the newest execution that was
told of before its flush began (docs/reference/workspaces.md has the contract).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import msgspec
import structlog

from workspace_sync.directory.safe_open import DIRECTORY, Opener
from workspace_sync.directory.tree import Bring, LiveTree
from workspace_sync.directory.watch import Watch
from workspace_sync.errors import (
    DirectoryUnusable,
    FlushIncomplete,
    MirrorClosed,
    NotRestored,
    StoreUnavailable,
    WorkspaceSyncError,
)
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import AsOf, Skipped
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.mirroring.flush import Flusher, FlushReport
from workspace_sync.mirroring.pending import Pending
from workspace_sync.mirroring.restore import Restoration, RestoreReport, Restoring
from workspace_sync.mirroring.transfer import Transfer
from workspace_sync.names import escape
from workspace_sync.store import ObjectStore
from workspace_sync.threads import Threads

log = structlog.get_logger()
_jitter = random.SystemRandom()
_ABANDON_SECONDS = 1.0


class MirrorState(msgspec.Struct, frozen=True):
    """How far the mirror is: the last complete flush (epoch seconds), whether something waits, the last error.

    `durable` is the newest execution whose files are in the store; `told`: this mirror was told of it, else it has read
    of it there, and it may be an earlier session's. `pending_files` and `pending_bytes` are what the flush under way
    has still to write, as far as it is known; `retry_at` (epoch seconds) is when a flush that failed is tried again,
    None when none waits for that.
    """

    last_flush_at: float | None = None
    pending: bool = False
    error: str | None = None
    durable: AsOf | None = None
    pending_files: int = 0
    pending_bytes: int = 0
    retry_at: float | None = None
    restoring: Restoring | None = None
    told: bool = False


class Mirror:
    """A directory and its durable copy. All methods belong to one event loop; blocking work runs in `executor`.

    Files are fetched in `restore_executor`, when there is one, so that no flush waits for it. `owner` (uid, gid) is
    given to everything restored; `opener` opens what its own mode closes to us; `bring` is as
    `LiveTree` has it. Without a restore the first flush reads from the store what is there, so a new mirror can be made
    over a directory that is in use. Unless it `removes`, the store keeps what the directory does not have: it holds a
    part of the workspace alone.
    """

    on_flushed: Callable[[AsOf | None], None] | None = None
    """Called after each complete flush with what it is as of; it raises nothing."""

    def __init__(
        self,
        directory: str,
        store: ObjectStore,
        prefix: str,
        *,
        owner: tuple[int, int] | None = None,
        limits: TransferLimits | None = None,
        executor: Executor,
        restore_executor: Executor | None = None,
        opener: Opener | None = None,
        bring: Bring | None = None,
        removes: bool = True,
    ) -> None:
        self._directory, self._opener, self._owner = directory, opener, owner
        self._limits = limits or TransferLimits()
        self._executor = executor
        self._durable = DurableFiles(store, prefix, self._limits.manifest_bytes)
        self.tree = LiveTree(self._limits, opener, Watch() if self._limits.watch else None, bring)
        """What is in the directory, for all who want to know what changes in it."""
        self._flusher = Flusher(self._durable, self._limits, self.tree, removes=removes)
        self._identity: tuple[int, int] | None = None
        self._restore_executor = restore_executor or executor
        self._restoration: Restoration | None = None
        self._restored = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._requested = self._completed = self._final = 0
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waiters: dict[asyncio.Future[FlushReport], int] = {}
        self._last_flush_at: float | None = None
        self._error: str | None = None
        self._asked: AsOf | None = None
        self._durable_as_of: AsOf | None = None
        self._told = False
        self._report: FlushReport | None = None
        self._retry_at: float | None = None
        self._failing = False

    @property
    def state(self) -> MirrorState:
        pending = self._requested > self._completed
        left = self._flusher.left if pending else Pending()
        return MirrorState(
            self._last_flush_at,
            pending,
            self._error,
            self._durable_as_of,
            left.files,
            left.size_bytes,
            self._retry_at,
            self._restoring(),
            self._told,
        )

    async def restore(self) -> RestoreReport:
        """Fill the directory from the store; before any code runs in it, and before any flush."""
        await self.begin_restore()
        return await self.wait_restored()

    async def begin_restore(self) -> bool:
        """Read what the store has and lay the directory out; many or large files then come with `wait_restored`.

        Whether all is there already, as in a new workspace: then `wait_restored` does not wait.

        No code may run in the directory before `wait_restored`, and no flush is made: it would remove what is still to
        come. Raises `StoreUnavailable` (retryable), `DirectoryFull` and the like; `wait_restored` tries again.
        """
        self._check_open()
        if self._restoration is None:
            self._restoration = Restoration(self._durable, self._limits, self._filling)
        await self._restoration.begin()
        return self._restoration.report is not None

    async def wait_restored(self, deadline_seconds: float | None = None) -> RestoreReport:
        """Wait for the restore that was begun, which is taken up again where it had given up.

        Raises `RestoreIncomplete` (retryable), which says how far it is, `DirectoryFull` and the like.
        """
        if self._restoration is None:
            raise NotRestored("no restore was begun")
        report = await self._restoration.wait(deadline_seconds)
        if not self._restored.is_set():
            self._flusher.start_from(self._restoration.take_baseline(), self._restoration.execution)
            self._restored.set()
        return report

    def request_flush(self, as_of: AsOf | None = None) -> int:
        """Ask for a flush soon; returns at once, with a ticket for `wait_flushed`.

        Called on the event loop after each execution, with that execution: the flush that covers this request says in
        its manifest that it is as of it, or as of a newer one.
        """
        self._asked = as_of or self._asked
        return self._request()

    async def flush(self, deadline_seconds: float, *, final: bool = False) -> FlushReport:
        """Complete a flush that began after this call. Raises `FlushIncomplete` naming what is left.

        A `final` one trusts no sign that a file is unchanged which the code could have kept on purpose. The background
        task goes on trying after the deadline, until `aclose`.
        """
        self._require_restored()
        if final:
            self._final = self._requested + 1
        return await self.wait_flushed(self._request(), deadline_seconds)

    async def wait_flushed(self, ticket: int, deadline_seconds: float) -> FlushReport:
        """Wait until the flush that this ticket was given for is complete; raises as `flush` does."""
        if self._report is not None and ticket <= self._completed:
            return self._report
        self._require_restored()
        self._check_open()
        self._hurry.set()
        waiter: asyncio.Future[FlushReport] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = ticket
        try:
            async with asyncio.timeout(deadline_seconds):
                return await waiter
        except TimeoutError:
            reason = f"the flush did not complete within {deadline_seconds:g} s"
            raise FlushIncomplete(f"{reason} ({self._error})" if self._error else reason, self._left()) from None
        finally:
            del self._waiters[waiter]

    async def aclose(self) -> None:
        """Stop flushing; what still waits stays unwritten, and who waits for it gets an error. Safe to call again."""
        self._closed = True
        if self._restoration is not None:
            await self._restoration.aclose()
        task = self._task
        if task is not None and not task.done():
            for seconds in (self._limits.close_seconds, _ABANDON_SECONDS):
                task.cancel()
                await asyncio.wait([task], timeout=seconds)
                if task.done():
                    break
        self._fail(self._requested, MirrorClosed("the mirror was closed before the flush was complete"))
        # Nobody waits for it: the kernel takes 10 to 20 ms to close an inotify instance, a third of a session's stop.
        asyncio.get_running_loop().run_in_executor(None, self.tree.close)

    def _request(self) -> int:
        self._check_open()
        idle = self._requested == self._completed
        self._requested += 1
        if idle and self._finish_if_quiet():
            return self._requested
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="workspace mirror")
        return self._requested

    def _finish_if_quiet(self) -> bool:
        """When nothing changed since the last flush, that one is as of now, without a thread, a walk or a manifest."""
        final = self._final > self._completed
        if self._report is None or final or not self._flusher.has_nothing_to_do():
            return False
        report = replace(self._report, execution=self._asked or self._report.execution)
        self._note_success(report, self._requested, self._asked)
        return True

    def _restoring(self) -> Restoring | None:
        return None if self._restoration is None or self._restored.is_set() else self._restoration.restoring

    def _require_restored(self) -> None:
        if self._restoration is not None and not self._restored.is_set():
            raise NotRestored("the workspace is not restored yet, so nothing is flushed over what is durable")

    def _check_open(self) -> None:
        if self._closed:
            raise MirrorClosed("the mirror is closed")

    async def _run(self) -> None:
        """The background task: flush whenever wanted, pause longer after each failure."""
        failures, began = 0, -math.inf
        while True:
            await self._wanted.wait()
            if self._restoration is not None:
                await self._restored.wait()
            since = time.monotonic() - began
            await self._unless_hurried(max(self._limits.settle_seconds, self._limits.between_seconds - since))
            began = time.monotonic()
            # No `await` from here to the attempt: a request that comes later wants another flush.
            self._wanted.clear()
            self._hurry.clear()
            number, as_of = self._requested, self._asked
            final = self._final > self._completed
            try:
                report = await self._attempt(as_of, final=final)
            except Exception as error:
                failures += 1
                self._note_failure(error, number, failures)
                await self._pause(failures)
                self._wanted.set()
            else:
                failures = 0
                self._note_success(report, number, as_of)

    async def _attempt(self, as_of: AsOf | None, *, final: bool) -> FlushReport:
        threads = Threads(self._executor, self._limits.concurrency)
        try:
            with self._transfer(threads) as transfer:
                async with asyncio.timeout(self._limits.attempt_seconds):
                    return await self._flusher.flush(transfer, threads, as_of, final=final)
        except TimeoutError as error:
            seconds = self._limits.attempt_seconds
            raise StoreUnavailable(
                f"{self._durable.store.description}: a flush took longer than {seconds:g} s"
            ) from error

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt, shorter when a caller of `flush` is waiting."""
        pause = self._limits.pause_seconds(failures, _jitter.random())
        self._retry_at = time.time() + pause
        await self._unless_hurried(pause)
        self._retry_at = None

    async def _unless_hurried(self, seconds: float) -> None:
        """Wait; not at all when a caller of `flush` is waiting."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _note_success(self, report: FlushReport, number: int, as_of: AsOf | None) -> None:
        if self._failing:
            log.info("workspace_flush_recovered", prefix=self._durable.prefix)
        self._completed, self._report = number, report
        if self.on_flushed is not None:
            self.on_flushed(as_of)
        own = report.execution if self._restoration is None else None  # else it may be of an earlier session
        self._durable_as_of, self._told = as_of or own, as_of is not None
        self._last_flush_at = time.time()
        self._error, self._failing = _complaint(report.skipped), False
        for waiter, wanted in self._waiters.items():
            if wanted <= number and not waiter.done():
                waiter.set_result(report)

    def _note_failure(self, error: Exception, number: int, failures: int) -> None:
        known, self._failing = isinstance(error, WorkspaceSyncError), True
        self._error = str(error) if known else f"the flush failed: {type(error).__name__}"
        log.warning("workspace_flush_failed", prefix=self._durable.prefix, error=self._error, exc_info=not known)
        hopeful = isinstance(error, WorkspaceSyncError) and error.retryable
        if not hopeful or failures >= self._limits.flush_attempts:
            self._fail(number, FlushIncomplete(self._error, self._left()))

    def _fail(self, number: int, error: WorkspaceSyncError) -> None:
        for waiter, wanted in self._waiters.items():
            if wanted <= number and not waiter.done():
                waiter.set_exception(error)

    def _left(self) -> tuple[str, ...]:
        left = self._flusher.left
        return tuple(escape(path) for path in sorted(left.paths[number] for number in left.left()))

    @contextlib.contextmanager
    def _filling(self) -> Iterator[tuple[Transfer, Threads]]:
        threads = Threads(self._restore_executor, self._limits.concurrency)
        with self._transfer(threads) as transfer:
            yield transfer, threads

    @contextlib.contextmanager
    def _transfer(self, threads: Threads) -> Iterator[Transfer]:
        """Open the directory, which must be the one it was the first time: an unmounted one looks empty."""
        try:
            root = os.open(self._directory, DIRECTORY)
        except OSError as error:
            raise DirectoryUnusable(f"the workspace directory cannot be opened: {error.strerror}") from error
        try:
            status = os.fstat(root)
            identity = (status.st_dev, status.st_ino)
            if self._identity not in (None, identity):
                raise DirectoryUnusable("the workspace directory was replaced by another; nothing is mirrored from it")
            self._identity = identity
            yield Transfer(
                root,
                self._durable.store,
                self._durable.files_prefix,
                self._owner,
                self._limits,
                threads.stop,
                self._opener,
            )
        finally:
            threads.call_when_idle(partial(os.close, root))  # a job that was given up may hold it for a while yet


def _complaint(skipped: tuple[Skipped, ...]) -> str | None:
    if not skipped:
        return None
    first = skipped[0]
    more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    return f"not mirrored: {first.path} ({first.reason}){more}"
