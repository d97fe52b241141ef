"""The record of a session: what ended becomes a cell that is written once, in order, linked to the one before.

The rows of executions and notes are durable first; `settle` then appends what has no cell yet, no matter who wrote it:
after each end, before a notebook is read, after a crash, at the session's end. It is idempotent, and the database
refuses a second cell of the same row or place, so that several gateways may do it at once.

Order: what was run stands where it ended, so executions stand as they ran, one after another; a note of what happened
while an execution ran follows it. A command stands where it ended, a background task where it started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar
from weakref import WeakValueDictionary

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway.errors import DatabaseUnavailable
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.records.revised_cells import plan
from kernel_gateway.services.records.written_cells import Entry, Written, death_detail, write
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.storage import cells, executions, revisions, sessions
from kernel_gateway.storage.cells import Head, Unrecorded, UnrecordedNote
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import NoteRow
from kernels.notebook import chain
from kernels.notebook.transcript import Blob

log = structlog.get_logger(__name__)
T = TypeVar("T")
LOOK_SECONDS: Final = 5.0
"""Longest time that a cell, and the next execution, wait for what is found out about an execution after its end."""
SOON_SECONDS: Final = 2.0
"""How long cells wait for others that are written with them: a cell by itself costs as much as the execution did."""
TRIES: Final = 8
MOST_AT_ONCE: Final = 16
"""Rows in memory at once: each may hold megabytes of outputs."""

Keep = Callable[[str, Sequence[Blob]], Awaitable[None]]
"""Makes files that lie next to a session's notebook durable."""
Look = Awaitable[dict[str, Any]] | dict[str, Any]
"""What is found out about an execution once it has ended, if that takes no waiting at once; part of its provenance."""


class Noted(Protocol):
    """A live session, as far as a note about it is written."""

    notebook_stale: bool

    @property
    def news(self) -> EventLog:
        """What happens in it, for those who follow it."""

    @property
    def id(self) -> str:
        """The session's."""

    def note(self, kind: str, body: str, /) -> NoteRow:
        """A note of what happens now."""


