"""Queries on the record of a session: its cells as they were written, and what has no cell yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, bindparam, insert, or_, select

from kernel_gateway.storage.columns import seconds, seconds_or_none, to_json
from kernel_gateway.storage.tables import cell_widgets, cells, executions, notes

PAGE_BYTES = 4_000_000
"""Cells read at once, besides the first."""
WIDGET_BYTES = 8_000_000
"""State of widgets that a notebook has, that of the latest cells."""


class Head(msgspec.Struct, frozen=True):
    """How far a session's record is: how many cells it has, the last one's id and link, and the bytes of all."""

    cells: int = 0
    cell_id: str = ""
    hash: str = ""
    total_bytes: int = 0


class NewCell(msgspec.Struct, frozen=True):
    """A cell to be written; it tells of an execution, of a note by its number, or of neither.

    `widgets` are those that it shows or has changed, by their ids.
    """

    cell_id: str
    cell: bytes
    hash: str
    execution_id: str | None = None
    note: int | None = None
    widgets: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Unrecorded(msgspec.Struct, frozen=True):
    """An execution without a cell, in the least that tells where it belongs."""

    number: int
    id: str
    kind: str
    generation: int
    queued: float
    started: float | None
    ended: float | None


class UnrecordedNote(msgspec.Struct, frozen=True):
    """The same of a note."""

    number: int
    kind: str
    generation: int
    at: float


# The statements of every execution are built once: building one costs as much as running it.
_HEAD = (
    select(cells.c.position, cells.c.cell_id, cells.c.hash, cells.c.total_bytes)
    .where(cells.c.session_id == bindparam("session"))
    .order_by(cells.c.position.desc())
    .limit(1)
)
_EXECUTIONS = (
    select(
        executions.c.number,
        executions.c.id,
        executions.c.kind,
        executions.c.generation,
        executions.c.queued,
        executions.c.started,
        executions.c.ended,
    )
    .select_from(executions.outerjoin(cells, cells.c.execution_id == executions.c.id))
    .where(
        executions.c.session_id == bindparam("session"),
        executions.c.number > bindparam("after"),
        cells.c.number.is_(None),
    )
    .order_by(executions.c.number)
)
_NOTES = (
    select(notes.c.number, notes.c.at, notes.c.kind, notes.c.generation)
    .select_from(notes.outerjoin(cells, cells.c.note == notes.c.number))
    .where(notes.c.session_id == bindparam("session"), notes.c.number > bindparam("after"), cells.c.number.is_(None))
    .order_by(notes.c.number)
)
_PAGE = (
    select(cells.c.position, cells.c.cell, cells.c.total_bytes)
    .where(
        cells.c.session_id == bindparam("session"),
        cells.c.position > bindparam("after"),
        or_(cells.c.total_bytes <= bindparam("up_to"), cells.c.position == bindparam("after") + 1),
    )
    .order_by(cells.c.position)
)
_RAN = (
    select(executions.c.kind, executions.c.language, executions.c.runtime)
    .where(executions.c.session_id == bindparam("session"), executions.c.kind != "late")
    .order_by(executions.c.number)
    .limit(1)
)
_RAN_ELSEWHERE = _RAN.where(or_(executions.c.kind != "code", executions.c.runtime != bindparam("runtime")))
_NUMBERS = select(cells.c.execution_id, cells.c.position).where(
    cells.c.execution_id.in_(bindparam("executions", expanding=True))
)
_APPEND = insert(cells)


def head(connection: Connection, session_id: str) -> Head:
    """How far the record is."""
    row = connection.execute(_HEAD, {"session": session_id}).first()
    return Head() if row is None else Head(row.position + 1, row.cell_id, row.hash, row.total_bytes)


def executions_without(connection: Connection, session_id: str, after: int) -> list[Unrecorded]:
    """Executions that have no cell, also those that have not ended, of numbers after that one."""
    found = connection.execute(_EXECUTIONS, {"session": session_id, "after": after})
    return [
        Unrecorded(
            row.number,
            row.id,
            row.kind,
            row.generation,
            seconds(row.queued),
            seconds_or_none(row.started),
            seconds_or_none(row.ended),
        )
        for row in found
    ]


def notes_without(connection: Connection, session_id: str, after: int) -> list[UnrecordedNote]:
    """Notes that have no cell, of numbers after that one."""
    found = connection.execute(_NOTES, {"session": session_id, "after": after})
    return [UnrecordedNote(row.number, row.kind, row.generation, seconds(row.at)) for row in found]


def find_only_runtime(connection: Connection, session_id: str) -> tuple[str, str] | None:
    """Language and runtime of all that ran in a session; None where that was several, or commands, or nothing."""
    first = connection.execute(_RAN, {"session": session_id}).first()
    if first is None or first.kind != "code":
        return None
    other = connection.execute(_RAN_ELSEWHERE, {"session": session_id, "runtime": first.runtime}).first()
    return None if other is not None else (first.language, first.runtime)


def append(connection: Connection, session_id: str, after: Head, new: Sequence[NewCell]) -> Head:
    """Write cells behind `after`, the record's last; raises IntegrityError when another process has written there."""
    total, rows = after.total_bytes, []
    for position, cell in enumerate(new, start=after.cells):
        total += len(cell.cell)
        rows.append(_values(session_id, position, cell, total))
    connection.execute(_APPEND, rows)
    told = [
        {"session_id": session_id, "position": position, "models": to_json(cell.widgets)}
        for position, cell in enumerate(new, start=after.cells)
        if cell.widgets
    ]
    if told:
        connection.execute(insert(cell_widgets), told)
    return Head(after.cells + len(new), new[-1].cell_id, new[-1].hash, total)


