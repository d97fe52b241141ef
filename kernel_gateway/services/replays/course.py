"""How one replay goes: its cells in a session, verdict by verdict, and once more in another when something differs.

A *pass* is all cells in one session. The first gives the verdicts. The second, in a fresh session of its own, begins
when a cell differs from the record, and shows what varies under the same inputs. It runs at the end; where the replay
is to stop at the first difference, at each cell that differs, beside the first session, which may have to go on.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from kernel_gateway.errors import GatewayError
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.replays.notebook import LEFT_OUT, build_notebook
from kernel_gateway.services.replays.stage import CellOutcome, ReplayServices, Stage, describe_failure
from kernel_gateway.services.replays.state import Replaying
from kernel_gateway.services.replays.steps import Step, began, last_step
from kernel_gateway.services.replays.verdicts import AS_RECORDED, add_sentence, not_run, verdict_of
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies, keep_all
from kernel_gateway.storage.executions import StoredOutcome
from sandcell.models.replays import CellReplay
from sandcell.models.sessions import StartSession
from workspace_sync.workspaces.file_info import FileInfo

STOPPED_HERE = "the replay was to stop at the first difference, which is cell {number}"
KERNEL_DIED = "the kernel died in cell {number}, which it did not in the record, and its globals went with it"
NOT_REACHED = "the replay ended before it"
PAST_THE_END = "it comes after the cell that the replay was to stop at"


async def nothing_to_wait_for() -> None:
    """A replay that begins at once."""


class Beginning(Protocol):
    """A state that a session begins with in place of its first cells."""

    @property
    def cells(self) -> int:
        """How many of the notebook's code cells are in it."""

    @property
    def generation(self) -> int:
        """Of the recorded kernel that had it."""

    async def fill(self, session_id: str) -> None:
        """Have its files be those that the session starts with; raises our errors."""

    async def give(self, session_id: str) -> None:
        """Have its variables be those of the session's kernel, which is blank; raises our errors."""


@dataclass
class Pass:
    """The cells in one session: `steps` are those to run, of the second pass those left, and `began` is when it did."""

    stage: Stage
    steps: list[Step]
    began: str
    ids: dict[str, int] = field(default_factory=dict)
    """Numbers of the cells that ran, by their executions."""
    ran: dict[int, CellOutcome] = field(default_factory=dict)
    """What came of them, without their outputs."""

    async def run(self, step: Step) -> CellOutcome:
        """Run one cell; raises our errors."""
        ran = await self.stage.run(step)
        self.ran[step.number] = replace(ran, outputs=[])
        if ran.execution_id is not None:
            self.ids[ran.execution_id] = step.number
        return ran