@dataclass(eq=False)
class _Session:
    """What is remembered of one session while it lives; nothing that the database does not know."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    executions_mark: int = 0
    """Every execution up to this number has its cell."""
    notes_mark: int = 0
    looks: dict[str, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    wanted: bool = False
    task: asyncio.Task[None] | None = None


class _Due(NamedTuple):
    """What has no cell yet, up to where the record is, and what of that becomes cells now; as `due` has it."""

    head: Head
    waiting: list[Unrecorded]
    notes: list[UnrecordedNote]
    order: list[str | int]
    held: list[int]


class _Batch(NamedTuple):
    """What becomes cells at once: what was found out about it, the link before it, of what the kernel has died."""

    found: dict[str, dict[str, Any]]
    previous: str
    told: str
    entries: list[Entry]


class Record:
    """Writes the cells of every session of this gateway."""

    def __init__(self, database: Database, background: Background, keep: Keep) -> None:
        self._database = database
        self._background = background
        self._keep = keep
        self._live: dict[str, _Session] = {}
        self._known: WeakValueDictionary[str, _Session] = WeakValueDictionary()

    @contextlib.contextmanager
    def ending(self, session_id: str, execution_id: str, look: Callable[[], Look] | None = None) -> Iterator[None]:
        """Around the writing of an execution's last row: its cell is written after it, and after what `look` finds."""
        session = self._live.setdefault(session_id, self._of(session_id))
        # Before the row is stored: who finds the row in the database finds this too, and waits for it.
        future = session.looks.setdefault(execution_id, asyncio.get_running_loop().create_future())
        try:
            yield
        except BaseException:
            session.looks.pop(execution_id, None)
            future.cancel()
            raise
        found = _begin_look(session_id, look)
        if isinstance(found, dict):  # after most short executions, to which a task would add much
            if not future.done():
                future.set_result(found)
            self.request(session_id)
        else:
            self._background.spawn(self._look(session_id, future, found), f"look after {execution_id}")

    def note(
        self, live: Noted, kind: str, text: str, store: Callable[[Connection], None] | None = None
    ) -> Coroutine[Any, Any, None]:
        """Store what happens to a session now, in one transaction with what belongs to it; it becomes a cell."""
        # Made now and not when the coroutine first runs: time and generation are those of what has happened.
        return self._note(live, live.note(kind, text), store)

    async def _note(self, live: Noted, note: NoteRow, store: Callable[[Connection], None] | None) -> None:
        def write_down(connection: Connection) -> None:
            executions.add_note(connection, note)
            if store is not None:
                store(connection)

        await self._database.run(write_down)
        live.notebook_stale = True
        live.news.append("note", {"kind": note.kind, "at": rfc3339(note.at)})
        self.request(live.id)

    async def wait_for_looks(self, session_id: str) -> None:
        """Wait until all is found out about what ended in the session; the next execution would blur it."""
        session = self._live.get(session_id)
        if session is not None and session.looks:
            await _done(session.looks.values())

    def request(self, session_id: str) -> None:
        """Settle soon, off the caller's path."""
        session = self._of(session_id)
        session.wanted = True
        if session.task is None or session.task.done():
            session.task = self._background.spawn(self._keep_up(session_id, session), f"record of {session_id}")

    async def settle(self, session_id: str, *, whole: bool = True) -> Head:
        """Write a cell for everything of the session that has ended and has none, and say how far the record is then.

        Not `whole`: only what came after the last time is looked for. Raises DatabaseUnavailable, NoSpace,
        StoreUnavailable.
        """
        head, _ = await self._settle_and_read(session_id, lambda _connection, _head: None, whole=whole)
        return head

    async def settle_and_read(self, session_id: str, read: Callable[[Connection, Head], T]) -> tuple[Head, T]:
        """The same, and what is read of the record as it is then: in the transaction that comes last."""
        return await self._settle_and_read(session_id, read, whole=True)

    async def _settle_and_read(
        self, session_id: str, read: Callable[[Connection, Head], T], *, whole: bool
    ) -> tuple[Head, T]:
        session = self._of(session_id)
        async with session.lock:
            for _ in range(TRIES):
                with contextlib.suppress(IntegrityError):  # another gateway was faster: look again
                    return await self._settle(session_id, session, read, whole=whole)
                whole = True
        raise DatabaseUnavailable("other gateways write the same record all the time: try again")

    def forget(self, session_id: str) -> None:
        """The session has ended."""
        self._live.pop(session_id, None)

    def _of(self, session_id: str) -> _Session:
        return self._known.setdefault(session_id, _Session())

    async def _look(
        self, session_id: str, future: asyncio.Future[dict[str, Any]], look: Awaitable[dict[str, Any]]
    ) -> None:
        found: dict[str, Any] = {}
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                found = await look
        except Exception as error:
            log.warning("not_looked_at", session=session_id, error=repr(error))
        finally:
            if not future.done():
                future.set_result(found)
        self.request(session_id)

    async def _keep_up(self, session_id: str, session: _Session) -> None:
        while session.wanted:
            await asyncio.sleep(SOON_SECONDS)
            session.wanted = False
            try:
                await self.settle(session_id, whole=False)
            except Exception as error:  # what is not written now is written with the next, or by the sweep
                log.warning("record_not_written", session=session_id, error=repr(error))

    async def _settle(
        self, session_id: str, session: _Session, read: Callable[[Connection, Head], T], *, whole: bool
    ) -> tuple[Head, T]:
        marks = (0, 0) if whole else (session.executions_mark, session.notes_mark)
        answer: list[T] = []

        def find(connection: Connection) -> tuple[_Due, _Batch | None]:
            # The head first: whatever another gateway writes after it is refused a second time.
            head = cells.head(connection, session_id)
            waiting = cells.executions_without(connection, session_id, marks[0])
            notes = cells.notes_without(connection, session_id, marks[1])
            found = _Due(head, waiting, notes, *due(waiting, notes))
            if not found.order:
                answer[:] = [read(connection, head)]
            # All at once where nothing has to be waited for, which is nearly always.
            ids = found.order[:MOST_AT_ONCE]
            looks = [session.looks.get(each) for each in ids if isinstance(each, str)]
            if not ids or any(look is not None and not look.done() for look in looks):
                return found, None
            return found, _read_batch(session_id, session, head, ids, connection)

        found, batch = await self._database.run(find)
        order, head = found.order, found.head
        await _done(session.looks[each] for each in order if isinstance(each, str) and each in session.looks)
        for start in range(0, len(order), MOST_AT_ONCE):
            ids = order[start : start + MOST_AT_ONCE]
            if batch is None:
                batch = await self._database.run(partial(_read_batch, session_id, session, head, ids))

            def then(connection: Connection, now: Head, *, last: bool = start + len(ids) == len(order)) -> None:
                if last:
                    answer[:] = [read(connection, now)]

            head, batch = await self._append(session_id, session, head, batch, then), None
        unended = [each.number for each in found.waiting if each.ended is None]
        session.executions_mark = _mark(marks[0], [each.number for each in found.waiting], unended)
        session.notes_mark = _mark(marks[1], [each.number for each in found.notes], found.held)
        return head, answer[0]

    async def _append(
        self,
        session_id: str,
        session: _Session,
        head: Head,
        batch: _Batch,
        then: Callable[[Connection, Head], None],
    ) -> Head:
        """Write these cells; `then` is called in the transaction that stores them."""
        entries, found = batch.entries, batch.found
        if any(entry.row is not None for entry in entries):
            write_apart = partial(write, entries, previous=batch.previous, told=batch.told)
            written: Written = await asyncio.to_thread(write_apart)
        else:  # notes are short: the way to a thread takes longer
            written = write(entries, previous=batch.previous, told=batch.told)
        if written.blobs:  # before the cells that name them: what a cell names is there
            await self._keep(session_id, written.blobs)

        changes = await plan(self._database, session_id, head, written) if written.updates else []

        def store(connection: Connection) -> Head:
            rows = [entry.row for entry in entries if entry.row is not None and found.get(entry.row.id)]
            executions.set_provenance(connection, {row.id: row.provenance or {} for row in rows})
            revisions.add(connection, session_id, changes)
            now = cells.append(connection, session_id, head, written.cells)
            then(connection, now)
            return now

        stored = await self._database.run(store)
        for each in found:
            session.looks.pop(each, None)
        return stored


