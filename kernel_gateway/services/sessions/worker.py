"""Runs a session's executions, one at a time and in order, and stores how each ended.

An execution is marked as running, durably, before its code goes to the kernel: whatever happens to this process, it is
never run twice. Its outcome is stored before anybody has the answer; while it cannot be stored nothing else runs in the
session.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from kernel_gateway import metrics, tracing
from kernel_gateway.errors import DatabaseUnavailable, GatewayError, GenerationMismatch, NoSpace, translate, translated
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.kernelspecs import Kernelspecs
from kernel_gateway.services.mirroring.flushes import sync_status
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results import displays as known_displays
from kernel_gateway.services.results.jobs import FinishedJobs, Job
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.results.memory_guard import describe_end
from kernel_gateway.services.results.outcomes import (
    UNSURE,
    death_outcome,
    describe_begun,
    outcome_of,
    refusal_outcome,
    trim,
)
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.interrupts import BEFORE_IT_BEGAN, LATER
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.provenance import find_changes, provenance_of
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, UnderWay
from kernels.errors import Death, KernelsError
from kernels.execution.contexts import RunContext
from kernels.execution.execution import CATCH_UP_SECONDS, Event, Outcome
from kernels.execution.run_usage import RunUsage
from kernels.kernelspec import Kernelspec
from kernels.languages import BUILT_IN, PYTHON
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.sync import ExecutionSync

log = structlog.get_logger(__name__)
SLACK_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 5.0
NO_DISPLAYS: Mapping[str, Sequence[int]] = {}
NO_UPDATES: Mapping[str, Mapping[str, Any]] = {}


class Worker:
    """Runs the jobs of one session; `run` is one task for as long as the session lives."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        record: Record,
        kept_outputs: KeptOutputs,
        redaction: Redaction,
        finished: FinishedJobs,
        background: Background,
        live: LiveSession,
        kernelspecs: Kernelspecs,
        keep_checkpoint: Callable[[LiveSession], Awaitable[None]],
    ) -> None:
        self._keep_checkpoint = keep_checkpoint
        self._kernelspecs = kernelspecs
        self._settings = settings
        self._clock = clock
        self._database = database
        self._record = record
        self._kept_outputs = kept_outputs
        self._redaction = redaction
        self._finished = finished
        self._background = background
        self._live = live
        self._entered: dict[str, tuple[int, RunContext] | None] = {}
        """By runtime, of which kernel and where its last code ran; None where that is not known any more."""
        self._forgotten: set[str] = set()
        """Contexts of Python whose names the kernel is still to let go of."""

    async def run(self) -> None:
        """Take jobs until cancelled; no job's failure ends the worker."""
        while True:
            job = await self._live.next_job()
            try:
                # Its place in the queue was given before its row was stored: where that failed nothing is to run.
                if await job.is_stored():
                    # What the last one left in the workspace is looked at first: else this one's changes would be its.
                    await self._record.wait_for_looks(self._live.id)
                    with tracing.within(job.trace):
                        await self._carry_out(job)
                    await self._abort_followers(job)
            except Exception as error:
                await self._record_internal_error(job, error)
            finally:
                self._live.running = None
            try:
                await self._live.variables.end_of(job)
                await self._keep_checkpoint(self._live)
            except Exception:  # it has not changed how the job ended, nor is it to end the worker
                log.exception("state_not_kept", session=self._live.id)

    async def finish(
        self,
        job: Job,
        status: str,
        outcome: StoredOutcome,
        execution_count: int | None = None,
        usage: RunUsage | None = None,
        *,
        displays: Mapping[str, Sequence[int]] = NO_DISPLAYS,
        updates: Mapping[str, Mapping[str, Any]] = NO_UPDATES,
    ) -> None:
        """Store how a job ended and what it used, then answer; an update of what others displayed is stored with it."""
        if job.has_ended:  # the session's end may have come first, with an end of its own: one end is stored
            return
        if updates:
            outcome = replace(outcome, updates=self._live.displays.updates(job.row.generation, updates))
        await self._live.memory.settle(job)
        row = self._final_row(job, status, outcome, usage, execution_count=execution_count)
        row = await self._add_full_text(job, row)
        # Patterns may search megabytes: in a thread. Without any, the way to a thread costs more than the work.
        stored = await asyncio.to_thread(self._redact, row) if self._redaction.wanted else self._redact(row)
        look = None if row.started is None else partial(find_changes, self._live)
        # Its cell is written after this block, and after `look` has found out what it left in the workspace.
        with self._record.ending(self._live.id, row.id, look):
            await self._commit(job, row, stored, displays)
        metrics.count_execution(row.kind, row.status, row.queued, row.started, row.ended)
        job.trace = tracing.note_execution(job.trace, row)
        await self._answer(job, row)
        # Last: a caller who comes back meanwhile finds the job in the session, where it is the running one until then.
        self._finished.keep(job)

    def _final_row(
        self,
        job: Job,
        status: str,
        outcome: StoredOutcome,
        usage: RunUsage | None,
        *,
        execution_count: int | None,
    ) -> ExecutionRow:
        """All fields in one call: a copy of a row is among the dearer steps of a short execution."""
        row, sandbox = job.row, self._live.sandbox
        outcome.memory = describe_end(job.memory, status)
        provenance = provenance_of(usage, sandbox.environment_digest) if row.started else None
        if job.asked is not None and job.asked.request.silent:
            provenance = {**(provenance or {}), "silent": True}
        return replace(
            row,
            status=status,
            outcome=outcome,
            execution_count=execution_count,
            provenance=provenance,
            ended=self._clock.now(),
            last_sequence=job.log.last_sequence + 1,
            # Its place among all that ended: a flush that begins after this covers it and everything before it.
            ended_number=row.ended_number if row.started is None else sandbox.flushes.next_number(),
        )

    async def _add_full_text(self, job: Job, row: ExecutionRow) -> ExecutionRow:
        """The row, which says where those texts are in full of which it has only head and tail."""
        full_text, job.full_text = job.full_text, None
        if full_text is None:
            return row
        if not full_text.large:
            full_text.discard()
            return row
        full = await asyncio.to_thread(full_text.finish)
        self._kept_outputs.request_delivery(row.session_id)
        return replace(row, provenance={**(row.provenance or {}), "full": full})

    async def _commit(
        self, job: Job, row: ExecutionRow, stored: ExecutionRow, displays: Mapping[str, Sequence[int]]
    ) -> None:
        """Make the outcome durable; only then does anything in memory, and anybody who waits, learn of it."""
        live, ran = self._live, row.started is not None
        await self._store(job, stored, count=ran)
        live.displays.add(row, displays)
        self._finished.update(row.session_id, row.outcome.updates if row.outcome else ())
        live.executions += ran
        live.notebook_stale = True
        live.touch()
        live.stored_activity = live.last_activity  # the count of executions has taken it to the database

    def _redact(self, row: ExecutionRow) -> ExecutionRow:
        """The row as it is stored: without what must not be recorded, and then cut to what a record keeps."""
        row = self._redaction.row(row)
        return replace(row, outcome=trim(row.outcome or StoredOutcome(), self._settings.stored_text_bytes))

    async def _answer(self, job: Job, row: ExecutionRow) -> None:
        """End the job for those who wait: now, or once its files are in the store when its session asks for that.

        Nothing else of the queue runs meanwhile.
        """
        flushes = self._live.sandbox.flushes
        ticket = flushes.request(row, job.trace)
        if row.started is None or row.sync == "async":
            job.end(row, sync_status(row, flushes.sync()))  # nothing has waited since the commit: it costs them no time
            return
        if job.has_ended:  # the session's end was faster
            return
        sync = ExecutionSync("before_return", durable=False, error="the service ended before the flush was complete")
        try:
            sync = await job.settle(flushes.wait_durable(ticket))
        finally:
            job.end(row, sync)  # also when this is cancelled: the outcome is stored, whatever becomes of its files

    async def _record_internal_error(self, job: Job, error: Exception) -> None:
        """The service itself failed: say so in the row when that is possible, else to those who wait."""
        log.error("execution_failed", session=self._live.id, execution=job.row.id, exc_info=error)
        try:
            detail = f"the service failed while this ran: {translate(error).message}"
            await self.finish(job, "died", death_outcome("sandbox", detail))
        except Exception as worse:
            job.trouble(translate(worse))

    async def _carry_out(self, job: Job) -> None:
        if job.taken_up:
            return await self._go_on(job)
        try:
            # Asked again after each wait: an interrupt that comes in one must not let the code run after it.
            kernel = None if job.has_to_stop() else await self._ready(job)
            if kernel is None or job.has_to_stop():
                return await self.finish(job, "interrupted", StoredOutcome(why=BEFORE_IT_BEGAN))
            _require_generation(job, kernel)
            self._live.require_context(job)
            if job.row.clear_context:
                await _clear(job, kernel)
            else:
                await self._live.variables.restore(kernel)
            await self._enter(job, kernel)
            now = self._clock.now()
            # Durable before the code goes out, so that no restart of the service runs it twice. Where the kernel was
            # free the submission has stored this with the row, which saves a transaction.
            if job.begun != kernel.generation:
                await self._database.run(lambda c: executions.begin(c, job.row.id, kernel.generation, now))
        except GatewayError as error:
            return await self.finish(job, "rejected", refusal_outcome(type(error).__name__, error.message))
        job.begin(kernel.generation, now)
        if job.has_to_stop():
            return await self.finish(job, "interrupted", StoredOutcome(why=BEFORE_IT_BEGAN))
        return await self._execute(job, kernel)

    async def _go_on(self, job: Job) -> None:
        """Its code was sent to its kernel by an earlier process."""
        kernel, row = self._live.sandbox.kernel, job.row
        if kernel is None:
            why = f"the sandbox was lost while the service started again; its kernel and /tmp went with it{UNSURE}"
            return await self.finish(job, "died", death_outcome("sandbox", why))
        if row.clear_context:  # its first event, as `_clear` has told it
            job.log.append("generation", {"generation": row.generation, "cause": "restart"})
        job.catch_up = kernel.catch_up
        job.begin(row.generation, row.started or row.queued)
        return await self._execute(job, kernel)

    async def _enter(self, job: Job, kernel: SandboxedKernel) -> None:
        """Have the kernel run the code where it belongs; raises our errors. Most sessions have one place for all."""
        runtime, place = job.row.runtime, job.context or self._live.run_context
        if runtime == PYTHON and self._forgotten:
            await self._forget(kernel)
        if place is None:
            if runtime not in self._entered:
                return
            place = RunContext()
        wanted = (kernel.generation, place)
        if self._entered.get(runtime) == wanted:
            return
        self._entered[runtime] = None
        await self._live.variables.settle()
        with translated():
            await kernel.enter(place, runtime)
        self._entered[runtime] = wanted

    def forget_context(self, name: str) -> None:
        """Let go of the names of this context once what runs has ended, before anything else runs."""
        self._forgotten.add(name)

    async def _forget(self, kernel: SandboxedKernel) -> None:
        names = tuple(self._forgotten)
        self._entered[PYTHON] = None  # the next code enters its own again
        await self._live.variables.settle()
        with translated():
            await kernel.forget_contexts(names)
        self._forgotten.difference_update(names)

    async def _abort_followers(self, job: Job) -> None:
        """What an attached client sent after a cell that failed does not run, unless it asked for that."""
        # A session that ends has an end of its own for all that waits, which says why.
        if job.row.status == "ok" or self._live.ending is not None:
            return
        why = refusal_outcome("Aborted", f"an earlier cell of the same client ended as {job.row.status}")
        for each in self._live.take_followers(job):
            if await each.is_stored():
                await self.finish(each, "rejected", why)

    async def _ready(self, job: Job) -> SandboxedKernel | None:
        """The kernel, once a replacement is done: an execution belongs to the generation that runs it.

        None when it is interrupted while the workspace is still being restored.
        """
        sandbox = self._live.sandbox
        await sandbox.ensure_started()
        if not sandbox.workspace_ready:
            await job.prepare(sandbox.wait_restored())
            if job.has_to_stop():
                return None
        kernel = await sandbox.ready()
        if kernel.residence.stopped:
            with translated():  # a sandbox that cannot go on now has lost nothing: the code is refused before it begins
                await kernel.residence.awake()
        with contextlib.suppress(KernelsError):  # said again, and dealt with, when the code is to run
            await kernel.ready()
        return kernel

    async def _execute(self, job: Job, kernel: SandboxedKernel) -> None:
        settings, timeout = self._settings, job.row.timeout_seconds
        # A clock that was set back must not give the code more time than it has.
        elapsed = max(self._clock.now() - (job.row.started or 0.0), 0.0) if job.taken_up else 0.0
        full_text = job.full_text = self._kept_outputs.full_text(self._live.id)
        job.keep_told = self._keep_told

        telling: set[asyncio.Task[None]] = set()
        sent, begun = job.taken_up, False

        def emit(event: Event) -> None:
            nonlocal begun
            if event.kind == "generation":  # it is not of this execution's output, and does not come again with it
                telling.add(self._background.spawn(job.tell(event.kind, event.data), f"event of {job.row.id}"))
                return
            begun = True
            if full_text.take(event) and event.kind not in {"started", "ended"}:
                job.log.append(event.kind, event.data)

        # `kernel.execute` keeps the timeout and says how the code ended. This is for a sandbox that says nothing.
        longest = timeout + settings.interrupt_grace_seconds + settings.start_deadline_seconds + SLACK_SECONDS
        longest += CATCH_UP_SECONDS if job.taken_up else 0.0
        try:
            with job.execution(), self._live.memory.guard(job, kernel):
                async with asyncio.timeout(longest):
                    declared = await self._find_declared(job.row.runtime)
                    if not sent:
                        await kernel.ready()  # what fails here has not sent the code
                    sent = True
                    outcome = await _run(job, kernel, declared, emit, elapsed_seconds=elapsed)
        except (KernelsError, TimeoutError) as error:
            return await self._lose(job, kernel, error, describe_begun(sent=sent, heard=begun))
        if telling:  # else they might come after the end; each has deadlines of its own
            await asyncio.wait(telling)
        return await self._conclude(job, kernel, outcome, describe_begun(sent=sent, heard=begun))

    async def _lose(self, job: Job, kernel: SandboxedKernel, error: Exception, begun: str) -> None:
        """Its sandbox is of no use any more."""
        death = Death("sandbox", f"the sandbox does not answer: {str(error) or 'no answer in time'}{begun}")
        job.log.append("generation", {"generation": self._live.sandbox.generation + 1, "cause": death.cause})
        await self.finish(job, "died", death_outcome(death.cause, self._explain(death.detail)))
        # After the answer and in a task: what is left of the sandbox is flushed first, and that may take long.
        self._background.spawn(self._live.sandbox.lose(kernel, death), f"lose {self._live.id}")
        await asyncio.sleep(0)  # it has marked the sandbox as lost by then: what waits gets the next one

    async def _conclude(self, job: Job, kernel: SandboxedKernel, outcome: Outcome, begun: str) -> None:
        """Store what its code came to; then the guest may forget it."""
        python_died = outcome.death is not None and job.row.runtime == "python"
        if python_died or kernel.generation != job.row.generation:
            cause = outcome.death.cause if outcome.death else "restart"
            # The next kernel may still be starting; its number is known already.
            job.log.append("generation", {"generation": max(kernel.generation, job.row.generation + 1), "cause": cause})
        ours = outcome_of(outcome)
        if job.deaf and outcome.status != "interrupted":
            ours.why = f"{LATER}; {ours.why}" if ours.why else LATER
        if ours.death is not None:
            ours.death.detail = self._explain(f"{ours.death.detail}{begun if ours.death.cause == 'sandbox' else ''}")
        if outcome.stream:
            heard, said = kernel.durable_with(outcome, job.row.id), executions.Said(*outcome.request, outcome.heard)
            job.row = replace(job.row, stream=outcome.stream, heard=heard, said=said)
        await self.finish(
            job,
            outcome.status,
            ours,
            outcome.execution_count,
            outcome.usage,
            displays=outcome.displays,
            updates=outcome.updates,
        )
        kernel.settle(outcome, job.row.id)

    def _explain(self, detail: str) -> str:
        """Why something died, with why the session ended when that was the reason."""
        ending = self._live.ending
        return detail if ending is None else f"the session ended while this ran ({ending.reason}): {ending.detail}"

    async def _find_declared(self, runtime: str) -> Kernelspec | None:
        """What the image says of a kernel that it declares."""
        if runtime in BUILT_IN:
            return None
        found = await self._kernelspecs.of_session(self._live.row.environment, self._live.sandbox.environment_digest)
        return next((each for each in found if each.name == runtime), None)

    async def _keep_told(self, job: Job) -> None:
        """Write down what was told of a job besides what its kernel says; where that fails it is told all the same."""
        under_way = UnderWay(told=job.told)
        try:
            await self._database.run(lambda connection: executions.set_under_way(connection, job.row.id, under_way))
        except GatewayError as error:
            log.error("event_not_stored", session=self._live.id, execution=job.row.id, error=error.code)

    async def _store(self, job: Job, row: ExecutionRow, *, count: bool) -> None:
        """Commit the outcome, trying until it works; those who wait get the error meanwhile."""

        def store(connection: Connection) -> None:
            executions.finish(connection, known_displays.store(connection, row))
            if count:
                sessions.count_execution(connection, row.session_id, row.ended or 0.0)

        pause = 0.1
        while True:
            try:
                return await self._database.run(store)
            except (NoSpace, DatabaseUnavailable) as error:
                log.error("outcome_not_stored", session=row.session_id, execution=row.id, error=error.code)
                job.trouble(error)
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


async def _run(
    job: Job,
    kernel: SandboxedKernel,
    declared: Kernelspec | None,
    emit: Callable[[Event], None],
    *,
    elapsed_seconds: float,
) -> Outcome:
    return await kernel.execute(
        job.row.code,
        timeout_seconds=job.row.timeout_seconds,
        emit=emit,
        language=job.row.language,
        runtime=job.row.runtime,
        declared=declared,
        request=None if job.asked is None else job.asked.request,
        execution_id=job.row.id,
        elapsed_seconds=elapsed_seconds,
    )


async def _clear(job: Job, kernel: SandboxedKernel) -> None:
    """Give the code a blank kernel. It has not begun by then: after a restart of the service this is done once more."""
    with translated():
        generation = await kernel.clear()
    job.log.append("generation", {"generation": generation, "cause": "restart"})


def _require_generation(job: Job, kernel: SandboxedKernel) -> None:
    expected, now = job.row.expect_generation, kernel.generation
    if expected is not None and expected != now:
        raise GenerationMismatch(f"the kernel is of generation {now}, not {expected}: its globals are not yours")
