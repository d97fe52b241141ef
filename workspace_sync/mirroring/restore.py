"""From the store to a live directory: laid out first, then filled, smallest files first, by a task of its own.

No code may look into the directory before the restore is complete. What fails because the store is away is tried again,
going on where it stopped, for as long as something arrives every so often; after that the next caller that waits begins
it again.
"""

from __future__ import annotations

import asyncio
import bisect
import os
import random
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from workspace_sync.entry import Entry, Kind
from workspace_sync.errors import (
    DirectoryFull,
    MirrorClosed,
    RestoreIncomplete,
    StoreError,
    StoreUnavailable,
    WorkspaceSyncError,
)
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import AsOf, Skipped
from workspace_sync.mirroring.baseline import Baseline, Seen
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.mirroring.pending import Pending
from workspace_sync.mirroring.plan import Remote
from workspace_sync.mirroring.transfer import (
    Transfer,
    check_stop,
    finish_directory,
    keep_if_settled,
    make_directory,
    make_link,
    unusable,
)
from workspace_sync.names import escape, key_of
from workspace_sync.store import Opened
from workspace_sync.threads import Threads

log = structlog.get_logger()
_jitter = random.SystemRandom()
Work = Callable[[], AbstractContextManager[tuple[Transfer, Threads]]]
"""Opens the live directory for one attempt."""
Result = TypeVar("Result")
ABANDON_SECONDS = 1.0
SMALL_BYTES = 64 * 1024
"""Files up to this size are fetched several by one job, which asks for them ahead of their turn."""
LARGE_BYTES = 1 << 20
"""Larger ones are not asked for ahead: S3 would send their beginning so, and the rest by another request."""
SMALL_FILES = 32
"""What one such job fetches."""
SMALL_THREADS = 2
"""What small files cost is the processor: more threads would only keep each other from the interpreter."""
SLOWEST = 100_000
"""Bytes a second: an attempt that brings fewer is given up, and goes on with the file it had begun from its start."""
VANISHED = "was removed from the store while the workspace was restored"


class RestoreReport(msgspec.Struct, frozen=True):
    """What a restore brought: counts, bytes, what the manifest was as of, and what was left out with the reason."""

    files: int
    directories: int
    links: int
    size_bytes: int
    as_of: str
    skipped: tuple[Skipped, ...]


class Restoring(msgspec.Struct, frozen=True):
    """What is still to come, None before the store has been listed; `error` is why nothing comes at present."""

    files_left: int | None = None
    bytes_left: int | None = None
    error: str | None = None


