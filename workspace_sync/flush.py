"""One attempt to make the store equal to the live directory: files first, manifest last.

Keeps the baseline (what the store has by our doing) up to date step by step, so an attempt after a failed one goes on
where that stopped. A file that cannot be written does not keep the others from being written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from workspace_sync.durable import DurableFiles
from workspace_sync.errors import DirectoryUnusable, FlushIncomplete, StoreUnavailable, WorkspaceSyncError
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import AsOf, Entry, Skipped
from workspace_sync.names import escape
from workspace_sync.plan import FlushPlan, Seen, baseline_of, plan_flush
from workspace_sync.scan import scan_directory
from workspace_sync.threads import Threads
from workspace_sync.transfer import Transfer


@dataclass(frozen=True)
class FlushReport:
    """What a flush did: files examined and sent, keys removed; what is left out of the mirror, with the reason."""

    files: int
    sent: int
    removed: int
    as_of: str
    execution: AsOf | None = None
    skipped: tuple[Skipped, ...] = ()
    special_files: int = 0


class FlushFailed(WorkspaceSyncError):
    """Some files could not be written while the rest was; only the mirror sees it."""

    def __init__(self, failures: dict[bytes, WorkspaceSyncError]) -> None:
        first = next(iter(failures.values()))
        super().__init__(str(FlushIncomplete(str(first), tuple(escape(path) for path in failures))))
        self.retryable = any(error.retryable for error in failures.values())


class Flusher:
    """Flushes of one directory, one after another. `left`: what one still has to write, with its size."""

    def __init__(self, durable: DurableFiles, limits: TransferLimits) -> None:
        self._durable = durable
        self._limits = limits
        self._baseline: dict[bytes, Seen] | None = None
        self._written: dict[bytes, Entry] | None = None
        self._execution: AsOf | None = None
        self.left: dict[bytes, int] = {}

    def start_from(self, baseline: dict[bytes, Seen]) -> None:
        """Take what a restore brought as what the store has; the manifest is written anew by the first flush."""
        self._baseline = baseline
        self._written = None

    async def flush(self, transfer: Transfer, threads: Threads, as_of: AsOf | None = None) -> FlushReport:
        """Bring the store up to date, as of an execution that has ended. Raises `WorkspaceSyncError`."""
        baseline = await self._known(threads)
        moment = datetime.now(UTC)
        try:
            scan = await threads.run(partial(scan_directory, transfer.root, self._limits, transfer.opener))
        except OSError as error:
            raise DirectoryUnusable(f"the workspace directory cannot be read: {error.strerror}") from error
        plan = plan_flush(baseline, scan, self._limits.workspace_bytes)
        self.left = dict.fromkeys([*plan.clear, *plan.delete], 0)
        self.left.update({path: scan.entries[path].size for path in plan.send})
        await self._remove(plan.clear, baseline, threads)
        failures = await self._send(plan, baseline, transfer, threads)
        await self._remove(plan.delete, baseline, threads)
        self._keep(plan, baseline)
        self._execution = as_of or self._execution
        await self._write_manifest(plan.kept, moment, threads)
        if failures:
            raise FlushFailed(failures)
        taken = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        removed = len(plan.clear) + len(plan.delete)
        files = len(scan.signatures)
        skipped = tuple(plan.skipped)
        return FlushReport(files, len(plan.send), removed, taken, self._execution, skipped, scan.special_files)

    async def _known(self, threads: Threads) -> dict[bytes, Seen]:
        """The baseline; read from the store when this directory was filled by another mirror than this one."""
        if self._baseline is None:
            remote = await threads.run(self._durable.load)
            self._baseline, self._execution = baseline_of(remote), remote.execution
        return self._baseline

    async def _send(
        self, plan: FlushPlan, baseline: dict[bytes, Seen], transfer: Transfer, threads: Threads
    ) -> dict[bytes, WorkspaceSyncError]:
        failures: dict[bytes, WorkspaceSyncError] = {}

        def send(path: bytes) -> tuple[bytes, Seen | None]:
            try:
                return path, transfer.send(path, baseline.get(path))
            except StoreUnavailable:
                raise  # it would be the same for every other file
            except WorkspaceSyncError as error:
                failures[path] = error
                return path, None

        def note(path: bytes, now: Seen | None) -> None:
            before = baseline.get(path)
            if now is not None:
                if before is not None and before.key not in ("", now.key):
                    stale.append(before.key)
                baseline[path] = now
                self.left.pop(path, None)
            elif path not in failures:
                self.left.pop(path, None)
            known = baseline.get(path)
            if known is not None and known.entry.kind == "file":
                plan.kept[path] = known.entry

        stale: list[str] = []
        await threads.each(send, plan.send, note=lambda result: note(*result))
        if stale:
            keys = [self._durable.files_prefix + key for key in stale]
            await threads.run(partial(self._durable.store.delete, keys))
        return failures

    async def _remove(self, paths: list[bytes], baseline: dict[bytes, Seen], threads: Threads) -> None:
        if paths:
            keys = [self._durable.files_prefix + baseline[path].key for path in paths]
            await threads.run(partial(self._durable.store.delete, keys))
            for path in paths:
                del baseline[path]
                self.left.pop(path, None)

    def _keep(self, plan: FlushPlan, baseline: dict[bytes, Seen]) -> None:
        """Directories and links have no object: the manifest is all the store has of them."""
        for path in [path for path, seen in baseline.items() if path not in plan.kept and not seen.key]:
            del baseline[path]
        for path, entry in plan.kept.items():
            if entry.kind != "file":
                baseline[path] = Seen(entry)

    async def _write_manifest(self, entries: dict[bytes, Entry], moment: datetime, threads: Threads) -> None:
        if entries != self._written:

            def write() -> None:
                with self._durable.changing:
                    self._durable.write_manifest(entries.values(), moment, self._execution)

            await threads.run(write)
            self._written = entries
