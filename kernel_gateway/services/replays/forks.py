"""Forks: a session that is as another was after one of its cells, or as it is now.

Its cells run again in a fresh session over a copy of the files, by a replay. Then the files are put back that this has
changed and the original has as they were. What is not as it was is said in the new session's `from` and in its
notebook; what cannot be built again is no session.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence, Set
from datetime import datetime
from typing import Final

import msgspec

from kernel_gateway.errors import Conflict, DeadlinePassed, InvalidRequest, NotFound, SessionBusy, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.replays.course import ReplayRun
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.replays.steps import Step, last_step
from kernel_gateway.services.replays.verdicts import AS_RECORDED, MOST_TOLD
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.workspaces.files import Files
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies, is_unchanged_since
from kernel_gateway.services.workspaces.workspaces import Workspaces
from kernel_gateway.storage import sessions as rows
from kernel_gateway.storage.sessions import SessionRow
from sandcell.models.replays import CellReplay, ReplayRequest
from sandcell.models.sessions import DifferentCell, Forked, ForkPoint, Session, StartSession
from sandcell.models.workspaces import DurableFile
from workspace_sync.workspaces.file_info import FileInfo

UNBUILT: Final = frozenset({"failed", "needs_hidden_state", "timed_out", "not_run"})
"""Verdicts on cells after which the state cannot be what it was."""
UNRECORDED: Final = "e2b"
"""The face whose code runs in contexts of its own."""
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
    ) -> None:
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
        count = self._require_rest(principal, point)
        request = ReplayRequest(
            session_id=row.id, inputs=row.workspace_id, until=point.cell, determinism=False, keep_session=True
        )
        fresh = msgspec.structs.replace(body, from_=None, environment=row.environment)
        course = await self._replays.admit(principal, request, fresh)
        steps = course.replay.steps[: last_step(course.replay.steps, point.cell)]
        try:
            _require_on_record(steps)
            course.before = _find_moment(row, steps, point)
            wanted, began = await self._list_files(row, course.before), self._clock.now()
            if (
                self._require_rest(principal, point) != count
            ):  # what has run meanwhile is in the files, not in the cells
                raise SessionBusy("something has run in the session meanwhile: fork it again", session_id=row.id)
        except BaseException:
            self._replays.give_up(course)
            raise
        session_id = await self._replays.build_session(course)
        try:
            forked = self._judge(course, point, steps, row, began)
            await self._put_files_back(principal, row, session_id, wanted, forked)
            if point.cell is None:
                await self._remove_more(principal, session_id, {*wanted, *course.left_out})
            await self._say(principal, session_id, forked)
        except BaseException:
            await asyncio.shield(self._sessions.stop(principal, session_id))
            raise
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

    def _judge(
        self, course: ReplayRun, point: ForkPoint, steps: Sequence[Step], row: SessionRow, began: float
    ) -> Forked:
        """What came out otherwise; raises Conflict where that is too much."""
        never = {step.number for step in steps if step.skipped}
        numbers = {step.number for step in steps} - never
        found = [each for each in course.replay.shape().verdicts if each.number in numbers]
        odd = [each for each in found if each.verdict not in AS_RECORDED or each.verdict == "not_run"]
        refused = odd if point.exact else [each for each in odd if each.verdict in UNBUILT]
        if refused:
            cells = [msgspec.to_builtins(each) for each in _tell(refused)]
            first = refused[0]
            raise Conflict(
                f"the session cannot be built again: cell {first.number}, {_name(first)}. {first.why}",
                reason="not_rebuilt",
                cells=cells,
            )
        return Forked(
            session=row.id,
            cell=steps[-1].number if steps else None,
            as_of=rfc3339(course.before or began),
            cells=len(found),
            different=_tell(odd),
            different_omitted=max(0, len(odd) - MOST_TOLD),
            left_out=show_paths(course.left_out),
            left_out_omitted=max(0, len(course.left_out) - MOST_PATHS),
        )

    async def _list_files(self, row: SessionRow, before: float | None) -> dict[str, FileInfo]:
        """The original's files that are known as they were, by path."""
        with translated():
            await self._copies.bring_up_to_date(row.workspace_id)
        found = await self._copies.list_files(row.workspace_id)
        return {each.path: each for each in found if is_unchanged_since(before, each)}

    async def _put_files_back(
        self, principal: Principal, row: SessionRow, session_id: str, wanted: dict[str, FileInfo], forked: Forked
    ) -> None:
        """Undo what the cells did to files that are known as they were."""
        there = {each.path: each.sha256 for each in await self._files_of(session_id)}
        changed = [each for path, each in wanted.items() if not each.sha256 or there.get(path) != each.sha256]
        lost = list[str]()
        try:
            async with asyncio.timeout(PUT_BACK_SECONDS):
                for file in changed:
                    if not await self._put_back(principal, row.workspace_id, session_id, file):
                        lost.append(file.path)
        except TimeoutError:
            raise DeadlinePassed(f"the files were not put back in {PUT_BACK_SECONDS:g} s") from None
        forked.put_back = len(changed) - len(lost)
        forked.changed_since, forked.changed_since_omitted = show_paths(lost), max(0, len(lost) - MOST_PATHS)

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
        raise InvalidRequest("that cell has not ended: name one that has", field="from")
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
    text = (
        f"**This session began as `{forked.session}` {after}**, at {forked.as_of}: {same:,} of {forked.cells:,} cells "
        f"came out as recorded, {forked.put_back:,} files were put back as they were."
    )
    lines = [f"- cell {each.number}: {_name(each)}. {each.why}" for each in forked.different]
    lines += [f"- `{path}` changed later and was left out" for path in forked.left_out]
    lines += [f"- `{path}` is as the cells left it" for path in forked.changed_since]
    return "\n".join([text, *lines])
