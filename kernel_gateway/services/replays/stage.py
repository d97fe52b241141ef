"""Runs the cells of a replay in one session, one after another, through the same services as any caller's.

So each of them is an execution of that session, with its own record. What ran is given back as it is stored: cut and
redacted by the same rules as what it is compared with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

import msgspec

from kernel_gateway.errors import GatewayError
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.executions.commands import Commands
from kernel_gateway.services.executions.executions import Executions
from kernel_gateway.services.replays.steps import Step, digests_of
from kernel_gateway.services.results.displays import targets
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import StoredOutcome
from kernels.execution.outputs import Output
from kernels.notebook.transcript import split_output, trim_output
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.executions import Execution, Submission

FACE: Final = "replay"


@dataclass(frozen=True)
class CellOutcome:
    """What came of one cell. `status` is an execution's; `blank`: the kernel and its globals are gone since.

    `left_out`: its outputs are not kept.
    """

    status: str
    outputs: list[Output] = field(default_factory=list)
    execution_id: str | None = None
    execution_count: int | None = None
    started_at: str | None = None
    ended_at: str | None = None
    digests: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of streams that are cut, by their names."""
    seconds: float | None = None
    exit_code: int | None = None
    blank: bool = False
    left_out: bool = False
    why: str = ""
    updated: Sequence[str] = ()
    """Executions before it of which it changed displays."""


class ReplayServices(msgspec.Struct, frozen=True):
    """What a replay runs its cells through, and what it judges them by."""

    settings: Settings
    clock: Clock
    database: Database
    gateway_id: str
    redaction: Redaction
    background: Background
    sessions: Sessions
    executions: Executions
    commands: Commands


