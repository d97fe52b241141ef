"""Undo: a session in place as it was before its last cells, in a kernel of the next generation.

Where a checkpoint stands at that cell its variables and files are taken; else a fork of the session there is built, and
a checkpoint made of that: what cannot be built again leaves the session as it is. The cells that are undone stay in the
notebook, which says so, and count for no replay or fork any more.

The session's record says what is about to be done before anything is: an undo that is cut off by the end of the service
is finished at the next start, before anything else runs.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import (
    Conflict,
    DeadlinePassed,
    GatewayError,
    InvalidRequest,
    NotFound,
    SessionBusy,
    translate,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.checkpoints.checkpoints import Checkpoints
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.pieces import Pieces
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.replays.forks import PUT_BACK_SECONDS, Forks
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.replays.steps import Step, is_of_pause, last_step, stands_after
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.workspaces.files import Files
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.storage import sessions as rows
from kernel_gateway.storage.sessions import Undoing, Undone
from kernel_gateway.storage.states import checkpoints
from kernel_gateway.storage.states.checkpoints import CheckpointRow
from sandcell.models.constraints import MOST_BETWEEN
from sandcell.models.sessions import ForkPoint, Session, StartSession, UndoRequest
from workspace_sync import DurableWorkspace
from workspace_sync.workspaces.file_info import FileInfo

log = structlog.get_logger(__name__)
FINISH_SECONDS: Final = 600.0
"""How long it is tried again to finish an undo that was cut off; meanwhile nothing runs in its session."""
AGAIN_SECONDS: Final = 5.0
MOST_UNDONE: Final = 1_000
"""How often one session may be taken back."""


class Undo:
    """`undo`; another principal's session is not found."""

    def __init__(
        self,
        *,
        replays: Replays,
        forks: Forks,
        checkpoints: Checkpoints,
        mirrors: Mirrors,
        copies: WorkspaceCopies,
        files: Files,
        record: Record,
        registry: Registry,
        sessions: Sessions,
        background: Background,
    ) -> None:
        self._replays = replays
        self._forks = forks
        self._checkpoints = checkpoints
        self._mirrors = mirrors
        self._copies = copies
        self._files = files
        self._record = record
        self._registry = registry
        self._sessions = sessions
        self._background = background

    async def undo(self, principal: Principal, session_id: str, body: UndoRequest) -> Session:
        """Take back the last cells of a session; it has the state before them when this returns.

        Raises InvalidRequest, SessionBusy, Conflict (`not_rebuilt`), and as `Forks.start` and `Checkpoints.create`.
        """
        if not 1 <= body.cells <= MOST_BETWEEN:
            raise InvalidRequest(f"cells must be between 1 and {MOST_BETWEEN:,}", field="cells")
        live = await self._registry.require(principal, session_id)
        if live.busy:
            raise SessionBusy("something runs in the session: wait for it", session_id=session_id)
        if len(live.row.record.undone) >= MOST_UNDONE:
            raise Conflict(f"the session was taken back {MOST_UNDONE:,} times, which is the most: fork it")
        counted = live.executions
        steps = await self._replays.list_steps(principal, session_id)
        ran = [step for step in steps if not step.skipped]
        if body.cells > len(ran) or (body.cells == len(ran) and await self._find_beginning(live) is None):
            raise InvalidRequest(_describe_first(live, len(ran)), field="cells")
        target = _Target(ran[-body.cells - 1] if body.cells < len(ran) else None, steps, counted)
        # A caller who goes away stops nothing: half an undo is worse than a whole one.
        await self._background.carry_out(
            self._undo(principal, live, target, ran[: -body.cells], exact=body.exact), f"undo in {live.id}"
        )
        return await self._sessions.get(principal, session_id)

    def finish(self, live: LiveSession) -> None:
        """Called with each session that was another process's: finish what was cut off.

        Returns at once; the session is at rest until then.
        """
        undoing = live.row.record.undoing
        if undoing is not None:
            self._background.spawn(self._finish(live, undoing), f"undo in {live.id}")

    async def _finish(self, live: LiveSession, undoing: Undoing) -> None:
        give_up = asyncio.get_running_loop().time() + FINISH_SECONDS
        with live.at_rest(again=True), live.alone():
            while True:
                try:
                    if live.executions != undoing.executions:
                        raise Conflict("code has run since")
                    state, owner = await self._checkpoints.find_begun(undoing)
                    steps = await self._replays.list_steps(owner, live.id)
                    step = steps[last_step(steps, undoing.after) - 1] if undoing.after else None
                    target = _Target(step, steps, live.executions)
                    await self._restore(owner, live, state, target)
                    return await self._say(live, state, target)
                except Exception as raised:  # the store may be away
                    error = translate(raised)
                    if not error.retryable or asyncio.get_running_loop().time() > give_up:
                        return await self._fail(live, error)
                    log.warning("undo_not_finished", session=live.id, error=error.code)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _undo(
        self, principal: Principal, live: LiveSession, target: _Target, ran: Sequence[Step], *, exact: bool
    ) -> None:
        state = await self._find_state(principal, live, ran, exact=exact)
        try:
            await self._go_back(principal, live, state, target)
        finally:
            if state.kind == "passing" and live.row.record.undoing is None:
                self._background.spawn(self._checkpoints.spend(state), f"end of checkpoint {state.name}")

    async def _find_state(
        self, principal: Principal, live: LiveSession, steps: Sequence[Step], *, exact: bool
    ) -> CheckpointRow:
        """A checkpoint that stands after the last of these cells."""
        stands = partial(stands_after, steps=steps, undone=live.row.record.undone)
        found = await self._checkpoints.find_nearest(live.id, [step.id for step in steps], stands)
        if found is not None and found[1] == len(steps) and not exact:
            return found[0]
        if not steps:
            return await self._require_beginning(live, exact=exact)
        point = ForkPoint(live.id, cell=steps[-1].id, exact=exact)
        record = live.row.record
        start = StartSession(from_=point, name="undo", checkpoint_every=0, keep_variables_mb=record.keep_variables_mb)
        fork = await self._forks.start(principal, start)
        taken: list[CheckpointRow] = []
        try:
            try:
                forked = await self._registry.require(principal, fork.id)
                taken.append(await self._checkpoints.take(forked, "passing", owner=live.id))
            finally:
                await asyncio.shield(self._sessions.stop(principal, fork.id))
        except BaseException:
            for each in taken:
                self._background.spawn(self._checkpoints.spend(each), f"end of checkpoint {each.name}")
            raise
        state = taken[0]
        if exact and (lost := _find_lost(state)):
            await self._checkpoints.spend(state)
            raise _describe_lost(lost)
        return state

    async def _find_beginning(self, live: LiveSession) -> CheckpointRow | None:
        """The checkpoint of how the session was before all of its cells: a fork has one, if there was room for it."""
        found = await self._checkpoints.find_nearest(live.id, (), lambda _generation: True)
        return None if found is None else found[0]

    async def _require_beginning(self, live: LiveSession, *, exact: bool) -> CheckpointRow:
        state = await self._find_beginning(live)
        if state is None:
            raise Conflict(
                "the checkpoint of how the session began is not there any more", reason="not_rebuilt", cells=[]
            )
        if exact and (lost := _find_lost(state)):
            raise _describe_lost(lost)
        return state

    async def _go_back(self, principal: Principal, live: LiveSession, state: CheckpointRow, target: _Target) -> None:
        with live.at_rest() as require:
            with translated():
                kernel = await live.sandbox.ready()  # inside: from here on nothing takes it away, no hibernation either
                await kernel.ready()
            if live.executions != target.counted:
                raise SessionBusy("something has run in the session meanwhile: undo it again", session_id=live.id)
            require()
            with live.alone():
                text = f"**Undo**, back to how it {target.place}, has begun."
                await self._note(live, "undo", text, undoing=Undoing(target.after, state.id, live.executions))
                try:
                    await self._restore(principal, live, state, target)
                except Exception as error:
                    await self._fail(live, translate(error))
                    raise
                await self._say(live, state, target)

    async def _restore(self, principal: Principal, live: LiveSession, state: CheckpointRow, target: _Target) -> None:
        """All that an undo does; what was done of it before is done once more."""
        with translated():
            kernel = await live.sandbox.ready()
            await kernel.ready()
        await self._put_files_back(principal, live, state, target)
        with translated():
            await kernel.restart()
        await self._checkpoints.give(state, live)

    async def _fail(self, live: LiveSession, error: GatewayError) -> None:
        text = f"**Undo failed:** {error.message}. Files and variables may be of either state."
        await self._note_at_last(live, "undo", text, undoing=None)

    async def _put_files_back(
        self, principal: Principal, live: LiveSession, state: CheckpointRow, target: _Target
    ) -> None:
        """Have the workspace hold the files of the checkpoint; what is the same is not written.

        Files that changed in the pause before the first cell that is undone, as an upload does, stay as they are.
        """
        source = self._checkpoints.files(state)
        with translated():
            await self._copies.bring_up_to_date(live.row.workspace_id)
            wanted = {each.path: each for each in await self._mirrors.run(source.list) if each.kind == "file"}
        there = {each.path: each for each in await self._copies.list_files(live.row.workspace_id)}
        later = await self._replays.find_written_after(live.id, target.before)
        stays = partial(is_of_pause, target.find_pause(), later)
        stay = {path for path, each in there.items() if stays(each)}
        try:
            async with asyncio.timeout(PUT_BACK_SECONDS):
                for path, each in wanted.items():
                    if path not in stay and not _is_same(each, there.get(path)):
                        await self._put_back(principal, live, source, path)
                more = sorted(there.keys() - wanted.keys() - stay)
                for _, error in await self._files.remove_all(principal, live.id, more) if more else ():
                    if not isinstance(error, NotFound):
                        raise error
        except TimeoutError:
            raise DeadlinePassed(f"the files were not put back in {PUT_BACK_SECONDS:g} s") from None

    async def _put_back(self, principal: Principal, live: LiveSession, source: DurableWorkspace, path: str) -> None:
        with translated():
            _, chunks = await self._mirrors.run(partial(source.open, path))
        pieces = Pieces(self._mirrors, principal.id, chunks)
        try:
            await self._files.write_stream(principal, live.id, path, pieces)
        finally:
            await pieces.aclose()

    async def _say(self, live: LiveSession, state: CheckpointRow, target: _Target) -> None:
        """From here on those cells do not count, and no checkpoint that stands after one of them."""
        await asyncio.sleep(0)  # the note on the variables has what was known of the session before: it goes first
        undone = Undone(target.after, target.later[-1].id, live.sandbox.generation)
        gone = [step.number for step in target.later if not step.skipped]
        cells = f"cell {gone[0]}" if len(gone) == 1 else f"{len(gone):,} cells, {gone[0]} to {gone[-1]}"
        text = f"**Undone:** {cells}. The session is as it {target.place}."

        def spend(connection: Connection) -> None:
            checkpoints.spend_after(connection, live.id, {step.id for step in target.later})
            if state.kind == "passing":
                checkpoints.spend(connection, state.id)

        undone_now = (*live.row.record.undone, undone)
        await self._note_at_last(live, "undone", text, spend, undone=undone_now, undoing=None)

    async def _note_at_last(self, live: LiveSession, *what: Any, **changed: Any) -> None:
        """The same as `_note`, tried again while the database is away: what is told has happened."""
        give_up = asyncio.get_running_loop().time() + FINISH_SECONDS
        while True:
            try:
                return await self._note(live, *what, **changed)
            except GatewayError as error:
                if not error.retryable or asyncio.get_running_loop().time() > give_up:
                    raise
                log.warning("undo_not_stored", session=live.id, error=error.code)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _note(
        self, live: LiveSession, kind: str, text: str, store: Callable[[Connection], None] | None = None, **changed: Any
    ) -> None:
        """Keep what has changed with the session, and make it a note of the notebook, in one transaction."""
        before = live.row
        live.row = dataclasses.replace(live.row, record=msgspec.structs.replace(live.row.record, **changed))
        record = live.build_record()

        def keep(connection: Connection) -> None:
            rows.set_record(connection, live.id, record)
            if store is not None:
                store(connection)

        try:
            await self._record.note(live, kind, text, keep)
        except BaseException:
            live.row = before
            raise


