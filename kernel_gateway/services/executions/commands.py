"""Shell commands and background tasks in a live session. Each is recorded: a row while it runs, then a `%%bash` cell.

A background task has its cell when it was started; how it ends is a cell of its own: see `task_ends`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, Literal

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway import metrics, tracing
from kernel_gateway.errors import (
    DatabaseUnavailable,
    IdempotencyConflict,
    InvalidRequest,
    NoSpace,
    NotFound,
    PayloadTooLarge,
    SandboxUnavailable,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.client_tokens import compute_digest
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.executions.task_ends import TaskEnds
from kernel_gateway.services.mirroring.flushes import sync_status
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.outcomes import command_outcome, command_status, death_outcome, trim
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.results.running_command import RunningCommand
from kernel_gateway.services.sessions.interrupts import BEFORE_IT_BEGAN
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.provenance import find_changes, provenance_of
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, UnderWay
from kernels.cancelling import cancel_all
from kernels.errors import GuestRefused, KernelsError, SandboxGone
from kernels.guest_client.client import CommandResult, GuestClient
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.executions import Truncated
from sandcell.models.sync import ExecutionSync, Sync

log = structlog.get_logger(__name__)
PAUSE_SECONDS = 1.0
JOIN_SECONDS = 0.1
"""How often it is looked for a command that is on record and not in memory."""
STOP_SECONDS = 10.0
"""How long the guest may take to hear that a command is not wanted any more; it ends it all the same."""
RETURN_SECONDS = 30.0
"""How long the caller of a command with a key has to ask for it again after a restart, before it counts as gone."""
CALLER_LEFT = "its caller left, and had asked that it be stopped then"
UNKNOWN = (
    "the service restarted while this ran, and the sandbox does not know any more how it ended: it is of an older"
    " release, or that was too long ago"
)
STATUSES: Final[dict[str, Literal["timeout", "stopped"]]] = {"timeout": "timeout", "interrupted": "stopped"}
"""What callers read of a command by the status of its execution; of any other that it is done."""
KILLED = 137
"""What a shell says of a program that got SIGKILL, be it for want of memory."""


class Commands:
    """Run a command to its end, or start it in the background. A caller who goes away stops nothing, unless he asks."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        record: Record,
        redaction: Redaction,
        readiness: Readiness,
        disk_room: DiskRoom,
        background: Background,
        registry: Registry,
        task_ends: TaskEnds,
    ) -> None:
        self._task_ends = task_ends
        self._settings = settings
        self._clock = clock
        self._database = database
        self._record = record
        self._redaction = redaction
        self._readiness = readiness
        self._disk_room = disk_room
        self._background = background
        self._registry = registry

    async def run(
        self,
        principal: Principal,
        session_id: str,
        request: CommandRequest,
        *,
        face: str = "rest",
        lease: str | None = None,
        key: str | None = None,
    ) -> Command:
        """A foreground command's result, or the background task just started. It came through that `face`.

        With `stop_when_gone` it is stopped when the call is cancelled. The same `key` and request get the same command,
        also after a restart and when its session has ended; its text is cut then to what is stored of it.

        Raises SessionBusy while another than the caller's `lease` lasts, IdempotencyConflict.
        """
        self._readiness.require_accepting()
        timeout = self._timeout(request)
        _require_text(request.command, self._settings.code_bytes)
        if key is not None and (begun := await self._find_begun(principal, session_id, request, key)) is not None:
            return await self._join(principal, begun, request)
        live = await self._registry.require(principal, session_id)
        live.require_unleased(lease)
        self._disk_room.require()
        row = self.make_row(live, request, timeout, author=principal.name, face=face, key=key)
        gone = asyncio.Event()
        try:
            return await self._background.carry_out(self._run(live, request, row, gone), f"command in {live.id}")
        except asyncio.CancelledError:
            gone.set()
            raise
        except IntegrityError:  # the same was asked for twice at once, and the other is on record
            begun = None if key is None else await self._find_begun(principal, session_id, request, key)
            if begun is None:
                raise
            return await self._join(principal, begun, request)

    async def _find_begun(
        self, principal: Principal, session_id: str, request: CommandRequest, key: str
    ) -> ExecutionRow | None:
        """The command that was begun with this key; raises NotFound, IdempotencyConflict."""
        if self._registry.find(principal, session_id) is None:
            await self._registry.row(principal, session_id)
        found = await self._database.run(lambda c: executions.find_by_key(c, session_id, key))
        if found is not None and found.request_digest != compute_digest(request):
            raise IdempotencyConflict("the key was used with another request in this session", execution_id=found.id)
        return found

    async def _join(self, principal: Principal, row: ExecutionRow, request: CommandRequest) -> Command:
        """What came of a command that was begun, once that is known. Raises as its own call did."""
        while row.ended is None:
            live = self._registry.find(principal, row.session_id)
            command = None if live is None else live.commands.get(row.id)
            if command is None:  # a start of the service is about to take it up, or its last row is about to be stored
                await self._clock.sleep(JOIN_SECONDS)
            else:
                await self._wait_again(command)
            found = await self._database.run(partial(_find, row))
            if found is None:
                raise NotFound("the session is gone")
            row = found
        live = self._registry.find(principal, row.session_id)
        if live is not None:
            return _describe_stored(row, request, live.sandbox.flushes.sync())
        return _describe_stored(row, request, (await self._registry.row(principal, row.session_id)).record.sync)

    async def _wait_again(self, command: RunningCommand) -> None:
        command.found_again = True
        try:
            await command.wait_ended()
        except asyncio.CancelledError:
            command.caller_gone.set()
            raise

    async def _run(self, live: LiveSession, request: CommandRequest, row: ExecutionRow, gone: asyncio.Event) -> Command:
        with translated(), live.in_use():
            kernel = await live.sandbox.ready()
            if not request.background:
                kept = UnderWay(merge_output=request.merge_output, stop_when_gone=request.stop_when_gone)
                row = await self.begin(live, replace(row, under_way=kept))
                live.commands[row.id].caller_gone = gone
                return await self._wait(live, kernel, row, gone)
            row = await self.begin(live, row)
            try:
                result = await self._start(kernel, row, background=True, merge_output=request.merge_output)
            except KernelsError as error:
                await self.finish(live, replace(row, status="died", outcome=death_outcome("sandbox", str(error))))
                raise
            row = replace(row, outcome=command_outcome(result), under_way=UnderWay(task=True))
            row = await self.finish(live, replace(row, status=command_status(result)))
            live.remember_task(result.id, kernel)
            self._task_ends.watch(live, kernel, row)
            return command_of(result, execution_id=row.id)

    def take_up(self, live: LiveSession, kernel: SandboxedKernel, row: ExecutionRow) -> None:
        """An earlier process began this command, and its guest keeps it: it ends as it would have. Returns at once."""
        # Higher than any event of that process, which told a few a second: who followed it reads that some are missing.
        passed = max(0.0, self._clock.now() - (row.started or row.queued))
        self._note_begun(live, row, base=1_000 + 4 * int(passed))
        self._background.spawn(self._go_on(live, kernel, row), f"command {row.id}")

    async def _go_on(self, live: LiveSession, kernel: SandboxedKernel, row: ExecutionRow) -> None:
        """In the sandbox that was adopted alone: another, which the session may have by now, would begin it again."""
        command = live.commands[row.id]
        if row.idempotency_key is None:
            command.caller_gone.set()  # the caller of that process is not there any more
        else:
            self._background.spawn(self._await_return(command), f"return to {row.id}")
        with translated(), live.in_use(attended=row.unfollowed_seconds > 0):
            await self._wait(live, kernel, row, command.caller_gone, again=True)

    async def _await_return(self, command: RunningCommand) -> None:
        await self._clock.sleep(RETURN_SECONDS)
        if not command.found_again:
            command.caller_gone.set()

    async def _wait(
        self, live: LiveSession, kernel: SandboxedKernel, row: ExecutionRow, gone: asyncio.Event, *, again: bool = False
    ) -> Command:
        """The end of a command in the foreground, stored. Raises KernelsError, which is stored too."""
        kept = row.under_way or UnderWay()
        why = None
        try:
            call = self._keep(kernel, row, merge_output=kept.merge_output, again=again)
            result = await (_run_until(gone, call) if kept.stop_when_gone else call)
            if result is None:
                why, result = CALLER_LEFT, await _stop(kernel, row)
        except GuestRefused as error:
            if error.status not in ((404, 410) if again else (410,)):
                await self._record_death(live, row, error)
                raise
            # Either its guest heard of its stop first, or an earlier process began it and it is forgotten.
            why, result = (UNKNOWN if again else BEFORE_IT_BEGAN), _stopped(row)
        except KernelsError as error:
            await self._record_death(live, row, error)
            raise
        if result.exit_code == KILLED:
            kernel.note_life()
        outcome = replace(command_outcome(result), why=why)
        row = replace(row, ended_number=live.sandbox.flushes.next_number(), outcome=outcome)
        row = await self.finish(live, replace(row, status="interrupted" if why else command_status(result)))
        return command_of(result, await self._request_flush(live, row), execution_id=row.id)

    async def _record_death(self, live: LiveSession, row: ExecutionRow, error: KernelsError) -> None:
        """Unless it is this process that ends, and lets the sandbox go: the next one takes the command up."""
        if live.paused and live.ending is None:
            return
        await self.finish(live, replace(row, status="died", outcome=death_outcome("sandbox", str(error))))

    async def _keep(
        self, kernel: SandboxedKernel, row: ExecutionRow, *, merge_output: bool, again: bool
    ) -> CommandResult:
        """Run it under its row's id, once; a guest of an older release does without, unless it may run already."""
        if row.under_way is not None and row.under_way.program:
            return await kernel.guest.await_end(row.id, timeout_seconds=row.timeout_seconds)
        try:
            return await kernel.guest.keep_command(
                row.id,
                row.code,
                timeout_seconds=row.timeout_seconds,
                output_bytes=self._settings.command_output_bytes,
                merge_output=merge_output,
            )
        except GuestRefused as error:
            if error.status != 404 or again:
                raise
        return await self._start(kernel, row, background=False, merge_output=merge_output)

    async def _start(
        self, kernel: SandboxedKernel, row: ExecutionRow, *, background: bool, merge_output: bool
    ) -> CommandResult:
        return await kernel.guest.run_command(
            row.code,
            timeout_seconds=row.timeout_seconds,
            output_bytes=self._settings.command_output_bytes,
            background=background,
            merge_output=merge_output,
        )

    async def _request_flush(self, live: LiveSession, row: ExecutionRow) -> ExecutionSync:
        """Ask for a flush; what is said of the files, once they are in the store where the answer waits for that."""
        flushes = live.sandbox.flushes
        ticket = flushes.request(row)
        return await flushes.wait_durable(ticket) if row.sync == "before_return" else sync_status(row, flushes.sync())

    def make_row(
        self,
        live: LiveSession,
        request: CommandRequest,
        timeout: float,
        *,
        author: str,
        face: str,
        key: str | None = None,
    ) -> ExecutionRow:
        return ExecutionRow(
            id=str(uuid.uuid4()),
            session_id=live.id,
            status="running",
            language="bash",
            runtime="bash",
            code=request.command,
            generation=live.sandbox.generation,
            timeout_seconds=timeout,
            expect_generation=None,
            idempotency_key=key,
            request_digest=None if key is None else compute_digest(request),
            queued=self._clock.now(),
            kind="command",
            author=author,
            face=face,
            sync="async" if request.background else request.sync or live.row.sync,
        )

    async def begin(self, live: LiveSession, row: ExecutionRow) -> ExecutionRow:
        """It is on record before it runs: after a restart the service says that it was cut off."""
        row = replace(row, generation=live.sandbox.generation, started=self._clock.now())

        def store(connection: Connection) -> None:
            executions.add(connection, row)
            executions.begin(connection, row.id, row.generation, row.started or row.queued)

        await self._database.run(store)
        self._note_begun(live, row)
        live.news.append("command", {"execution_id": row.id, "status": row.status})
        return row

    def _note_begun(self, live: LiveSession, row: ExecutionRow, base: int = 0) -> None:
        settings = self._settings

        def find_guest() -> GuestClient | None:
            return None if live.sandbox.kernel is None else live.sandbox.kernel.guest

        live.commands[row.id] = RunningCommand(
            row,
            find_guest,
            self._background,
            log_bytes=settings.event_log_bytes,
            output_bytes=settings.command_output_bytes,
            base=base,
        )

    async def finish(self, live: LiveSession, row: ExecutionRow) -> ExecutionRow:
        """Store how it ended, now or, when that does not work, as soon as it does: the caller has his answer."""
        row = await asyncio.to_thread(self._redaction.row, row) if self._redaction.wanted else row
        outcome = trim(row.outcome or StoredOutcome(), self._settings.stored_text_bytes)
        provenance = provenance_of(None, live.sandbox.environment_digest)
        row = replace(row, outcome=outcome, provenance=provenance, ended=self._clock.now())
        if (followed := live.commands.get(row.id)) is not None:
            row = replace(row, last_sequence=await followed.read_last())
        live.notebook_stale = True
        metrics.count_execution(row.kind, row.status, row.queued, row.started, row.ended)
        tracing.note_execution(tracing.current(), row)
        try:
            await self._store(live, row)
        except (NoSpace, DatabaseUnavailable) as error:
            log.error("command_not_stored", session=live.id, execution=row.id, error=error.code)
            live.unstored[row.id] = row
            self._background.spawn(self._insist(live, row), f"end of command {row.id}")
        return row

    async def _store(self, live: LiveSession, row: ExecutionRow) -> None:
        # While code runs at the same time, whose changes the files are cannot be known: they count as the code's.
        look = partial(find_changes, live) if live.running is None else None
        with self._record.ending(live.id, row.id, look):
            await self._database.run(lambda connection: executions.finish(connection, row))
        if (followed := live.commands.pop(row.id, None)) is not None:
            followed.end(row, sync_status(row, live.sandbox.flushes.sync()))
        live.news.append("command", {"execution_id": row.id, "status": row.status})

    async def _insist(self, live: LiveSession, row: ExecutionRow) -> None:
        while True:
            await self._clock.sleep(PAUSE_SECONDS)
            try:
                await self._store(live, row)
            except (NoSpace, DatabaseUnavailable):
                continue
            live.unstored.pop(row.id, None)
            return

    def _timeout(self, request: CommandRequest) -> float:
        if request.background and request.sync == "before_return":
            raise InvalidRequest(
                "a background task's answer does not wait for its files: leave `sync` out, or run it in the foreground",
                field="sync",
            )
        if request.background and request.stop_when_gone:
            raise InvalidRequest(
                "a background task's answer comes at once: leave `stop_when_gone` out", field="stop_when_gone"
            )
        settings = self._settings
        most = settings.task_timeout_seconds if request.background else settings.command_timeout_seconds
        timeout = most if request.timeout_seconds is None else request.timeout_seconds
        if not 0 < timeout <= most:
            raise InvalidRequest(f"timeout_seconds must be more than 0 and at most {most:g}")
        return timeout