def _read_batch(
    session_id: str, session: _Session, head: Head, ids: Sequence[str | int], connection: Connection
) -> _Batch:
    found = {each: _result(session.looks.get(each)) for each in ids if isinstance(each, str)}
    row = sessions.find(connection, session_id) if not head.cells else None
    previous = chain.genesis(session_id, row.environment) if row is not None else head.hash
    told = _find_cause(connection, session_id, head)
    return _Batch(found, previous, told, _entries(connection, session_id, ids, found))


def _begin_look(session_id: str, look: Callable[[], Look] | None) -> Look:
    try:
        return {} if look is None else look()
    except Exception as error:
        log.warning("not_looked_at", session=session_id, error=repr(error))
        return {}


def due(waiting: Sequence[Unrecorded], notes: Sequence[UnrecordedNote]) -> tuple[list[str | int], list[int]]:
    """Ids of executions and numbers of notes that get their cells now, in order; and the notes that wait. Pure.

    Of the same moment: by generation, a generation's own note first, the note of the session's end last.
    """
    running = [each for each in waiting if each.kind == "code" and each.ended is None and each.started is not None]
    timed: list[tuple[tuple[float, int, int, int], str | int]] = []
    for each in waiting:
        if each.ended is not None:
            at = each.ended if each.kind in ("command", "late") or each.started is None else each.started
            timed.append(((at, each.generation, 1, each.number), each.id))
    held = []
    for note in notes:
        if any((note.at, note.generation) > (each.started or 0.0, each.generation) for each in running):
            held.append(note.number)
        else:
            rank = {"started": 0, "restored": 0, "generation": 0, "ended": 3}.get(note.kind, 2)
            timed.append(((note.at, note.generation, rank, note.number), note.number))
    return [which for _, which in sorted(timed, key=lambda one: one[0])], held


def _find_cause(connection: Connection, session_id: str, head: Head) -> str:
    """Of what the kernel died, if the last cell says so."""
    kind, _, execution_id = head.cell_id.partition("-")
    row = executions.find(connection, session_id, execution_id) if kind == "death" else None
    return "" if row is None else death_detail(row)


def _entries(
    connection: Connection, session_id: str, ids: Sequence[str | int], found: dict[str, dict[str, Any]]
) -> list[Entry]:
    """What becomes cells; executions are read by one statement, those that it cannot read each by its own."""
    rows = executions.find_readable(connection, session_id, list(found)) if len(found) > 1 else {}
    return [
        Entry(row=rows[each], found=found[each])
        if isinstance(each, str) and each in rows
        else _entry(connection, session_id, each, found)
        for each in ids
    ]


def _entry(connection: Connection, session_id: str, which: str | int, found: dict[str, dict[str, Any]]) -> Entry:
    if isinstance(which, int):
        return Entry(note=executions.find_note(connection, which))
    try:
        row, why = executions.find(connection, session_id, which), ""
    except Exception as error:  # a row that an older version or a person wrote
        log.error("outcome_not_read", session=session_id, execution=which, error=repr(error))
        row, why = executions.find(connection, session_id, which, outcome=False), "its outcome cannot be read"
    return Entry(row=row, why=why, found=found[which])


def _mark(before: int, seen: Sequence[int], left: Sequence[int]) -> int:
    """Up to which number everything is done."""
    return min(left) - 1 if left else max([before, *seen])


def _result(future: asyncio.Future[dict[str, Any]] | None) -> dict[str, Any]:
    ready = future is not None and future.done() and not future.cancelled()
    return future.result() if ready and future is not None else {}


async def _done(futures: Any) -> None:
    waiting = [each for each in futures if not each.done()]
    if waiting:
        await asyncio.wait(waiting, timeout=LOOK_SECONDS)
