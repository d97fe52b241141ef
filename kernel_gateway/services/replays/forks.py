"""Forks: a session that is as another was after one of its cells, or as it is now.

It begins with the variables and files of the nearest checkpoint, or of one that is made of the original as it is now;
without any, with a copy of the files. The cells since run again in it, by a replay. Then the files are put back that
this has changed and the original has as they were. What is not as it was is said in the new session's `from` and in its
notebook; what cannot be built again is no session.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from kernel_gateway.errors import Conflict, DeadlinePassed, InvalidRequest, NotFound, SessionBusy, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.checkpoints.checkpoints import Checkpoints
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.replays.course import ReplayRun
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.replays.steps import Step, count_generation, is_unchanged_since, last_step, stands_after
from kernel_gateway.services.replays.verdicts import AS_RECORDED, MOST_TOLD
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.workspaces.files import Files
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.services.workspaces.workspaces import Workspaces
from kernel_gateway.storage import sessions as rows
from kernel_gateway.storage.executions import WrittenFiles
from kernel_gateway.storage.sessions import SessionRow
from kernel_gateway.storage.states.checkpoints import CheckpointRow
from sandcell.models.replays import CellReplay, ReplayRequest
from sandcell.models.sessions import DifferentCell, Forked, ForkPoint, Restored, Session, StartSession
from sandcell.models.workspaces import DurableFile
from workspace_sync.workspaces.file_info import FileInfo

UNBUILT: Final = frozenset({"failed", "needs_hidden_state", "timed_out", "not_run"})
"""Verdicts on cells after which the state cannot be what it was."""
UNRECORDED: Final = "e2b"
"""The face whose code runs in contexts of its own."""
HINT: Final = "; with `replay` no checkpoint is used, and all cells run again"
MOST_PATHS: Final = 100
"""Paths of files of one kind that are named in a session's `from`."""
PUT_BACK_SECONDS: Final = 600.0
"""How long it may take to put files back."""