def page(connection: Connection, session_id: str, after: Head) -> tuple[list[bytes], Head]:
    """The next cells behind `after`, of which only position and size count here, and where they end."""
    asked = {"session": session_id, "after": after.cells - 1, "up_to": after.total_bytes + PAGE_BYTES}
    rows = connection.execute(_PAGE, asked).all()
    if not rows:
        return [], after
    return [row.cell for row in rows], Head(rows[-1].position + 1, total_bytes=rows[-1].total_bytes)


def read_widgets(connection: Connection, session_id: str, count: int) -> dict[str, msgspec.Raw]:
    """The widgets of a record's first `count` cells by their ids, each as its last cell left it, as JSON."""
    query = (
        select(cell_widgets.c.models)
        .where(cell_widgets.c.session_id == session_id, cell_widgets.c.position < count)
        .order_by(cell_widgets.c.position.desc())
    )
    found: dict[str, msgspec.Raw] = {}
    size = 0
    for row in connection.execute(query):
        size += len(row.models)
        if size > WIDGET_BYTES:
            break
        found = msgspec.json.decode(row.models, type=dict[str, msgspec.Raw]) | found
    return found


def read_numbers(connection: Connection, execution_ids: Sequence[str]) -> dict[str, int]:
    """The number of each execution's cell in its session's notebook, from 1, by the execution's id."""
    found = connection.execute(_NUMBERS, {"executions": execution_ids})
    return {row.execution_id: row.position + 1 for row in found}


def links(connection: Connection, session_id: str) -> list[tuple[str, str]]:
    """Id and link of every cell, in order."""
    query = select(cells.c.cell_id, cells.c.hash).where(cells.c.session_id == session_id).order_by(cells.c.position)
    return [(row.cell_id, row.hash) for row in connection.execute(query)]


def _values(session_id: str, position: int, cell: NewCell, total_bytes: int) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "position": position,
        "cell_id": cell.cell_id,
        "execution_id": cell.execution_id,
        "note": cell.note,
        "cell": cell.cell,
        "hash": cell.hash,
        "total_bytes": total_bytes,
    }