class _Target(msgspec.Struct, frozen=True):
    """The cell after which the session is to be as it was, among all its `steps`, when so many had been `counted`.

    Without a cell it is to be as it began.
    """

    step: Step | None
    steps: Sequence[Step]
    counted: int

    @property
    def later(self) -> list[Step]:
        """What comes after it."""
        return [each for each in self.steps if self.step is None or each.number > self.step.number]

    @property
    def following(self) -> Step:
        """The first cell that is undone."""
        return next(each for each in self.later if not each.skipped)

    @property
    def before(self) -> str:
        """The id of the cell before that, which may have been undone already; empty for none."""
        place = self.steps.index(self.following)
        return self.steps[place - 1].id if place else ""

    @property
    def after(self) -> str:
        """The id of the cell, empty for none."""
        return "" if self.step is None else self.step.id

    @property
    def place(self) -> str:
        """What a note says of it."""
        return "began" if self.step is None else f"was after cell {self.step.number}"

    def find_pause(self) -> tuple[float, float]:
        """When the session was as it is to be: from the end of that cell to the start of the next one."""
        ended_at = "" if self.step is None else self.step.ended_at
        if ended_at is None or self.following.started_at is None:
            return 0.0, 0.0
        ended = datetime.fromisoformat(ended_at).timestamp() if ended_at else 0.0
        return ended, datetime.fromisoformat(self.following.started_at).timestamp()


def _describe_first(live: LiveSession, count: int) -> str:
    """Why the first cell cannot be undone, and what to do instead."""
    if not count:
        return "the session has no cell that could be taken back"
    said = f"at most {count - 1:,} of the session's {count:,} cells that count can be taken back"
    if live.row.record.origin:
        return f"{said}, since there is no checkpoint of how it began: fork its origin again"
    return f"{said}: the first one stays, and a restart gives a blank kernel"


def _find_lost(state: CheckpointRow) -> list[str]:
    """The variables that this checkpoint does not have."""
    return [each.name for each in state.report.variables if each.outcome != "kept"]


def _describe_lost(names: Sequence[str]) -> Conflict:
    return Conflict(f"variables cannot be kept: {', '.join(names[:10])}", reason="not_rebuilt", cells=[])


def _is_same(file: FileInfo, there: FileInfo | None) -> bool:
    """Whether both are known to hold the same bytes."""
    return there is not None and bool(file.sha256) and file.sha256 == there.sha256
