"""Cells of a record of which later ones have updated displays: what is stored of that, and the cells as they are shown.

Both ways go through `shown`, so that a notebook has as many bytes as were counted when its revisions were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import msgspec
from sqlalchemy import Connection

from kernel_gateway.services.records.written_cells import Update, Written
from kernel_gateway.storage import cells, revisions
from kernel_gateway.storage.cells import Head
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.revisions import NewRevision, Place, StoredRevision
from kernels.notebook.revised import Revision, revise


async def plan(database: Database, session_id: str, head: Head, written: Written) -> list[NewRevision]:
    """The revisions that belong to cells which are about to be written behind `head`."""
    positions = {each.cell_id: head.cells + index for index, each in enumerate(written.cells)}
    new = {each.execution_id: Place(positions[each.cell_id], each.cell) for each in written.cells if each.execution_id}
    found: list[NewRevision] = []
    for execution_id in dict.fromkeys(each.execution_id for each in written.updates):
        updates = [each for each in written.updates if each.execution_id == execution_id]

        def read(connection: Connection, of: str = execution_id) -> tuple[Place | None, list[StoredRevision]]:
            place = new.get(of) or revisions.find_place(connection, session_id, of)
            if place is None:
                return None, []
            return place, revisions.last_of(connection, session_id, place.position, head.cells)

        place, before = await database.run(read)
        if place is not None:
            found += _plan_cell(place, before, updates, positions)
    return found


def _plan_cell(
    place: Place, before: Sequence[StoredRevision], updates: Sequence[Update], positions: dict[str, int]
) -> Iterator[NewRevision]:
    current = {each.output: _revision(each) for each in before}
    size = len(apply_revisions(place.cell, list(current.values())))
    for by, group in groupby(updates, key=lambda each: each.by):
        last = {each.place: each.content for each in group}
        current |= {output: Revision(output, by, content) for output, content in last.items()}
        larger = len(apply_revisions(place.cell, list(current.values())))
        for output, content in last.items():
            yield NewRevision(place.position, output, positions[by], content, larger - size)
            size = larger  # counted once for all that a cell made of this one


def apply_revisions(cell: bytes, changes: Sequence[Revision]) -> bytes:
    """A written cell as it is shown with these revisions."""
    return msgspec.json.encode(revise(msgspec.json.decode(cell), changes)) if changes else cell


def read_shown(connection: Connection, session_id: str, position: int, cell: bytes, count: int) -> bytes:
    """A written cell of a record as its first `count` cells show it."""
    found = revisions.last_of(connection, session_id, position, count)
    return apply_revisions(cell, [_revision(each) for each in found])


def count_shown_bytes(connection: Connection, session_id: str, head: Head) -> int:
    """How many bytes the record's cells have as they are shown, up to `head`."""
    return head.total_bytes + revisions.count_growth(connection, session_id, head.cells)


def read_page(connection: Connection, session_id: str, after: Head, count: int) -> tuple[list[bytes], list[int], Head]:
    """The next cells behind `after` as they were written, which of them are revised, and where they end."""
    page, end = cells.page(connection, session_id, after)
    return page, revisions.list_revised(connection, session_id, after.cells, end.cells, count), end


def _revision(stored: StoredRevision) -> Revision:
    return Revision(stored.output, stored.by, msgspec.json.decode(stored.content))