class Stage:
    """One session in which a replay's cells run. `timeout_seconds` is each cell's; None: the service's default.

    `generation` is that of the recorded kernel whose state it has already; None when its kernel is blank.
    """

    def __init__(
        self,
        services: ReplayServices,
        principal: Principal,
        session_id: str,
        timeout_seconds: float | None,
        generation: int | None = None,
    ) -> None:
        self.session_id = session_id
        self._services = services
        self._principal = principal
        self._timeout_seconds = timeout_seconds
        self._recorded_generation = generation
        self._blank = False

    async def run(self, step: Step) -> CellOutcome:
        """Run one cell to its end, on a blank kernel if that is where it ran; raises our errors."""
        await self._follow_generation(step)
        if step.kind == "code":
            ran = await self._code(step)
        else:
            ran = await self._command(step)
        self._blank = ran.blank
        return ran

    async def _follow_generation(self, step: Step) -> None:
        """Where the recorded kernel was replaced between two cells, this one is too, unless it died by itself."""
        before, self._recorded_generation = self._recorded_generation, step.generation
        if before is None or step.generation is None or step.generation <= before:
            return
        if not self._blank and not step.clear_context:
            await self._services.sessions.restart(self._principal, self.session_id)

    async def _code(self, step: Step) -> CellOutcome:
        services, session_id = self._services, self.session_id
        submission = Submission(
            code=step.source,
            language=step.language,
            runtime=step.runtime or None,
            timeout_seconds=self._timeout(step, services.settings.execution_timeout_max_seconds),
            clear_context=step.clear_context,
        )
        submit = services.executions.submit(self._principal, session_id, submission, face=FACE)
        submitted = services.background.spawn(submit, f"cell of {session_id}")
        try:
            execution = await asyncio.shield(submitted)
            execution = await services.executions.wait(self._principal, session_id, execution.id)
        except asyncio.CancelledError:
            services.background.spawn(self._interrupt(submitted), f"interrupt a cell of {session_id}")
            raise
        stored = await self._find_stored(execution)
        about = (stored.provenance if stored is not None else None) or {}
        outcome = (stored.outcome if stored is not None else None) or StoredOutcome()
        ran = _cell_outcome(execution, list(outcome.outputs), step, digests_of(about.get("full")))
        return replace(ran, updated=targets(outcome.updates))

    async def again(self, step: Step, ran: CellOutcome) -> CellOutcome:
        """What a cell that ran shows since later ones have updated its displays."""
        of = ran.execution_id or ""
        row = await self._services.database.run(lambda c: executions.find(c, self.session_id, of))
        if row is None or row.outcome is None:
            return ran
        return replace(ran, outputs=_outputs(row.outcome.outputs, step), left_out=False)

    async def _command(self, step: Step) -> CellOutcome:
        timeout = self._timeout(step, self._services.settings.command_timeout_seconds)
        # The record does not say whether stderr was merged into stdout; without a stderr of its own it may have been.
        merge = not any(each.get("name") == "stderr" for each in step.recorded or ())
        background = step.kind == "task"
        request = CommandRequest(step.source, None if background else timeout, background, merge_output=merge)
        clock = self._services.clock
        started = rfc3339(clock.now())
        command = await self._services.commands.run(self._principal, self.session_id, request, face=FACE)
        ran = await asyncio.to_thread(self._command_outcome, command)
        return replace(ran, started_at=started, ended_at=rfc3339(clock.now()))

    def _command_outcome(self, command: Command) -> CellOutcome:
        """Its output as the record has it: cut, then without what is kept out of records."""
        streams = [
            trim_output(
                {"output_type": "stream", "name": name, "text": text}, self._services.settings.stored_text_bytes
            )[0]
            for name, text in (("stdout", command.stdout), ("stderr", command.stderr))
            if text
        ]
        return CellOutcome(
            status=_status(command),
            outputs=self._services.redaction.outcome(StoredOutcome(outputs=streams)).outputs,
            execution_id=command.execution_id,
            seconds=command.duration_seconds,
            exit_code=command.exit_code,
            why=f"its exit code is {command.exit_code}" if command.exit_code else "",
        )

    def _timeout(self, step: Step, most: float) -> float | None:
        asked = step.timeout_seconds or self._timeout_seconds
        return None if asked is None else min(asked, most)

    async def _find_stored(self, execution: Execution) -> executions.ExecutionRow | None:
        """Its row, with its outputs as the record has them."""
        find = executions.find
        return await self._services.database.run(lambda c: find(c, self.session_id, execution.id))

    async def _interrupt(self, submitted: asyncio.Task[Execution]) -> None:
        """The replay was stopped while this ran, or was about to."""
        with contextlib.suppress(GatewayError):  # it was refused, or its session has ended
            execution = await submitted
            await self._services.executions.interrupt(self._principal, self.session_id, execution.id)


def describe_failure(error: GatewayError) -> str:
    """A GatewayError as a sentence about a cell."""
    return f"it could not be run: {error.message}"


def _cell_outcome(execution: Execution, outputs: list[Output], step: Step, digests: Mapping[str, str]) -> CellOutcome:
    why = ""
    if execution.death is not None:
        why = f"the kernel died ({execution.death.cause}): {execution.death.detail}"
    elif execution.status == "rejected" and execution.error is not None:
        why = f"it could not be run: {execution.error.value}"
    return CellOutcome(
        status=execution.status,
        outputs=_outputs(outputs, step),
        execution_id=execution.id,
        execution_count=execution.execution_count,
        started_at=execution.started_at,
        ended_at=execution.ended_at,
        digests=digests,
        seconds=_seconds(execution.started_at, execution.ended_at),
        blank=execution.death is not None and step.runtime == "python",
        why=why,
    )


def _outputs(outputs: Sequence[Output], step: Step) -> list[Output]:
    """Outputs of an execution as those that they are compared with are recorded."""
    if step.ours:  # whose record keeps large outputs as files
        outputs = [split_output(each)[0] for each in outputs]
    return [trim_output(each)[0] for each in outputs]


def _status(command: Command) -> str:
    """As an execution's, by the rule of the record."""
    if command.timed_out:
        return "timeout"
    return "ok" if command.status == "running" or command.exit_code == 0 else "error"


def _seconds(started: str | None, ended: str | None) -> float | None:
    if started is None or ended is None:
        return None
    return round((datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds(), 3)
