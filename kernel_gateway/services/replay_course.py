"""How one replay goes: its cells in a session, verdict by verdict, and once more in another when something differs.

A *pass* is all cells in one session. The first gives the verdicts; the second, in a fresh session of its own, only
tells what differs from what is never the same.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from kernel_gateway.errors import GatewayError
from kernel_gateway.identity.principal import Principal
from kernel_gateway.replay_shapes import CellReplay
from kernel_gateway.services.replay_notebook import LEFT_OUT, replayed_notebook
from kernel_gateway.services.replay_stage import Doing, Ran, Stage, failed
from kernel_gateway.services.replay_state import Replaying
from kernel_gateway.services.replay_steps import Step, last_step
from kernel_gateway.services.replay_verdicts import AS_RECORDED, not_run, verdict_of
from kernel_gateway.services.workspace_copies import WorkspaceCopies
from kernel_gateway.shapes import StartSession
from kernel_gateway.storage.executions import StoredOutcome

STOPPED_HERE = "the replay was to stop at the first difference, which is cell {number}"
KERNEL_DIED = "the kernel died in cell {number}, which it did not in the record, and its globals went with it"
NOT_REACHED = "the replay ended before it"
PAST_THE_END = "it comes after the cell that the replay was to stop at"


async def nothing_to_wait_for() -> None:
    """A replay that begins at once."""


@dataclass
class Course:
    """One replay's way from its first cell to its notebook. `document` is the notebook that was given.

    `wait_for_turn` returns when it may begin.
    """

    doing: Doing
    copies: WorkspaceCopies
    principal: Principal
    replay: Replaying
    document: dict[str, Any]
    session: StartSession
    notebook_bytes: int
    wait_for_turn: Callable[[], Awaitable[None]] = nothing_to_wait_for

    async def run(self) -> None:
        """All of it; raises our errors, with the verdicts that there are given. Sessions are left to the caller."""
        replay, request = self.replay, self.replay.request
        steps = replay.steps[: last_step(replay.steps, request.until)]
        ran: dict[int, Ran] = {}
        try:
            await self.wait_for_turn()
            replay.session_id = request.continue_session or await self._fresh_session(first=True)
            replay.tell("started", replay_id=replay.id, session_id=replay.session_id, cells=replay.cells, of=replay.of)
            await self._first_pass(steps, ran)
            if request.determinism and request.continue_session is None:
                await self._tell_chance_apart(steps, ran)
        except GatewayError as error:
            self._give_rest(steps, failed(error))
            raise
        except asyncio.CancelledError:
            self._give_rest(steps, "the replay was stopped before this was done")
            raise
        finally:
            self._give_rest(replay.steps, PAST_THE_END if request.until is not None else NOT_REACHED)
            await asyncio.shield(self._finish_notebook(ran))

    async def _first_pass(self, steps: Sequence[Step], ran: dict[int, Ran]) -> None:
        stage = self._stage(self.replay.session_id or "")
        for step in steps:
            if step.skipped:
                self.replay.give(not_run(step, step.skipped))
                continue
            self.replay.tell("cell", number=step.number, id=step.id, cells=self.replay.cells)
            result = await stage.run(step)
            verdict = await self._judged(step, result)
            self.replay.give(verdict)
            ran[step.number] = self._kept(result)
            if why := self._why_stop(step, result, verdict):
                self._give_rest(steps, why)
                return

    def _why_stop(self, step: Step, ran: Ran, verdict: CellReplay) -> str:
        if ran.blank and step.status != "died":
            return KERNEL_DIED.format(number=step.number)
        if self.replay.request.stop_on_difference and verdict.verdict not in AS_RECORDED:
            return STOPPED_HERE.format(number=step.number)
        return ""

    async def _tell_chance_apart(self, steps: Sequence[Step], ran: dict[int, Ran]) -> None:
        """Run it all again, as far as the last difference, and look whether the two runs differ from each other too."""
        unsure = {step.number: step for step in steps if self._verdict(step) == "different"}
        if not unsure:
            return
        try:
            await self._second_pass([step for step in steps if step.number <= max(unsure)], unsure, ran)
        except GatewayError as error:
            why = f"whether it is the same each time is not known: the second run ended early, {error.message}"
            for step in unsure.values():
                self._give_again(step, why)

    async def _second_pass(self, steps: Sequence[Step], unsure: dict[int, Step], ran: dict[int, Ran]) -> None:
        """Takes from `unsure` what it has told."""
        self.replay.tell("again", cells=len(steps))
        if not self.replay.keeps:
            await self._end_session(self.replay.session_id or "")
        session_id = await self._fresh_session(first=False)
        stage = self._stage(session_id)
        try:
            for step in steps:
                if step.skipped or self._verdict(step) == "not_run":
                    continue
                result = await stage.run(step)
                if unsure.pop(step.number, None) is not None and not ran[step.number].left_out:
                    self.replay.give(await self._judged(step, ran[step.number], result))
                if result.blank and step.status != "died":
                    break
        finally:
            await self.doing.parts.background.carry_out(self._end_session(session_id), f"end of {session_id}")

    def _kept(self, ran: Ran) -> Ran:
        """What came of a cell, for the new notebook: without its outputs once there are more than a notebook holds."""
        size = len(msgspec.json.encode(ran.outputs))
        if self.replay.held_bytes + size > self.notebook_bytes:
            return replace(ran, outputs=[LEFT_OUT], left_out=True)
        self.replay.held_bytes += size
        return ran

    async def _end_session(self, session_id: str) -> None:
        await self.doing.sessions.stop(self.principal, session_id)

    async def _fresh_session(self, *, first: bool) -> str:
        """A session for one pass, its id known before it starts, so that whoever stops the replay can end it."""
        session_id, inputs = str(uuid.uuid4()), self.replay.request.inputs
        body = self.session if first else msgspec.structs.replace(self.session, name=f"{self.session.name}, again")
        self.replay.owned.append(session_id)
        try:
            if inputs is not None:
                await self.copies.copy(self.principal, inputs, session_id)
            await self.doing.sessions.start(self.principal, body, session_id)
        except GatewayError:
            if inputs is not None:
                await self.copies.discard(session_id)
            raise
        return session_id

    def _stage(self, session_id: str) -> Stage:
        return Stage(self.doing, self.principal, session_id, self.replay.request.timeout_seconds)

    async def _judged(self, step: Step, ran: Ran, second: Ran | None = None) -> CellReplay:
        """Beside the loop: images and long texts take a while to compare."""
        return await asyncio.to_thread(self._compared, step, ran, second)

    def _compared(self, step: Step, ran: Ran, second: Ran | None) -> CellReplay:
        parts = self.doing.parts
        if parts.redaction.wanted and step.recorded is not None:  # what ran now is without what must not be recorded
            step = replace(step, recorded=parts.redaction.outcome(StoredOutcome(outputs=step.recorded)).outputs)
        caps = (parts.settings.output_text_bytes, parts.settings.stored_text_bytes)
        return verdict_of(step, ran, caps, second)

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
            self.replay.give(msgspec.structs.replace(found, why=f"{found.why}; {more}" if found.why else more))

    async def _finish_notebook(self, ran: dict[int, Ran]) -> None:
        replay = self.replay
        about = {"replay_id": replay.id, "session_id": replay.session_id, "of": replay.of}
        verdicts = {step.number: found for step in replay.steps if (found := replay.verdict_on(step)) is not None}
        replay.notebook = await asyncio.to_thread(replayed_notebook, self.document, ran, verdicts, about)