class Forks:
    """`start`; another principal's session is not found."""

    def __init__(
        self,
        replays: Replays,
        *,
        clock: Clock,
        registry: Registry,
        sessions: Sessions,
        record: Record,
        copies: WorkspaceCopies,
        files: Files,
        workspaces: Workspaces,
        checkpoints: Checkpoints,
        background: Background,
    ) -> None:
        self._checkpoints = checkpoints
        self._background = background
        self._replays = replays
        self._clock = clock
        self._registry = registry
        self._sessions = sessions
        self._record = record
        self._copies = copies
        self._files = files
        self._workspaces = workspaces

    async def start(self, principal: Principal, body: StartSession) -> Session:
        """A session as another was; the state is there when this returns.

        Raises Conflict (reason `not_rebuilt`, with the cells) when it cannot be, SessionBusy for the present state of a
        session in which something runs, and as `Replays.start`.
        """
        point = body.from_
        if point is None or body.workspace_id or body.replay_of or body.environment:
            raise InvalidRequest("a fork has the environment and the files of its session: give none", field="from")
        row = await self._registry.row(principal, point.session)
        live = self._registry.find(principal, row.id)
        request = ReplayRequest(
            session_id=row.id, inputs=row.workspace_id, until=point.cell, determinism=False, keep_session=True
        )
        count = self._require_rest(principal, point)
        if live is not None and isinstance(point.cell, str) and live.find_job(point.cell) is not None:
            raise InvalidRequest("that cell has not ended: wait for it, or name one that has", field="from.cell")
        course = await self._replays.admit(principal, request, _build_start(body, row), cell_field="from.cell")
        try:
            fork = _Fork(
                principal, point, row, course, course.replay.steps[: last_step(course.replay.steps, point.cell)]
            )
            if point.cell is None and not point.replay and live is not None:
                await self._begin_now(fork, live)
            else:
                await self._begin_earlier(fork, count)
        except BaseException:
            self._replays.give_up(course)
            raise
        return await self._build(fork)

    async def _begin_now(self, fork: _Fork, live: LiveSession) -> None:
        """From a checkpoint that is made for it; no cell runs again."""
        take = self._checkpoints.copy_hibernated(live) if live.hibernated else self._checkpoints.take(live, "passing")
        kept = await take
        self._begin_from(fork, kept, len(fork.steps))
        fork.began = kept.created

    async def _begin_earlier(self, fork: _Fork, count: tuple[int, int] | None) -> None:
        """From the nearest checkpoint, or without any with a copy of the files."""
        row, point = fork.row, fork.point
        stands = partial(stands_after, steps=fork.steps, undone=row.record.undone)
        found = await self._checkpoints.find_nearest(row.id, [step.id for step in fork.steps], stands)
        if found is not None and not point.replay:
            self._begin_from(fork, *found)
        self._replays.require_length(len(fork.again))
        if fork.beginning is None:
            _require_own_beginning(row)
        _require_on_record(fork.again)
        fork.moment = _find_moment(row, fork.steps, point)
        later = WrittenFiles()
        if point.cell is not None:
            later = await self._replays.find_written_after(row.id, fork.steps[-1].id)
        fork.course.keep = partial(is_unchanged_since, fork.moment, later)
        fork.began = self._clock.now()
        if fork.again or fork.beginning is None:
            with translated():
                await self._copies.bring_up_to_date(row.workspace_id)
            fork.files = {each.path: each for each in await self._copies.list_files(row.workspace_id)}
        if self._require_rest(fork.principal, point) != count:  # what ran meanwhile is in the files, not in the cells
            raise SessionBusy("something has run in the session meanwhile: fork it again", session_id=row.id)

    def _begin_from(self, fork: _Fork, row: CheckpointRow, cells: int) -> None:
        beginning = _FromCheckpoint(self._checkpoints, self._registry, fork.principal, row, cells)
        beginning.generation = count_generation(row.generation, fork.steps, fork.row.record.undone)
        fork.beginning = beginning
        fork.course.beginning = fork.beginning

    async def _build(self, fork: _Fork) -> Session:
        kept, principal = None if fork.beginning is None else fork.beginning.row, fork.principal
        passing = kept if kept is not None and kept.kind == "passing" else None
        built: LiveSession | None = None
        try:
            session_id = await self._replays.build_session(fork.course)
            try:
                forked = _judge(fork)
                if fork.files is not None:
                    await self._restore_files(fork, session_id, fork.files, forked)
                await self._say(principal, session_id, forked)
            except BaseException:
                await asyncio.shield(self._sessions.stop(principal, session_id))
                raise
            built = self._registry.find(principal, session_id)
        finally:
            if passing is not None:
                end = self._checkpoints.hand_over(passing, built) if built else self._checkpoints.spend(passing)
                await asyncio.shield(self._background.spawn(end, f"end of checkpoint {passing.name}"))
        return await self._sessions.get(principal, session_id)

    def _require_rest(self, principal: Principal, point: ForkPoint) -> tuple[int, int] | None:
        """How much has run in a session that is wanted as it is now, its generation and executions.

        Raises SessionBusy: what half a cell has done is nothing that could be built again.
        """
        live = self._registry.find(principal, point.session)
        if point.cell is not None or live is None:
            return None
        if live.running is not None or live.waiting:
            raise SessionBusy("something runs in the session: say after which cell, or wait", session_id=point.session)
        return live.row.generation, live.executions

    async def _restore_files(self, fork: _Fork, session_id: str, files: dict[str, FileInfo], forked: Forked) -> None:
        """Have all be as they were that are known as they were, and tell of the others."""
        wanted = {path: each for path, each in files.items() if fork.course.keep(each)}
        there = await self._put_files_back(fork, session_id, wanted, forked)
        left_out = fork.course.left_out
        if fork.beginning is not None:  # what changed later and came neither with the checkpoint nor by the cells
            left_out = sorted(files.keys() - wanted.keys() - there)
        forked.left_out, forked.left_out_omitted = show_paths(left_out), max(0, len(left_out) - MOST_PATHS)
        if fork.point.cell is None:
            await self._remove_more(fork.principal, session_id, {*wanted, *left_out})

    async def _put_files_back(
        self, fork: _Fork, session_id: str, wanted: dict[str, FileInfo], forked: Forked
    ) -> Set[str]:
        """Undo what the cells did to files that are known as they were; the paths that they had left."""
        there = {each.path: each.sha256 for each in await self._files_of(session_id)}
        changed = [each for path, each in wanted.items() if not each.sha256 or there.get(path) != each.sha256]
        lost = list[str]()
        try:
            async with asyncio.timeout(PUT_BACK_SECONDS):
                for file in changed:
                    if not await self._put_back(fork.principal, fork.row.workspace_id, session_id, file):
                        lost.append(file.path)
        except TimeoutError:
            raise DeadlinePassed(f"the files were not put back in {PUT_BACK_SECONDS:g} s") from None
        forked.put_back = len(changed) - len(lost)
        forked.changed_since, forked.changed_since_omitted = show_paths(lost), max(0, len(lost) - MOST_PATHS)
        return there.keys()

    async def _put_back(self, principal: Principal, workspace_id: str, session_id: str, file: FileInfo) -> bool:
        """Write one file as it is in the original; whether that still has it."""

        def choose(found: DurableFile) -> tuple[int, int]:
            if file.sha256 and found.sha256 != file.sha256:
                raise Conflict("the file has changed")
            return 0, found.size

        if not _is_text(file.path):  # such a name cannot be written through the guest
            return False
        try:
            reading = await self._workspaces.read_part(principal, workspace_id, file.path, choose)
        except (Conflict, NotFound):
            return False
        try:
            await self._files.write_stream(principal, session_id, file.path, reading.chunks)
        finally:
            await reading.chunks.aclose()
        return True

    async def _remove_more(self, principal: Principal, session_id: str, wanted: Set[str]) -> None:
        """Of a session as it is now there is nothing that the cells may have made besides its files."""
        more = sorted(filter(_is_text, {each.path for each in await self._files_of(session_id)} - wanted))
        if more:
            await self._files.remove_all(principal, session_id, more)

    async def _files_of(self, session_id: str) -> list[FileInfo]:
        with translated():
            await self._copies.bring_up_to_date(session_id)
        return await self._copies.list_files(session_id)

    async def _say(self, principal: Principal, session_id: str, forked: Forked) -> None:
        """Keep it with the session, and make it a note of the notebook, in one transaction."""
        live = self._registry.find(principal, session_id)
        if live is None:
            raise Conflict("the session has ended before it was built")
        live.row = dataclasses.replace(live.row, record=msgspec.structs.replace(live.row.record, forked=forked))
        record = live.build_record()
        await self._record.note(live, "forked", _describe(forked), lambda c: rows.set_record(c, live.id, record))


