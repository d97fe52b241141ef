"""How background tasks end, on record: a cell after those that ran meanwhile, and the command's own outcome.

The guest answers once a task has ended, so that nothing is asked for while it runs. The next process of the service
asks again: what ended meanwhile the guest still knows, for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import DatabaseUnavailable, NoSpace
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.outcomes import command_outcome, command_status, trim, with_late
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.late_outputs import make_late_row, with_origin
from kernel_gateway.services.sessions.live_session import AwaitedTask, LiveSession
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from kernels.errors import GuestRefused, KernelsError, SandboxGone
from kernels.guest_client.client import CommandResult
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel

log = structlog.get_logger(__name__)
PAUSES_SECONDS = (1.0, 5.0, 30.0)
"""Before a guest that did not answer is asked again; the last stays."""
READ_SECONDS = 2.0
WITH_SANDBOX = "it ran in the background until its sandbox was gone"


class TaskEnds:
    """`watch` each task as it starts, `take_up` those of an earlier process; both return at once."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        record: Record,
        redaction: Redaction,
        background: Background,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._record = record
        self._redaction = redaction
        self._background = background

    def watch(self, live: LiveSession, kernel: SandboxedKernel, row: ExecutionRow) -> None:
        """Wait for the end of the task that this command has started, and write it down."""
        task = AwaitedTask("" if row.outcome is None else row.outcome.task or "")
        live.awaited_tasks[row.id] = task
        waiting = self._background.spawn(self._watch(live, kernel, row, task), f"end of task {task.id}")
        waiting.add_done_callback(lambda _: live.awaited_tasks.pop(row.id, None))

    def take_up(self, live: LiveSession) -> None:
        """A session begins to be served: where it goes on in the sandbox it had, so do its tasks."""
        kernel = live.sandbox.kernel
        if kernel is not None:
            self._background.spawn(self._take_up(live, kernel), f"tasks of {live.id}")

    async def read_last(self, live: LiveSession) -> None:
        """The session ends: what its tasks have put out by now, before it goes with the sandbox."""
        kernel = live.sandbox.kernel
        if kernel is None:
            return
        with contextlib.suppress(KernelsError, TimeoutError):
            async with asyncio.timeout(READ_SECONDS):
                for task in tuple(live.awaited_tasks.values()):
                    task.last = await kernel.guest.task(task.id)

    async def _take_up(self, live: LiveSession, kernel: SandboxedKernel) -> None:
        for row in await self._database.run(lambda connection: executions.list_tasks(connection, live.id)):
            if row.id not in live.awaited_tasks:
                self.watch(live, kernel, row)

    async def _watch(self, live: LiveSession, kernel: SandboxedKernel, row: ExecutionRow, task: AwaitedTask) -> None:
        for number in itertools.count():
            try:
                result = await kernel.guest.await_end(task.id, timeout_seconds=row.timeout_seconds)
            except SandboxGone:
                # Unless it is this process that ends, and lets the sandbox go: the next one asks again.
                if not live.paused or live.ending is not None:
                    await self._store(live, row, task.id, task.last)
                return
            except GuestRefused as error:  # of an older release, or the task ended so long ago that it was forgotten
                log.info("task_end_unknown", session=live.id, task=task.id, error=str(error))
                return
            except KernelsError as error:
                log.info("task_end_not_heard", session=live.id, task=task.id, error=str(error))
                await self._clock.sleep(PAUSES_SECONDS[min(number, len(PAUSES_SECONDS) - 1)])
            else:
                await self._store(live, row, task.id, result)
                if live.ending is None:
                    live.sandbox.flushes.request()
                return

    async def _store(self, live: LiveSession, row: ExecutionRow, task: str, result: CommandResult | None) -> None:
        """Write it down, as often as it takes."""
        end = make_end(row, task, result, self._clock.now(), self._settings.stored_text_bytes)
        end = await asyncio.to_thread(self._redaction.row, end) if self._redaction.wanted else end

        def store(connection: Connection) -> None:
            started = executions.find(connection, row.session_id, row.id)
            if started is None or started.outcome is None or end.outcome is None:
                return
            outcome = with_late(started.outcome, end.outcome, self._settings.stored_text_bytes)
            outcome = msgspec.structs.replace(outcome, exit_code=end.outcome.exit_code, why=end.outcome.why)
            if executions.end_task(connection, row.id, outcome):
                executions.add_ended(connection, end)

        while True:
            try:
                await self._database.run(store)
                break
            except (NoSpace, DatabaseUnavailable) as error:
                log.error("task_end_not_stored", session=live.id, task=task, error=error.code)
                await self._clock.sleep(PAUSES_SECONDS[0])
        live.notebook_stale = True
        live.news.append("late", {"execution_id": row.id})
        self._record.request(live.id)


def make_end(row: ExecutionRow, task: str, result: CommandResult | None, now: float, text_bytes: int) -> ExecutionRow:
    """The row of how the task ended that this command has started; one that had not went with its sandbox. Pure."""
    outcome = StoredOutcome() if result is None else trim(command_outcome(result), text_bytes)
    if result is None or result.status == "running":
        status, why = "died", WITH_SANDBOX
    else:
        status = command_status(result)
        why = _explain(status, result.duration_seconds)
    outcome = msgspec.structs.replace(outcome, why=why, task=None)
    end = make_late_row(row.session_id, row.generation, outcome, queued=row.queued, ended=now)
    end = msgspec.structs.replace(end, status=status, started=row.started)
    return with_origin(end, row, f"# how the background task {task} ended")


def _explain(status: str, seconds: float) -> str:
    how = {"timeout": "ran into its time limit", "interrupted": "was stopped"}.get(status, "ended")
    return f"in the background it {how} after {seconds:.1f} s"
