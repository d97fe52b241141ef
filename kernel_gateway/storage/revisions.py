"""Queries on what later cells of a record made of outputs of its cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, and_, func, insert, select

from kernel_gateway.storage.columns import to_json
from kernel_gateway.storage.tables import cells, revisions


class NewRevision(msgspec.Struct, frozen=True):
    """A revision to be written: places of cells in the record, the place of the output, and what became of it."""

    position: int
    output: int
    by_position: int
    content: dict[str, Any]
    grown: int


class StoredRevision(msgspec.Struct, frozen=True):
    """A revision as it was written; `by` is the id of the cell that made it, `content` JSON."""

    output: int
    by: str
    content: bytes


class Place(msgspec.Struct, frozen=True):
    """Where an execution's cell stands in the record, and the cell as it was written."""

    position: int
    cell: bytes


def find_place(connection: Connection, session_id: str, execution_id: str) -> Place | None:
    """The cell of an execution, if it is written."""
    query = select(cells.c.position, cells.c.cell).where(
        cells.c.execution_id == execution_id, cells.c.session_id == session_id
    )
    row = connection.execute(query).first()
    return None if row is None else Place(row.position, row.cell)


def add(connection: Connection, session_id: str, new: Sequence[NewRevision]) -> None:
    """Write revisions, with the cells that make them; raises IntegrityError when another process has written them."""
    values = [
        {
            "session_id": session_id,
            "position": each.position,
            "output": each.output,
            "by_position": each.by_position,
            "content": to_json(each.content),
            "grown": each.grown,
        }
        for each in new
    ]
    if values:
        connection.execute(insert(revisions), values)


def list_revised(connection: Connection, session_id: str, first: int, end: int, count: int) -> list[int]:
    """The positions, from `first` to before `end`, of cells that the record's first `count` cells have revised."""
    query = (
        select(revisions.c.position)
        .distinct()
        .where(
            revisions.c.session_id == session_id,
            revisions.c.position >= first,
            revisions.c.position < end,
            revisions.c.by_position < count,
        )
        .order_by(revisions.c.position)
    )
    return list(connection.execute(query).scalars())


def last_of(connection: Connection, session_id: str, position: int, count: int) -> list[StoredRevision]:
    """What the record's first `count` cells have made of the cell there: of each output the last revision."""
    last = (
        select(revisions.c.output, func.max(revisions.c.by_position).label("by_position"))
        .where(
            revisions.c.session_id == session_id,
            revisions.c.position == position,
            revisions.c.by_position < count,
        )
        .group_by(revisions.c.output)
        .subquery()
    )
    query = (
        select(revisions.c.output, revisions.c.content, cells.c.cell_id)
        .join(last, and_(revisions.c.output == last.c.output, revisions.c.by_position == last.c.by_position))
        .join(cells, and_(cells.c.session_id == revisions.c.session_id, cells.c.position == revisions.c.by_position))
        .where(revisions.c.session_id == session_id, revisions.c.position == position)
        .order_by(revisions.c.output)
    )
    return [StoredRevision(row.output, row.cell_id, row.content) for row in connection.execute(query)]


def count_growth(connection: Connection, session_id: str, count: int) -> int:
    """By how many bytes the record's first `count` cells are larger than they were written, since they are revised."""
    query = select(func.coalesce(func.sum(revisions.c.grown), 0)).where(
        revisions.c.session_id == session_id, revisions.c.by_position < count
    )
    return int(connection.execute(query).scalar_one())