@dataclass
class _Fork:
    """What is to be built: the cells up to the `point`, in a replay's course; `began` is when that was decided."""

    principal: Principal
    point: ForkPoint
    row: SessionRow
    course: ReplayRun
    steps: Sequence[Step]
    beginning: _FromCheckpoint | None = None
    began: float = 0.0
    moment: float | None = None
    """When the original was as the fork is to be; None: as it began."""
    files: dict[str, FileInfo] | None = None
    """The original's, by path, where some are to be put back."""

    @property
    def again(self) -> Sequence[Step]:
        """The cells that run again."""
        return self.steps[0 if self.beginning is None else self.beginning.cells :]


class _FromCheckpoint:
    """A checkpoint as what a replay begins with: see `Beginning`."""

    restored: Restored | None = None
    """What became of its variables, once they were given."""

    def __init__(
        self, checkpoints: Checkpoints, registry: Registry, principal: Principal, row: CheckpointRow, cells: int
    ) -> None:
        self.row = row
        self.cells = cells
        self.generation = row.generation
        self._checkpoints = checkpoints
        self._registry = registry
        self._principal = principal

    async def fill(self, session_id: str) -> None:
        await self._checkpoints.fill(self.row, session_id)

    async def give(self, session_id: str) -> None:
        live = await self._registry.require(self._principal, session_id)
        await self._checkpoints.give(self.row, live)
        self.restored = live.variables.restored


def _build_start(body: StartSession, row: SessionRow) -> StartSession:
    """What the fork is started with: how variables and states are kept is the original's, unless it says otherwise.

    A fork that kept fewer of them would lose some of those that it has just been given.
    """
    was = row.record
    return msgspec.structs.replace(
        body,
        from_=None,
        environment=row.environment,
        keep_variables=was.keep_variables if body.keep_variables is None else body.keep_variables,
        keep_variables_mb=was.keep_variables_mb if body.keep_variables_mb is None else body.keep_variables_mb,
        checkpoint_every=was.checkpoint_every if body.checkpoint_every is None else body.checkpoint_every,
    )


