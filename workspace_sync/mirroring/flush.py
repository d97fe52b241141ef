"""One attempt to make the store equal to the live directory: files first, manifest last.

Keeps the baseline (what the store has by our doing) up to date step by step, so an attempt after a failed one goes on
where that stopped. A file that cannot be written does not keep the others from being written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from workspace_sync.directory.scan import Scan, is_below
from workspace_sync.directory.tree import LiveTree, Look
from workspace_sync.entry import Entry
from workspace_sync.errors import (
    DirectoryUnusable,
    FlushIncomplete,
    StoreUnavailable,
    StoreUnusable,
    WorkspaceSyncError,
)
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import AsOf, Skipped, as_text
from workspace_sync.mirroring.baseline import Baseline, Seen
from workspace_sync.mirroring.copies import Copies, copies_of, copy_to
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.mirroring.pending import Pending
from workspace_sync.mirroring.plan import FlushPlan, baseline_of, plan_flush
from workspace_sync.mirroring.transfer import SETTLED_NANOSECONDS, Transfer
from workspace_sync.names import escape, key_of
from workspace_sync.threads import Threads


@dataclass(frozen=True)
class FlushReport:
    """What a flush did: files in the mirror, files sent, copied inside the store, keys removed; what is left out, why.

    `execution` is the one the store is as of now.
    """

    files: int
    sent: int
    removed: int
    as_of: str
    execution: AsOf | None = None
    skipped: tuple[Skipped, ...] = ()
    special_files: int = 0
    copied: int = 0


class FlushFailed(WorkspaceSyncError):
    """Some files could not be written while the rest was; only the mirror sees it."""

    def __init__(self, failures: dict[bytes, WorkspaceSyncError]) -> None:
        first = next(iter(failures.values()))
        super().__init__(str(FlushIncomplete(str(first), tuple(escape(path) for path in failures))))
        self.retryable = any(error.retryable for error in failures.values())


class Flusher:
    """Flushes of one directory, one after another. `left`: what one still has to write or remove.

    Unless it `removes`, the store keeps what the directory does not have.
    """

    def __init__(self, durable: DurableFiles, limits: TransferLimits, tree: LiveTree, *, removes: bool = True) -> None:
        self._durable = durable
        self._limits = limits
        self._tree = tree
        self._removes = removes
        self._journal = tree.journal()
        self._baseline: Baseline | None = None
        self._settled = False
        """Whether what the last manifest says and what changed since, all that is owed, is known for sure."""
        self._execution: AsOf | None = None
        self._owed: set[bytes] = set()
        self._skipping = False
        self._files = 0
        self._bound: tuple[bytes, frozenset[bytes]] | None = None
        """What kept names out of the last manifest."""
        self._read_since_ns = 0
        self.left = Pending()

    def start_from(self, baseline: Baseline, execution: AsOf | None = None) -> None:
        """Take what a restore brought as what the store has; the first flush writes the manifest again."""
        self._baseline = baseline
        self._settled = False
        self._execution = execution
        self._read_since_ns = time.time_ns() - SETTLED_NANOSECONDS

    def has_nothing_to_do(self) -> bool:
        """Whether the store has all that the directory has; costs next to nothing, and says no when it is not known."""
        return self._settled and not self._owed and self._tree.is_quiet(self._journal) and not self._is_due()

    async def flush(
        self, transfer: Transfer, threads: Threads, as_of: AsOf | None = None, *, final: bool = False
    ) -> FlushReport:
        """Bring the store up to date, as of an execution that has ended. Raises `WorkspaceSyncError`.

        A `final` one walks the whole directory, and reads every file that changed since the restore.
        """
        baseline = await self._load_baseline(threads)
        moment = datetime.now(UTC)
        look, plan, copies = await threads.run(partial(self._prepare, transfer, baseline, final=final))
        clear, delete, send = _numbers(plan)
        plan.send.clear()  # what is left has them
        # First: a store on a file system cannot hold a file where a directory is to be, nor the other way round.
        await self._remove(clear, baseline, threads)
        sending = _Sending(transfer, copies, baseline, self.left)
        stale = await sending.run(send, threads)
        # Old keys go once all else is there, and the manifest comes last: it names nothing too early.
        if stale:
            await threads.run(partial(self._delete, stale))
        await self._remove(delete, baseline, threads)
        if not sending.failures:  # else the files are of several moments
            self._execution = as_of or self._execution
        files = await threads.run(partial(self._conclude, plan, baseline, look.scan, moment))
        self._owed = set(sending.failures)  # not before the manifest is written: without it nothing counts as sent
        self._skipping = bool(plan.skipped)
        if sending.failures:
            raise FlushFailed(sending.failures)
        taken = as_text(moment)
        removed = len(plan.clear) + len(plan.delete)
        skipped, special = tuple(plan.skipped), len(look.scan.special)
        return FlushReport(files, sending.sent, removed, taken, self._execution, skipped, special, sending.copied)

    def _is_due(self) -> bool:
        return self._tree.is_due(self._limits.walk_every_seconds, self._limits.walk_share)

    def _prepare(self, transfer: Transfer, baseline: Baseline, *, final: bool) -> tuple[Look, FlushPlan, Copies]:
        """In a thread: what there is, what is to be done, and what need not be sent for it."""
        look, plan = self._plan(transfer, baseline, final=final)
        for path in plan.gone:
            del baseline[path]
        sizes = ((path, look.scan.entries[path].size) for path in plan.send)
        # In this order: `_numbers` counts on it.
        self.left = Pending(chain(((path, 0) for path in (*plan.clear, *plan.delete)), sizes))
        return look, plan, copies_of(plan, baseline, look.scan, trusting=not final)

    def _plan(self, transfer: Transfer, baseline: Baseline, *, final: bool) -> tuple[Look, FlushPlan]:
        """Look at what changed, at everything where that has to be, and say what is to be done."""
        part = self._settled and not self._skipping and not final
        look = self._look(transfer, walk=final or self._is_due(), part=part, last=final)
        if not look.whole:
            # Only what changed was looked at, and it is planned alone. Where it does not fit beside the rest, the rest
            # has a say in what stays out: then everything is looked at.
            known = Baseline({path: baseline[path] for path in self._owed if path in baseline})
            room = self._limits.workspace_bytes - (baseline.file_bytes - known.file_bytes)
            if sum(entry.size for entry in look.scan.entries.values()) <= room:
                return look, plan_flush(known, look.scan, room, removes=self._removes)
            look = self._look(transfer, walk=False, part=False)
        since = self._read_since_ns if final else math.inf
        room = self._limits.workspace_bytes
        return look, plan_flush(baseline, look.scan, room, since, removes=self._removes)

    def _look(self, transfer: Transfer, *, walk: bool, part: bool, last: bool = False) -> Look:
        """What there is; what changed is owed from then on, whatever becomes of this attempt."""
        also = self._owed if part else None
        seconds = self._limits.attempt_seconds
        until = time.monotonic() + seconds
        try:
            look = self._tree.look(
                transfer.root, self._journal, also=also, walk=walk, last=last, until=until, wait_seconds=seconds
            )
        except OSError as error:
            raise DirectoryUnusable(f"the workspace directory cannot be read: {error.strerror}") from error
        if look.changed is None:  # the watch has lost track: anything may have changed
            self._settled = False
        else:
            self._owed |= look.changed.keys()
        return look

    def _conclude(self, plan: FlushPlan, baseline: Baseline, scan: Scan, moment: datetime) -> int:
        """In a thread, once all is sent: write the manifest; returns the number of files that it names."""
        for entry in plan.others:
            baseline[entry.path] = Seen(entry)
        bound = None if scan.cut is None else (scan.cut, frozenset(scan.unread))
        if baseline.changed or not self._settled or bound != self._bound:
            self._settled = False  # the store may have it although it does not say so
            with self._durable.changing:
                self._files = self._durable.write_manifest(_rows(baseline, scan), moment, self._execution)
            baseline.changed, self._settled, self._bound = False, True, bound
        return self._files

    async def _load_baseline(self, threads: Threads) -> Baseline:
        """The baseline; read from the store when this directory was filled by another mirror than this one."""
        if self._baseline is None:
            remote = await threads.run(self._durable.load)
            self._baseline, self._execution = baseline_of(remote), remote.execution
            self._read_since_ns = time.time_ns() - SETTLED_NANOSECONDS  # the first flush reads every file as it is
        return self._baseline

    async def _remove(self, numbers: range, baseline: Baseline, threads: Threads) -> None:
        if numbers:
            paths = self.left.paths[numbers.start : numbers.stop]
            await threads.run(partial(self._forget, paths, baseline))
            for number in numbers:
                self.left.done(number)

    def _forget(self, paths: list[bytes], baseline: Baseline) -> None:
        """In a thread: remove them from the store."""
        for path in paths:
            baseline[path] = baseline[path].unsure()  # before: if no answer comes it may be gone or not
        self._delete([baseline[path].key for path in paths])
        for path in paths:
            del baseline[path]

    def _delete(self, keys: list[str]) -> None:
        self._durable.store.delete([self._durable.files_prefix + key for key in keys])


def _numbers(plan: FlushPlan) -> tuple[range, range, range]:
    """Of what is to be cleared, deleted and sent, one after the other."""
    clear, delete = len(plan.clear), len(plan.clear) + len(plan.delete)
    return range(clear), range(clear, delete), range(delete, delete + len(plan.send))


class _Sending:
    """The files of one flush on their way; what became of each is known at once, also when a later one fails."""

    def __init__(
        self,
        transfer: Transfer,
        copies: Copies,
        baseline: Baseline,
        left: Pending,
    ) -> None:
        self.failures: dict[bytes, WorkspaceSyncError] = {}
        self.sent = 0
        self.copied = 0
        self._transfer = transfer
        self._copies = copies
        self._baseline = baseline
        self._left = left
        self._stale: list[str] = []

    async def run(self, numbers: range, threads: Threads) -> list[str]:
        """Send or copy them all; returns the keys that hold nothing of the workspace any more."""
        await threads.each(self._one, numbers, note=self._note)
        return self._stale

    def _one(self, number: int) -> tuple[int, Seen | None, bool]:
        """In a thread: the file as the store has it then, None when it is gone; and whether it was copied."""
        path = self._left.paths[number]
        before = self._baseline.get(path)
        try:
            is_new = before is None or before.entry.size != self._copies.signatures[path].size
            copied = self._copy(path) if is_new else None
            return number, copied or self._transfer.send(path, before), copied is not None
        except (StoreUnavailable, StoreUnusable):
            # No answer came: the store may have these bytes, those before, or a part of neither.
            self._baseline[path] = (before or Seen(Entry(path, "file"), key_of(path))).unsure()
            raise  # it would be the same for every other file
        except WorkspaceSyncError as error:
            self.failures[path] = error
            return number, None, False

    def _copy(self, path: bytes) -> Seen | None:
        try:
            return copy_to(self._transfer, path, self._copies)
        except OSError:
            return None  # said better when it is sent

    def _note(self, result: tuple[int, Seen | None, bool]) -> None:
        number, now, copied = result
        path = self._left.paths[number]
        before = self._baseline.get(path)
        if now is not None:
            if before is not None and before.key not in ("", now.key):
                # It lies under another key now, and the old one holds nothing of the workspace any more.
                self._stale.append(before.key)
            self._baseline[path] = now
            self.copied += copied
            self.sent += not copied and (before is None or _holds_other_bytes(before, now))
        if path not in self.failures:
            self._left.done(number)


def _rows(baseline: Baseline, scan: Scan) -> Iterator[Entry]:
    """What the manifest names, in order of path; it has no room for what is beyond its bound."""
    for path, seen in baseline.items():
        if seen.ours and (not scan.is_beyond(path) or is_below(path, scan.unread)):
            yield seen.entry


def _holds_other_bytes(before: Seen, now: Seen) -> bool:
    return before.key != now.key or before.entry.sha256 != now.entry.sha256