class Tasks:
    """Background commands by id. Asking after one does not count as activity."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def get(self, principal: Principal, session_id: str, task_id: str) -> Command:
        """Its state and output so far; `lost` when its sandbox is gone."""
        live = await self._registry.require(principal, session_id)
        return await self._ask(live, task_id, stop=False)

    async def stop(self, principal: Principal, session_id: str, task_id: str) -> Command:
        """End it and all its processes; one that has ended stays as it ended."""
        live = await self._registry.require(principal, session_id)
        live.touch()
        return await self._ask(live, task_id, stop=True)

    async def _ask(self, live: LiveSession, task_id: str, *, stop: bool) -> Command:
        """Without the memory of a task (started before the service restarted) the guest is asked all the same."""
        kernel = live.sandbox.kernel
        if task_id in live.tasks and live.tasks[task_id] is not kernel:
            return Command(task_id, "lost")
        if kernel is None:
            raise NotFound("there is no such task", reason="not_found")
        try:
            with translated():
                result = await (kernel.guest.stop_task(task_id) if stop else kernel.guest.task(task_id))
        except SandboxUnavailable as error:
            if isinstance(error.__cause__, SandboxGone):
                return Command(task_id, "lost")
            raise
        if stop:
            live.sandbox.flushes.request()
        return command_of(result)


async def _run_until(gone: asyncio.Event, call: Coroutine[Any, Any, CommandResult]) -> CommandResult | None:
    """The result of a call, or None when the caller left first: the call is cancelled then."""
    running, leaving = asyncio.create_task(call), asyncio.create_task(gone.wait())
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
    finally:
        await cancel_all([running, leaving], STOP_SECONDS)
    return None


async def _stop(kernel: SandboxedKernel, row: ExecutionRow) -> CommandResult:
    """How a command was that is not wanted any more; one that had no id has ended with its call."""
    try:
        return await kernel.guest.stop_command(row.id)
    except GuestRefused:
        return _stopped(row)


def _stopped(row: ExecutionRow) -> CommandResult:
    """A command of which nothing is known."""
    return CommandResult(
        row.id, "stopped", "", "", None, timed_out=False, duration_seconds=0.0, stdout_truncated=0, stderr_truncated=0
    )


def command_of(result: CommandResult, sync: ExecutionSync | None = None, *, execution_id: str | None = None) -> Command:
    """A command as callers see it."""
    return Command(
        id=result.id,
        status=result.status,  # type: ignore[arg-type]
        stdout=result.stdout,
        stderr=result.stderr,
        exit_code=result.exit_code,
        timed_out=result.timed_out,
        duration_seconds=result.duration_seconds,
        truncated=Truncated(stdout=result.stdout_truncated, stderr=result.stderr_truncated),
        sync=sync or ExecutionSync(),
        execution_id=execution_id,
    )


def _find(row: ExecutionRow, connection: Connection) -> ExecutionRow | None:
    return executions.find(connection, row.session_id, row.id)


def _describe_stored(row: ExecutionRow, request: CommandRequest, sync: Sync) -> Command:
    """A command that is on record as callers see it; raises SandboxUnavailable for one of which no end is known."""
    outcome = row.outcome or StoredOutcome()
    if outcome.task is not None:
        return Command(outcome.task, "running", execution_id=row.id)
    if request.background or row.status == "died":
        raise SandboxUnavailable(outcome.why or (outcome.death.detail if outcome.death is not None else "it was lost"))
    return Command(
        id=row.id,
        status=STATUSES.get(row.status, "done"),
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        exit_code=outcome.exit_code,
        timed_out=row.status == "timeout",
        duration_seconds=max(0.0, (row.ended or row.queued) - (row.started or row.queued)),
        truncated=outcome.truncated,
        sync=sync_status(row, sync),
        execution_id=row.id,
    )


def _require_text(command: str, most_bytes: int) -> None:
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise InvalidRequest("a command must be valid UTF-8 text") from None
    if not command.strip() or "\0" in command:
        raise InvalidRequest("a command must have text and no NUL character")
    if size > most_bytes:
        raise PayloadTooLarge(f"the command has {size:,} bytes; the most is {most_bytes:,}")