class Restoration:
    """One workspace on its way into one live directory. `begin`, then `wait`; `aclose` gives it up."""

    def __init__(self, durable: DurableFiles, limits: TransferLimits, work: Work) -> None:
        self.report: RestoreReport | None = None
        """Set once it is complete."""
        self.execution: AsOf | None = None
        """What the store is as of."""
        self._durable = durable
        self._limits = limits
        self._work = work
        self._remote: Remote | None = None
        self._laid_out = False
        self._made: list[Entry] = []
        self._skipped: list[Skipped] = []
        self._baseline = Baseline()
        self._left = Pending()
        self._guard = threading.Lock()
        self._error: str | None = None
        self._task: asyncio.Task[WorkspaceSyncError | None] | None = None
        self._closed = False

    @property
    def restoring(self) -> Restoring | None:
        """How far it is; None once it is complete."""
        if self.report is not None:
            return None
        if self._remote is None:
            return Restoring(error=self._error)
        return Restoring(self._left.files, self._left.size_bytes, self._error)

    async def begin(self) -> None:
        """Read what the store has, make directories and links; a few small files then come by themselves.

        Many or large ones begin to come with the first `wait`, to leave processor and disk to what starts meanwhile.
        What may not fit is restored to its end at once, so that it can still be refused. Raises what goes wrong; then
        nothing comes until `wait` begins it again.
        """
        if self.report is not None or (self._task is not None and not self._task.done()):
            return
        try:
            fits = await self._attempt(self._lay_out)
        except WorkspaceSyncError as error:
            self._error = str(error)
            raise
        if self.report is not None or (fits and self._left.size_bytes > self._limits.at_once_bytes):
            return
        task = self._bringing()
        if not fits:
            # It ends: an attempt has a deadline, and there is none more once `restore_seconds` have brought nothing.
            await asyncio.wait([task])
            if not task.cancelled() and (failure := task.result()) is not None:
                raise failure

    async def wait(self, seconds: float | None = None) -> RestoreReport:
        """The report, once it is complete; begins again what had given up.

        Raises `RestoreIncomplete` (retryable) when it is not complete in time or the store does not give it,
        `DirectoryFull` and the like, `MirrorClosed`.
        """
        if self.report is None:
            task = self._bringing()
            await asyncio.wait([task], timeout=seconds)
            if not task.done():
                why = f" ({self._error})" if self._error else ""
                raise RestoreIncomplete(
                    f"the workspace is still being restored: {self._how_far()}{why}; try again later"
                )
            error = MirrorClosed("the restore was given up") if task.cancelled() else task.result()
            if isinstance(error, StoreError):
                raise RestoreIncomplete(f"{error}; the workspace is not restored yet: {self._how_far()}; try again")
            if error is not None:
                raise error
        if self.report is None:
            raise MirrorClosed("the restore was given up")
        return self.report

    def take_baseline(self) -> Baseline:
        """What the store and the directory both have, for the first flush; once."""
        baseline, self._baseline = self._baseline, Baseline()
        return baseline

    async def aclose(self) -> None:
        """Stop; what has come stays. Safe to call again."""
        self._closed = True
        task = self._task
        for seconds in (self._limits.close_seconds, ABANDON_SECONDS):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=seconds)

    def _bringing(self) -> asyncio.Task[WorkspaceSyncError | None]:
        if self._closed:
            raise MirrorClosed("the mirror is closed")
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._bring_all(), name="workspace restore")
        return self._task

    def _how_far(self) -> str:
        if self._remote is None:
            return "the store has not been listed yet"
        return f"{self._left.files:,} files with {self._left.size_bytes:,} bytes are still to come"

    async def _bring_all(self) -> WorkspaceSyncError | None:
        """Until all is there; returns the error that ended it otherwise."""
        failures, moved_at = 0, time.monotonic()
        while True:
            before = self._how_far()
            try:
                if not self._laid_out:
                    await self._attempt(self._lay_out)
                if self.report is None:
                    await self._attempt(self._bring)
            except Exception as error:
                known = isinstance(error, WorkspaceSyncError)
                failure = error if isinstance(error, WorkspaceSyncError) else WorkspaceSyncError(_defect(error))
                if self._how_far() != before:
                    failures, moved_at = 0, time.monotonic()
                failures += 1
                self._error = str(failure)
                log.warning("workspace_restore_failed", prefix=self._durable.prefix, error=self._error,
                            exc_info=not known)  # fmt: skip
                if not failure.retryable or time.monotonic() - moved_at >= self._limits.restore_seconds:
                    return failure
                await asyncio.sleep(self._limits.pause_seconds(failures, _jitter.random()))
            else:
                self._error = None
                return None

    async def _attempt(self, step: Callable[[Transfer, Threads], Awaitable[Result]]) -> Result:
        seconds = self._limits.attempt_seconds + self._left.size_bytes / SLOWEST
        try:
            async with asyncio.timeout(seconds):
                with self._work() as (transfer, threads):
                    return await step(transfer, threads)
        except TimeoutError as error:
            raise StoreUnavailable(
                f"{self._durable.store.description}: a restore took longer than {seconds:,.0f} s"
            ) from error

    async def _lay_out(self, transfer: Transfer, threads: Threads) -> bool:
        """Make directories and links; returns whether the files fit for certain into what room there is."""
        fits = await threads.run(partial(self._make_all, transfer))
        self._laid_out = True
        return fits

    def _make_all(self, transfer: Transfer) -> bool:
        """In a thread, all at once: most workspaces are new, and the way to a thread costs more than all of this."""
        remote = self._remote
        if remote is None:
            remote = self._durable.load()
            self._left, self.execution = _smallest_first(remote), remote.execution
            self._remote = remote  # last: from here on it can be told what is left
            check_stop(transfer.stop)
        self._skipped = list(remote.skipped)
        _make(transfer, _of_kind(remote, "directory"), self._skipped)
        self._made = _make(transfer, _of_kind(remote, "link"), self._skipped)
        if not remote.entries:
            self._finish(self._conclude(transfer, remote))
            return True
        disk = os.fstatvfs(transfer.root)
        blocks = sum(self._left.size(number) // disk.f_frsize + 1 for number in self._left.left())
        return blocks <= disk.f_bavail and self._left.files <= disk.f_favail

    async def _bring(self, transfer: Transfer, threads: Threads) -> None:
        """Fetch what is left, smallest first, then give directories their modes."""
        remote, left = self._remote or Remote(), self._left

        def fetch(number: int, opened: Opened | None = None) -> None:
            path = left.paths[number]
            self._note(number, transfer.fetch(remote.entries[path], remote.keys[path], opened))
            check_stop(transfer.stop)

        def fetch_ahead(numbers: Sequence[int]) -> None:
            wanted = ((number, transfer.prefix + remote.keys[left.paths[number]]) for number in numbers)
            with transfer.store.get_ahead(wanted) as asked:
                for number, opened in asked:
                    fetch(number, opened)

        numbers = array("Q", left.left())
        small, large = (bisect.bisect_right(numbers, bound, key=left.size) for bound in (SMALL_BYTES, LARGE_BYTES))
        batches = (numbers[start : min(start + SMALL_FILES, small)] for start in range(0, small, SMALL_FILES))
        await threads.each(fetch_ahead, batches, at_once=SMALL_THREADS)
        await threads.each(fetch_ahead, ([number] for number in numbers[small:large]))
        await threads.each(fetch, numbers[large:])
        self._finish(await threads.run(partial(self._conclude, transfer, remote)))

    def _finish(self, report: RestoreReport) -> None:
        """All is there; what was needed on the way is let go of."""
        self.report = report
        self._remote, self._made, self._left = None, [], Pending()

    def _note(self, number: int, seen: Seen | None) -> None:
        """A file has come, or is gone; called in the thread that fetched it, so that it is seen at once."""
        with self._guard:
            self._left.done(number)
            self._error = None
            if seen is None:
                self._skipped.append(Skipped(escape(self._left.paths[number]), VANISHED))
            else:
                self._baseline[seen.entry.path] = seen

    def _conclude(self, transfer: Transfer, remote: Remote) -> RestoreReport:
        directories = _of_kind(remote, "directory")
        for entry in reversed(directories):
            try:
                finish_directory(transfer.root, entry)
            except OSError as error:
                raise unusable(entry.path, error) from error
        end_ns = time.time_ns()
        files = size = 0
        for path, seen in self._baseline.items():
            if seen.entry.kind != "file":  # of an attempt that was cut off right here
                continue
            if (settled_now := _settle(seen, end_ns)) != seen:
                self._baseline[path] = settled_now
            files, size = files + 1, size + seen.entry.size
        for entry in [*directories, *self._made]:
            self._baseline[entry.path] = Seen(entry)
        return RestoreReport(files, len(directories), len(self._made), size, remote.as_of, tuple(self._skipped))


def _smallest_first(remote: Remote) -> Pending:
    paths = list(remote.keys)
    sizes = [remote.entries[path].size for path in paths]
    return Pending((paths[index], sizes[index]) for index in sorted(range(len(paths)), key=sizes.__getitem__))


def _of_kind(remote: Remote, kind: Kind) -> list[Entry]:
    return [entry for entry in remote.entries.values() if entry.kind == kind]


def _settle(seen: Seen, moment_ns: int) -> Seen:
    """Trust a restored file's signature, unless it is too fresh or the file has to be sent under its proper key."""
    if seen.signature is None or seen.key != key_of(seen.entry.path):
        return replace(seen, signature=None)
    return replace(seen, signature=keep_if_settled(seen.signature, moment_ns))


def _make(transfer: Transfer, entries: list[Entry], skipped: list[Skipped]) -> list[Entry]:
    """Make directories or links; a link that cannot be made (a store may name anything) is left out and told."""
    made = []
    for entry in entries:
        make = make_link if entry.kind == "link" else make_directory
        try:
            make(transfer.root, entry, transfer.owner)
        except OSError as error:
            failure = unusable(entry.path, error)
            if entry.kind != "link" or isinstance(failure, DirectoryFull):
                raise failure from error
            skipped.append(Skipped(escape(entry.path), str(failure)))
        else:
            made.append(entry)
    return made


def _defect(error: Exception) -> str:
    return f"the restore failed: {type(error).__name__}"
