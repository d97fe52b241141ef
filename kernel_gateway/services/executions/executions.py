"""Executions as callers see them: submit, wait, look back, follow, interrupt."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable

import msgspec
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway.errors import (
    GatewayError,
    GenerationMismatch,
    IdempotencyConflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    SessionBusy,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.kernelspecs import Kernelspecs
from kernel_gateway.services.mirroring.flushes import sync_status
from kernel_gateway.services.results.displays import targets, update_outcome
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.jobs import Asked, FinishedJobs, Job
from kernel_gateway.services.results.outcomes import execution_of, with_late
from kernel_gateway.services.results.stored_events import replay_events
from kernel_gateway.services.sessions.interrupts import BEFORE_IT_BEGAN, interrupt_code
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import cells, executions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from kernels.execution.contexts import RunContext
from kernels.kernelspec import Kernelspec
from kernels.languages import BUILT_IN, PYTHON, RUNTIMES, runtime_of
from kernels.random_ids import new_id
from kernels.wire.client_request import ClientRequest
from sandcell.models.executions import Event, Execution, ExecutionPage, Submission
from sandcell.models.sync import ExecutionSync, Sync

LONGEST_KEY = 255


class Executions:
    """The verbs on executions. An execution belongs to the service: a caller that goes away cancels nothing."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        finished: FinishedJobs,
        body_room: BodyRoom,
        readiness: Readiness,
        disk_room: DiskRoom,
        background: Background,
        registry: Registry,
        kernelspecs: Kernelspecs,
    ) -> None:
        self._kernelspecs = kernelspecs
        self._settings = settings
        self._clock = clock
        self._database = database
        self._finished = finished
        self._body_room = body_room
        self._readiness = readiness
        self._disk_room = disk_room
        self._background = background
        self._registry = registry

    async def submit(
        self,
        principal: Principal,
        session_id: str,
        submission: Submission,
        idempotency_key: str | None = None,
        *,
        face: str = "rest",
        lease: str | None = None,
        context: RunContext | None = None,
    ) -> Execution:
        """Store an execution and queue it; the row is durable when this returns. It came through that `face`.

        Its code runs in that `context`, or in the session's. While another than the caller's `lease` lasts, it waits,
        or is refused by any other `on_busy` than queue.

        The same key and the same submission return the same execution, also when its session has ended. Otherwise
        raises NotFound, SessionTerminated, InvalidRequest, PayloadTooLarge, SessionBusy (on_busy=reject: nothing is
        stored), GenerationMismatch, IdempotencyConflict, QueueFull, NoSpace, ShuttingDown. `on_busy=interrupt`
        interrupts what runs and then waits its turn like any other.
        """
        runtime = await self.find_runtime(principal, session_id, submission)
        row = self._check(session_id, submission, runtime, idempotency_key, author=principal.name, face=face)
        try:
            taken = await self._submit(principal, row, submission, lease, context)
        except GatewayError:  # what is refused now may have been taken before; what is not, the database tells apart
            before = await self._find_submitted(principal, row) if idempotency_key is not None else None
            if before is None:
                raise
            taken = before
        # What was taken before may be in memory, where its answer still waits for the store.
        return taken if taken.id == row.id else await self.get(principal, session_id, taken.id)

    async def _submit(
        self,
        principal: Principal,
        row: ExecutionRow,
        submission: Submission,
        lease: str | None,
        context: RunContext | None,
    ) -> Execution:
        session_id = row.session_id
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        self._disk_room.require()
        _require_generation(live, submission.expect_generation)
        if submission.on_busy != "queue":
            live.require_unleased(lease)
        if submission.on_busy == "reject" and (live.running is not None or live.waiting):
            raise SessionBusy("something runs in this session", session_id=session_id)
        admit = self._admit(live, row, submission, lease=lease, context=context)
        taken = await self._background.carry_out(admit, f"submit {row.id}")
        job = live.find_job(taken.id)
        if job is not None and taken.why is None:
            taken.why = live.explain_wait(job)
        return taken

    async def submit_attached(
        self,
        live: LiveSession,
        request: ClientRequest,
        code: str,
        *,
        author: str,
        told: Callable[[ClientRequest, ExecutionRow, ExecutionSync | None], None],
        declared: Kernelspec | None = None,
    ) -> None:
        """Store and queue a cell that an attached client sent; `told` hears of its beginning and its end.

        It is for the kernel that its author sees, Python's or the `declared` one: what waits when Python's ends does
        not run on the next. Raises as `submit` does.
        """
        self._readiness.require_accepting()
        live.require_live()
        self._disk_room.require()
        submission = Submission(code, language=PYTHON if declared is None else declared.language)
        runtime = PYTHON if declared is None else declared.name
        row = msgspec.structs.replace(
            self._check(live.id, submission, runtime, None, author=author, face="jupyter"),
            timeout_seconds=self._settings.attached_timeout_seconds,
            expect_generation=live.sandbox.live_generation if declared is None else None,
        )
        admit = self._admit(live, row, submission, asked=Asked(request, told))
        await self._background.carry_out(admit, f"submit {row.id}")

    async def wait(self, principal: Principal, session_id: str, execution_id: str) -> Execution:
        """The execution once it has ended; cancelling the wait does not touch it.

        Bounded by the session's time-to-live, at whose end all its executions have ended.
        """
        job = await self._job(principal, session_id, execution_id)
        if job is None or job.has_ended:
            return await self.get(principal, session_id, execution_id)
        return await job.wait()

    async def get(self, principal: Principal, session_id: str, execution_id: str) -> Execution:
        """An execution: whole for a while after it ended, later with its text cut to what is stored of it."""
        job = await self._job(principal, session_id, execution_id)
        row = job.row if job is not None else await self._row(principal, session_id, execution_id)
        if job is not None and row.ended is not None and "files" not in (row.provenance or {}):
            row = await self._add_files(row)
        live = self._registry.find(principal, session_id)
        # What came late moves from there to the row in memory: both are looked at without a wait in between.
        outcome = row.outcome if job is None else job.row.outcome
        if live is not None and outcome is not None:
            row = msgspec.structs.replace(row, outcome=self._add_late(row.id, outcome, live))
        sync = await self._sync(principal, session_id)
        numbers = {} if row.ended is None else await self._database.run(lambda c: cells.read_numbers(c, [row.id]))
        shown = sync_status(row, sync, None if job is None else job.answered)
        execution = execution_of(row, shown, numbers.get(row.id))
        if live is not None and job is not None and execution.why is None:
            execution.why = live.explain_wait(job)
        return execution

    def _add_late(self, execution_id: str, outcome: StoredOutcome, live: LiveSession) -> StoredOutcome:
        """The outcome with what came after the end and is not written down yet."""
        updates = live.late.updates()
        if execution_id in targets(updates):
            outcome, _left = update_outcome(outcome, execution_id, updates)
        for late in live.late.pending(execution_id):
            outcome = with_late(outcome, late, self._settings.stored_text_bytes)
        return outcome

    async def _add_files(self, row: ExecutionRow) -> ExecutionRow:
        """The row in memory with what was found out about its files since it ended, if that is stored by now."""
        stored = await self._database.run(lambda c: executions.find(c, row.session_id, row.id, outcome=False))
        return row if stored is None else msgspec.structs.replace(row, provenance=stored.provenance)

    async def list(
        self,
        principal: Principal,
        session_id: str,
        limit: int = 100,
        cursor: str | None = None,
        *,
        outcomes: bool = True,
        newest_first: bool = False,
        commands: bool = False,
    ) -> ExecutionPage:
        """The session's code, oldest first, with `commands` its shell commands too.

        Without `outcomes` what came of them is left out.
        """
        kinds = executions.WITH_COMMANDS if commands else executions.CODE
        await self._registry.row(principal, session_id)

        def look(connection: Connection) -> tuple[list[ExecutionRow], str | None, int | None, dict[str, int]]:
            found, following = executions.list_of(
                connection, session_id, limit, cursor, outcomes=outcomes, newest_first=newest_first, kinds=kinds
            )
            total = executions.count_of(connection, session_id, kinds) if cursor is None else None
            return found, following, total, cells.read_numbers(connection, [row.id for row in found])

        rows, following, total, numbers = await self._database.run(look)
        sync, live = await self._sync(principal, session_id), self._registry.find(principal, session_id)
        held = (
            live.running
            if outcomes and live is not None and live.running is not None and live.running.is_settling
            else None
        )
        shown = [held.row if held is not None and held.row.id == row.id else row for row in rows]
        items = [execution_of(row, sync_status(row, sync), numbers.get(row.id)) for row in shown]
        return ExecutionPage(items, following, total)

    async def interrupt(self, principal: Principal, session_id: str, execution_id: str) -> Execution:
        """Interrupt one execution: running, it gets KeyboardInterrupt; queued, it ends as `interrupted` unrun.

        A shell command that runs is stopped, with all that it has started.

        Returns when it has ended. One that runs and does not heed it is still running then, and `why` says so.
        """
        live = self._registry.find(principal, session_id)
        job = live.find_job(execution_id) if live is not None else None
        if live is not None and job is not None:
            live.touch()
            if live.withdraw(job):
                await self._background.carry_out(self._drop(live, job), f"interrupt {execution_id}")
            elif job.interrupt():
                looking = await interrupt_code(live, self._background, self._settings.interrupt_grace_seconds)
                if looking is not None:
                    await asyncio.shield(looking)
            else:  # it is about to begin, perhaps as its session wakes, and does not; or waits for the store no longer
                with contextlib.suppress(TimeoutError, GatewayError):
                    async with asyncio.timeout(self._settings.start_deadline_seconds):
                        await job.wait()
        elif live is not None and (command := live.commands.get(execution_id)) is not None:
            live.touch()
            await self._background.carry_out(command.stop(), f"stop {execution_id}")
        return await self.get(principal, session_id, execution_id)

    async def _drop(self, live: LiveSession, job: Job) -> None:
        """End a job that was taken out of the queue; raises when that cannot be stored now, and it is stored later."""
        if not await job.is_stored():
            return
        outcome = StoredOutcome(why=BEFORE_IT_BEGAN)
        self._background.spawn(live.worker.finish(job, "interrupted", outcome), f"end of {job.row.id}")
        await job.wait()

    async def events(
        self, principal: Principal, session_id: str, execution_id: str, after: int = 0, *, late: bool = False
    ) -> AsyncIterator[Event]:
        """Await it for the checks, then iterate: what follows sequence `after`, ending with `ended`.

        With `late` it goes on after that, with late output, for as long as the kernel lives.
        """
        if after < 0:
            raise InvalidRequest("an event's sequence is not negative")
        job = await self._job(principal, session_id, execution_id)
        if job is not None:
            return job.log.follow(after, late=late)
        live = self._registry.find(principal, session_id)
        if live is not None and (command := live.commands.get(execution_id)) is not None:
            return command.follow(after)
        row = await self._row(principal, session_id, execution_id)
        return replay_events(row, after, sync_status(row, await self._sync(principal, session_id)))

    async def find_runtime(self, principal: Principal, session_id: str, submission: Submission) -> str:
        """What runs this code; raises InvalidRequest when that is no runtime of its language, or keeps no context."""
        language, asked = submission.language.lower(), submission.runtime
        declared: tuple[Kernelspec, ...] = ()
        if language not in RUNTIMES or asked not in (None, *BUILT_IN):
            row = await self._registry.row(principal, session_id)
            live = self._registry.find(principal, session_id)
            digest = "" if live is None else live.sandbox.environment_digest
            declared = await self._kernelspecs.of_session(row.environment, digest)
        try:
            runtime = runtime_of(language, asked, declared)
        except ValueError as error:
            raise InvalidRequest(str(error), field="runtime" if language in RUNTIMES else "language") from None
        if submission.clear_context and runtime != PYTHON:
            raise InvalidRequest(
                "clear_context is for Python code: restart the session's kernel to clear other languages"
            )
        return runtime

    def _check(
        self,
        session_id: str,
        submission: Submission,
        runtime: str,
        idempotency_key: str | None,
        *,
        author: str,
        face: str,
    ) -> ExecutionRow:
        settings = self._settings
        check_code(submission.code, settings.code_bytes)
        timeout = submission.timeout_seconds
        if timeout is None:
            timeout = settings.execution_timeout_seconds
        if not 0 < timeout <= settings.execution_timeout_max_seconds:
            most = settings.execution_timeout_max_seconds
            raise InvalidRequest(f"timeout_seconds must be more than 0 and at most {most:g}")
        if idempotency_key is not None and not 1 <= len(idempotency_key) <= LONGEST_KEY:
            raise InvalidRequest(f"an idempotency key has 1 to {LONGEST_KEY} characters")
        return ExecutionRow(
            id=new_id(),
            session_id=session_id,
            status="queued",
            language=submission.language.lower(),
            runtime=runtime,
            code=submission.code,
            generation=0,
            timeout_seconds=timeout,
            expect_generation=submission.expect_generation,
            idempotency_key=idempotency_key,
            request_digest=_digest(submission) if idempotency_key is not None else None,
            queued=self._clock.now(),
            clear_context=submission.clear_context,
            author=author,
            face=face,
        )

    async def _admit(
        self,
        live: LiveSession,
        row: ExecutionRow,
        submission: Submission,
        *,
        asked: Asked | None = None,
        lease: str | None = None,
        context: RunContext | None = None,
    ) -> Execution:
        """The place in the queue first, then the row: what is acknowledged is both queued and stored.

        A row that an idle kernel takes at once is stored as running in the same transaction; not one for a blank
        kernel, whose generation is not known yet.
        """
        row = msgspec.structs.replace(row, generation=live.sandbox.generation, sync=submission.sync or live.row.sync)
        job = self._queue(live, row, asked, lease, context)
        taken = None if row.clear_context else live.takes_at_once(job)

        try:
            await self._database.run(lambda c: executions.add(c, row, begun=taken))
            job.begun = taken
        except BaseException as error:
            live.withdraw(job)
            job.mark_stored(stored=False)
            if isinstance(error, IntegrityError) and row.idempotency_key is not None:
                return await self._twin(row)
            raise
        job.mark_stored(stored=True)
        if submission.on_busy == "interrupt" and live.running is not job and live.interrupt_running():
            with contextlib.suppress(GatewayError):  # what cannot be interrupted ends by its deadline
                await interrupt_code(live, self._background, self._settings.interrupt_grace_seconds)
        return execution_of(job.row)

    def _queue(
        self,
        live: LiveSession,
        row: ExecutionRow,
        asked: Asked | None,
        lease: str | None,
        context: RunContext | None,
    ) -> Job:
        """A job in its place, with room for its code until it runs."""
        job = Job(row, EventLog(self._settings.event_log_bytes), asked)
        job.lease, job.context = lease, context
        job.room = self._body_room.keep_code(live.row.principal_id, row.code)
        try:
            live.admit(job, self._settings.queue_length)
        except GatewayError:
            job.leave_room()
            raise
        return job

    async def _find_submitted(self, principal: Principal, row: ExecutionRow) -> Execution | None:
        if self._registry.find(principal, row.session_id) is None:
            await self._registry.row(principal, row.session_id)
        key = row.idempotency_key or ""
        found = await self._database.run(lambda c: executions.find_by_key(c, row.session_id, key))
        return None if found is None else _same(found, row)

    async def _twin(self, row: ExecutionRow) -> Execution:
        """The execution that won the race for an idempotency key."""
        key = row.idempotency_key or ""
        found = await self._database.run(lambda c: executions.find_by_key(c, row.session_id, key))
        if found is None:
            raise NotFound("the session is gone")
        return _same(found, row)

    async def _job(self, principal: Principal, session_id: str, execution_id: str) -> Job | None:
        """The execution if it is in memory and the principal's."""
        live = self._registry.find(principal, session_id)
        job = live.find_job(execution_id) if live is not None else None
        if job is None:
            job = self._finished.find(session_id, execution_id)
            if job is not None and live is None:
                await self._registry.row(principal, session_id)
        return job

    async def _sync(self, principal: Principal, session_id: str) -> Sync:
        """How far the files of a session are in the store, live or as it ended."""
        live = self._registry.find(principal, session_id)
        if live is not None:
            return live.sandbox.flushes.sync()
        return (await self._registry.row(principal, session_id)).record.sync

    async def _row(self, principal: Principal, session_id: str, execution_id: str) -> ExecutionRow:
        await self._registry.row(principal, session_id)
        row = await self._database.run(lambda c: executions.find(c, session_id, execution_id))
        if row is None or row.kind not in executions.WITH_COMMANDS:
            raise NotFound("there is no such execution in this session")
        return row


def check_code(code: str, most_bytes: int) -> None:
    """Raises InvalidRequest for what is no text, PayloadTooLarge for too much of it."""
    try:
        size = len(code.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("code must be valid UTF-8 text, without half surrogate pairs") from None
    if size > most_bytes:
        raise PayloadTooLarge(f"code has {size:,} bytes; the most is {most_bytes:,}")


def _require_generation(live: LiveSession, expected: int | None) -> None:
    now = live.sandbox.generation
    if expected is not None and expected != now:
        raise GenerationMismatch(
            f"the kernel is of generation {now}, not {expected}: its globals are not yours",
            generation=now,
            expect_generation=expected,
        )


def _digest(submission: Submission) -> str:
    """What makes two submissions the same; how long the caller stays to wait does not."""
    asked = {name: value for name, value in msgspec.to_builtins(submission).items() if name != "wait"}
    if submission.sync is None:  # as the digests that were stored before there was such a member
        del asked["sync"]
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()


def _same(found: ExecutionRow, row: ExecutionRow) -> Execution:
    if found.request_digest != row.request_digest:
        raise IdempotencyConflict(
            "the idempotency key was used with another submission in this session", execution_id=found.id
        )
    return execution_of(found)