def _judge(fork: _Fork) -> Forked:
    """What is not as it was; raises Conflict where that is too much."""
    point, beginning = fork.point, fork.beginning
    numbers = {step.number for step in fork.again if not step.skipped}
    found = [each for each in fork.course.replay.shape().verdicts if each.number in numbers]
    odd = [each for each in found if each.verdict not in AS_RECORDED or each.verdict == "not_run"]
    refused = odd if point.exact else [each for each in odd if each.verdict in UNBUILT]
    given = None if beginning is None else beginning.restored
    lost = [] if given is None else [each for each in given.variables if each.outcome != "restored"]
    if refused or (lost and point.exact):
        first = refused[0] if refused else None
        why = "" if first is None else f"cell {first.number}, {_name(first)}. {first.why}"
        why = why or f"its variable {lost[0].name!a} is {lost[0].outcome}. {lost[0].why or ''}"
        raise Conflict(
            f"the session cannot be built again: {why}{'' if beginning is None else HINT}",
            reason="not_rebuilt",
            cells=[msgspec.to_builtins(each) for each in _tell(refused)],
        )
    return Forked(
        session=fork.row.id,
        cell=fork.steps[-1].number if fork.steps else None,
        as_of=rfc3339(fork.moment or fork.began),
        cells=len(found),
        different=_tell(odd),
        different_omitted=max(0, len(odd) - MOST_TOLD),
        checkpoint=None if beginning is None else beginning.row.id,
        lost=lost,
        lost_omitted=0 if given is None else given.omitted,
        lost_besides=[] if beginning is None else beginning.row.report.lost,
    )


def _require_own_beginning(row: SessionRow) -> None:
    """Raises Conflict for a session that has no cells for the state that it began with."""
    if row.record.origin:
        raise Conflict(
            f"the session cannot be built again: it began as `{row.record.origin}` was then, and no checkpoint of its"
            " own is kept from before that cell",
            reason="not_rebuilt",
            cells=[],
        )


def _require_on_record(steps: Sequence[Step]) -> None:
    """Raises Conflict where cells ran among names, variables and in directories that no record tells of."""
    for step in steps:
        if step.face == UNRECORDED and not step.skipped:
            why = "it came from an E2B client, whose contexts, directory and environment variables are not on record"
            raise Conflict(
                f"the session cannot be built again: cell {step.number} cannot run as it did. {why}",
                reason="not_rebuilt",
                cells=[msgspec.to_builtins(DifferentCell(step.number, "not_run", why))],
            )


def _find_moment(row: SessionRow, steps: Sequence[Step], point: ForkPoint) -> float | None:
    """When its state was the one that is wanted: the cell's end, or the session's; None for now."""
    if point.cell is None:
        return row.ended
    ended = steps[-1].ended_at
    if ended is None:
        raise InvalidRequest("that cell has not ended: wait for it, or name one that has", field="from.cell")
    return datetime.fromisoformat(ended).timestamp()


def show_paths(paths: Sequence[str]) -> list[str]:
    """The first of them as text that can be stored and quoted: a sandbox chose these names."""
    shown = (path.encode("utf-8", "replace").decode().replace("`", "'") for path in paths[:MOST_PATHS])
    return ["".join(each if each.isprintable() else "?" for each in path) for path in shown]


def _is_text(path: str) -> bool:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace") == path


def _tell(cells: Sequence[CellReplay]) -> list[DifferentCell]:
    return [DifferentCell(each.number, each.verdict, each.why) for each in cells[:MOST_TOLD]]


def _name(cell: CellReplay | DifferentCell) -> str:
    return cell.verdict.replace("_", " ")


def _describe(forked: Forked) -> str:
    """It as a note, in Markdown."""
    after = "as it was at its last cell" if forked.cell is None else f"after its cell {forked.cell}"
    same = forked.cells - len(forked.different) - forked.different_omitted
    text = f"**This session began as `{forked.session}` {after}**, at {forked.as_of}"
    text += "" if forked.checkpoint is None else f", from its checkpoint `{forked.checkpoint}`"
    if forked.cells or forked.checkpoint is None:
        text += f": {same:,} of {forked.cells:,} cells came out as recorded, "
        text += f"{forked.put_back:,} files were put back as they were"
    text += "."
    lines = [f"- cell {each.number}: {_name(each)}. {each.why}" for each in forked.different]
    lines += [f"- not there: {what}" for what in forked.lost_besides]
    lines += [f"- `{path}` changed later and was left out" for path in forked.left_out]
    lines += [f"- `{path}` is as the cells left it" for path in forked.changed_since]
    return "\n".join([text, *lines])
