"""One live directory mirrored to one prefix of a store: restore, flush in the background, report.

One task per mirror does all flushing, so two flushes of a directory never overlap. Requests made while one runs
become one more run. What fails is tried again until it succeeds or the mirror is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass

import structlog

from workspace_sync.confined import DIRECTORY, Opener
from workspace_sync.durable import DurableFiles
from workspace_sync.errors import (
    DirectoryUnusable,
    FlushIncomplete,
    MirrorClosed,
    NotRestored,
    StoreUnavailable,
    WorkspaceSyncError,
)
from workspace_sync.flush import Flusher, FlushReport
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import Skipped
from workspace_sync.names import escape
from workspace_sync.restore import RestoreReport, restore
from workspace_sync.store import ObjectStore
from workspace_sync.threads import Threads
from workspace_sync.transfer import Transfer

log = structlog.get_logger()
_jitter = random.SystemRandom()
_ABANDON_SECONDS = 1.0


@dataclass(frozen=True)
class MirrorState:
    """How far the mirror is: the last complete flush (epoch seconds), whether something waits, the last error."""

    last_flush_at: float | None = None
    pending: bool = False
    error: str | None = None


class Mirror:
    """A directory and its durable copy. All methods belong to one event loop; blocking work runs in `executor`.

    `owner` (uid, gid) is given to everything restored; `opener` opens what its own mode closes to us. Without a
    `restore` the first flush reads from the store what is there, so a mirror can be made anew over a directory that is
    in use.
    """

    def __init__(
        self,
        directory: str,
        store: ObjectStore,
        prefix: str,
        *,
        owner: tuple[int, int] | None = None,
        limits: TransferLimits | None = None,
        executor: Executor,
        opener: Opener | None = None,
    ) -> None:
        self._directory = directory
        self._opener = opener
        self._owner = owner
        self._limits = limits or TransferLimits()
        self._executor = executor
        self._durable = DurableFiles(store, prefix, self._limits.manifest_bytes)
        self._flusher = Flusher(self._durable, self._limits)
        self._identity: tuple[int, int] | None = None
        self._restore_failed = False
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._requested = 0
        self._completed = 0
        self._wanted = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waiters: dict[asyncio.Future[FlushReport], int] = {}
        self._last_flush_at: float | None = None
        self._error: str | None = None

    @property
    def state(self) -> MirrorState:
        return MirrorState(self._last_flush_at, self._requested > self._completed, self._error)

    async def restore(self) -> RestoreReport:
        """Fill the directory from the store; before any code runs in it, and before any flush.

        Raises `StoreUnavailable` (retryable: call again), `DirectoryFull` and their kin. Until a restore that was
        begun succeeds, no flush is made: it would remove what was not restored yet.
        """
        self._check_open()
        self._restore_failed = True
        threads = Threads(self._executor, self._limits.concurrency)
        try:
            with self._transfer(threads) as transfer:
                async with asyncio.timeout(self._limits.attempt_seconds):
                    report, baseline = await restore(self._durable, transfer, threads)
        except TimeoutError as error:
            raise self._too_slow("restore") from error
        self._flusher.start_from(baseline)
        self._restore_failed = False
        return report

    def request_flush(self) -> None:
        """Ask for a flush soon; returns at once. Called after each execution, on the event loop."""
        self._request()

    async def flush(self, deadline_seconds: float) -> FlushReport:
        """Complete a flush that began after this call. Raises `FlushIncomplete` naming what is left.

        The background task goes on trying after the deadline, until `aclose`.
        """
        number = self._request()
        self._hurry.set()
        waiter: asyncio.Future[FlushReport] = asyncio.get_running_loop().create_future()
        self._waiters[waiter] = number
        try:
            async with asyncio.timeout(deadline_seconds):
                return await waiter
        except TimeoutError:
            reason = f"the flush did not complete within {deadline_seconds:g} s"
            raise FlushIncomplete(f"{reason} ({self._error})" if self._error else reason, self._left()) from None
        finally:
            del self._waiters[waiter]

    async def aclose(self) -> None:
        """Stop flushing; what still waits stays unwritten and whoever waits on it fails. Safe to call again."""
        self._closed = True
        task = self._task
        if task is not None and not task.done():
            for seconds in (self._limits.close_seconds, _ABANDON_SECONDS):
                task.cancel()
                await asyncio.wait([task], timeout=seconds)
                if task.done():
                    break
        self._fail(self._requested, MirrorClosed("the mirror was closed before the flush was complete"))

    def _request(self) -> int:
        self._check_open()
        if self._restore_failed:
            raise NotRestored("the workspace was not restored, so nothing is flushed over it; restore it first")
        self._requested += 1
        self._wanted.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="workspace mirror")
        return self._requested

    def _check_open(self) -> None:
        if self._closed:
            raise MirrorClosed("the mirror is closed")

    async def _run(self) -> None:
        """The background task: flush whenever wanted, pause longer after each failure."""
        failures = 0
        while True:
            await self._wanted.wait()
            await self._unless_hurried(self._limits.settle_seconds)
            self._wanted.clear()
            self._hurry.clear()
            number = self._requested
            try:
                report = await self._attempt()
            except Exception as error:
                failures += 1
                self._note_failure(error, number)
                await self._pause(failures)
                self._wanted.set()
            else:
                failures = 0
                self._note_success(report, number)

    async def _attempt(self) -> FlushReport:
        threads = Threads(self._executor, self._limits.concurrency)
        try:
            with self._transfer(threads) as transfer:
                async with asyncio.timeout(self._limits.attempt_seconds):
                    return await self._flusher.flush(transfer, threads)
        except TimeoutError as error:
            raise self._too_slow("flush") from error

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt, shorter when a caller of `flush` is waiting."""
        longest = min(self._limits.retry_max_seconds, self._limits.retry_seconds * 2 ** min(failures - 1, 16))
        await self._unless_hurried(longest * _jitter.uniform(0.5, 1.0))

    async def _unless_hurried(self, seconds: float) -> None:
        """Wait; not at all when a caller of `flush` is waiting."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurry.wait()

    def _note_success(self, report: FlushReport, number: int) -> None:
        if self._error is not None:
            log.info("workspace_flush_recovered", prefix=self._durable.prefix)
        self._completed = number
        self._last_flush_at = time.time()
        self._error = _complaint(report.skipped)
        for waiter, wanted in self._waiters.items():
            if wanted <= number and not waiter.done():
                waiter.set_result(report)

    def _note_failure(self, error: Exception, number: int) -> None:
        known = isinstance(error, WorkspaceSyncError)
        self._error = str(error) if known else f"the flush failed: {type(error).__name__}"
        log.warning("workspace_flush_failed", prefix=self._durable.prefix, error=self._error, exc_info=not known)
        if not (isinstance(error, WorkspaceSyncError) and error.retryable):
            self._fail(number, FlushIncomplete(self._error, self._left()))

    def _fail(self, number: int, error: WorkspaceSyncError) -> None:
        for waiter, wanted in self._waiters.items():
            if wanted <= number and not waiter.done():
                waiter.set_exception(error)

    def _left(self) -> tuple[str, ...]:
        return tuple(escape(path) for path in sorted(self._flusher.left))

    def _too_slow(self, what: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"{self._durable.store.description}: a {what} took longer than {self._limits.attempt_seconds:g} s"
        )

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
            os.close(root)


def _complaint(skipped: tuple[Skipped, ...]) -> str | None:
    if not skipped:
        return None
    first = skipped[0]
    more = f" and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    return f"not mirrored: {first.path} ({first.reason}){more}"