@dataclass
class ReplayRun:
    """One replay's way from its first cell to its notebook. `document` is the notebook that was given.

    `wait_for_turn` returns when it may begin.
    """

    services: ReplayServices
    copies: WorkspaceCopies
    principal: Principal
    replay: Replaying
    document: dict[str, Any]
    session: StartSession
    notebook_bytes: int
    wait_for_turn: Callable[[], Awaitable[None]] = nothing_to_wait_for
    keep: Callable[[FileInfo], bool] = keep_all
    """Which files of `inputs` are copied."""
    beginning: Beginning | None = None
    """What is there in place of `inputs` and of the first cells."""
    left_out: list[str] = field(default_factory=list)
    """The paths of those that were not, once the first session has started."""
    _first: Pass | None = None
    _second: Pass | None = None
    _given_up: bool = False
    """The second pass cannot go on."""
    _revised: dict[int, int] = field(default_factory=dict)
    """Cells that later ones have changed by updating their displays, each with the number of the last of them."""
    _settled: bool = False
    """The first pass has ended, and those cells are judged by what they show in the end."""

    async def run(self) -> None:
        """All of it; raises our errors, with the verdicts that there are given. Sessions are left to the caller."""
        replay, request = self.replay, self.replay.request
        begun = 0 if self.beginning is None else self.beginning.cells
        steps = replay.steps[begun : last_step(replay.steps, request.until)]
        ran: dict[int, CellOutcome] = {}
        try:
            await self.wait_for_turn()
            first = self._first = await self._begin_pass(steps, request.continue_session, first=True)
            replay.session_id = first.stage.session_id
            replay.tell("started", replay_id=replay.id, session_id=replay.session_id, cells=replay.cells, of=replay.of)
            await self._first_pass(first, ran)
            await self._judge_revised(first, ran)
            if not replay.keeps and self._second is None and self._unsure(steps):
                await self.services.sessions.stop(self.principal, first.stage.session_id)
            await self._tell_noise_apart(steps, ran)
        except GatewayError as error:
            self._give_rest(steps, describe_failure(error))
            raise
        except asyncio.CancelledError:
            self._give_rest(steps, "the replay was stopped before this was done")
            raise
        finally:
            self._give_rest(replay.steps, PAST_THE_END if request.until is not None else NOT_REACHED)
            await asyncio.shield(self._finish_notebook(ran))

    async def _first_pass(self, first: Pass, ran: dict[int, CellOutcome]) -> None:
        for step in first.steps:
            if step.skipped:
                self.replay.give(not_run(step, step.skipped))
                continue
            self.replay.tell("cell", number=step.number, id=step.id, cells=self.replay.cells)
            result = await first.run(step)
            self._revised |= {first.ids[each]: step.number for each in result.updated if each in first.ids}
            self.replay.give(await self._judge(step, result))
            ran[step.number] = self._keep(result)
            if self.replay.request.stop_on_difference:
                await self._tell_noise_apart([step], ran)
            if why := self._why_stop(step, result):
                self._give_rest(first.steps, why)
                return

    async def _judge_revised(self, first: Pass, ran: dict[int, CellOutcome]) -> None:
        """Judge again what shows something else now than when it had run, here or in the record."""
        self._settled = True
        numbers = {step.id: step.number for step in first.steps if step.number in ran}
        for step in (each for each in first.steps if each.number in ran):
            if step.revised_by and step.revised_by <= numbers.keys():
                last = max(numbers[each] for each in step.revised_by)
                self._revised[step.number] = max(self._revised.get(step.number, 0), last)
            if step.number in self._revised:
                fresh = await first.stage.again(step, ran[step.number])
                self.replay.give(await self._judge(step, fresh))
                self.replay.held_bytes -= 0 if ran[step.number].left_out else _held_bytes(ran[step.number])
                ran[step.number] = self._keep(fresh)

    def _why_stop(self, step: Step, ran: CellOutcome) -> str:
        if ran.blank and step.status != "died":
            return KERNEL_DIED.format(number=step.number)
        if self.replay.request.stop_on_difference and self._verdict(step) not in AS_RECORDED:
            return STOPPED_HERE.format(number=step.number)
        return ""

    def _unsure(self, steps: Sequence[Step]) -> dict[int, Step]:
        """The cells that differ and of which a second replay may show more."""
        request = self.replay.request
        if not request.determinism or request.strict or request.continue_session is not None or self._given_up:
            return {}
        return {step.number: step for step in steps if self._verdict(step) == "different"}

    async def _tell_noise_apart(self, steps: Sequence[Step], ran: dict[int, CellOutcome]) -> None:
        """Run the second replay as far as the last difference, and judge again by what varies between the two."""
        unsure = self._unsure(steps)
        if not unsure:
            return
        try:
            await self._second_pass(unsure, ran)
            why = "the kernel died in it"
        except GatewayError as error:
            self._given_up = True
            why = error.message
        for step in unsure.values():  # those that it did not come to
            self._give_again(step, f"whether it is the same each time is not known: the second run ended early, {why}")

    async def _second_pass(self, unsure: dict[int, Step], ran: dict[int, CellOutcome]) -> None:
        """Takes from `unsure` what it has judged; a later call goes on where it ended."""
        if self._second is None:
            steps = self._first.steps if self._first is not None else []
            self.replay.tell("again", cells=sum(step.number <= max(unsure) for step in steps))
            self._second = await self._begin_pass(steps, None, first=False)
        second = self._second
        while second.steps and second.steps[0].number <= self._reach(unsure):
            step = second.steps.pop(0)
            if step.skipped or self._verdict(step) == "not_run":
                continue
            result = await second.run(step)
            if step.number in unsure and not self._waits(step):
                await self._judge_by_both(unsure.pop(step.number), ran, result)
            if result.blank and step.status != "died":
                self._given_up = True
                return
        for step in [each for each in unsure.values() if each.number in second.ran]:
            result = await second.stage.again(step, second.ran[step.number])
            await self._judge_by_both(unsure.pop(step.number), ran, result)

    def _reach(self, unsure: dict[int, Step]) -> int:
        """The number of the last cell that is to run a second time."""
        return max((self._revised.get(number, number) for number in unsure), default=0)

    def _waits(self, step: Step) -> bool:
        """Whether what a cell shows in the end comes of later ones."""
        return self._settled and step.number in self._revised

    async def _judge_by_both(self, step: Step, ran: dict[int, CellOutcome], second: CellOutcome) -> None:
        if not ran[step.number].left_out:
            self.replay.give(await self._judge(step, ran[step.number], second))

    def _keep(self, ran: CellOutcome) -> CellOutcome:
        """What came of a cell, for the new notebook: without its outputs once there are more than a notebook holds."""
        size = _held_bytes(ran)
        if self.replay.held_bytes + size > self.notebook_bytes:
            return replace(ran, outputs=[LEFT_OUT], left_out=True)
        self.replay.held_bytes += size
        return ran

    async def _begin_pass(self, steps: Sequence[Step], session_id: str | None, *, first: bool) -> Pass:
        began = rfc3339(self.services.clock.now())
        session_id = session_id or await self._fresh_session(first=first)
        generation = None if self.beginning is None else self.beginning.generation
        stage = Stage(self.services, self.principal, session_id, self.replay.request.timeout_seconds, generation)
        return Pass(stage, list(steps), began)

    async def _fresh_session(self, *, first: bool) -> str:
        """A session for one pass, its id known before it starts, so that stopping the replay can end it."""
        session_id, inputs = str(uuid.uuid4()), self.replay.request.inputs
        body = self.session if first else msgspec.structs.replace(self.session, name=f"{self.session.name}, again")
        self.replay.owned.append(session_id)
        try:
            if self.beginning is not None:
                await self.beginning.fill(session_id)
            elif inputs is not None:
                self.left_out = await self.copies.copy(self.principal, inputs, session_id, self.keep)
            await self.services.sessions.start(self.principal, body, session_id, has_files=inputs is not None)
        except GatewayError:
            if inputs is not None:
                await self.copies.discard(session_id)
            raise
        if self.beginning is not None:
            await self.beginning.give(session_id)
        return session_id

    async def _judge(self, step: Step, ran: CellOutcome, second: CellOutcome | None = None) -> CellReplay:
        """Beside the loop: images and long texts take a while to compare."""
        return await asyncio.to_thread(self._compare, step, ran, second)

    def _compare(self, step: Step, ran: CellOutcome, second: CellOutcome | None) -> CellReplay:
        settings, redaction = self.services.settings, self.services.redaction
        if step.as_written is not None and not self._waits(step):
            step = replace(step, recorded=step.as_written)
        if redaction.wanted and step.recorded is not None:  # what ran now is without what must not be recorded
            step = replace(step, recorded=redaction.outcome(StoredOutcome(outputs=step.recorded)).outputs)
        caps = (settings.output_text_bytes, settings.stored_text_bytes)
        passes = [self._first, self._second]
        times = [began(self.document), *(None if each is None else each.began for each in passes)]
        return verdict_of(step, ran, caps, second, began=times, strict=self.replay.request.strict)

    def _verdict(self, step: Step) -> str | None:
        found = self.replay.verdict_on(step)
        return None if found is None else found.verdict

    def _give_rest(self, steps: Sequence[Step], why: str) -> None:
        for step in steps:
            if self.replay.verdict_on(step) is None:
                self.replay.give(not_run(step, step.skipped or why))

    def _give_again(self, step: Step, more: str) -> None:
        found = self.replay.verdict_on(step)
        if found is not None:
            self.replay.give(msgspec.structs.replace(found, why=add_sentence(found.why, more)))

    async def _finish_notebook(self, ran: dict[int, CellOutcome]) -> None:
        replay = self.replay
        about = {"replay_id": replay.id, "session_id": replay.session_id, "of": replay.of}
        verdicts = {step.number: found for step in replay.steps if (found := replay.verdict_on(step)) is not None}
        replay.notebook = await asyncio.to_thread(build_notebook, self.document, ran, verdicts, about)


def _held_bytes(ran: CellOutcome) -> int:
    return len(msgspec.json.encode(ran.outputs))
