"""Queries on what the store has of hibernated sessions' variables.

A row is written before anything is put into the store, and removed after it was removed there: whatever is killed
between, nothing stays in the store that no row knows of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec
from sqlalchemy import Connection, delete, func, insert, or_, select, update

from kernel_gateway.storage.columns import micros, seconds, to_json
from kernel_gateway.storage.states import gateways
from kernel_gateway.storage.tables import hibernations, sessions
from sandcell.models.sessions import HibernationReport

State = Literal["begun", "saving", "kept", "spent"]
"""`saving`: it is whole, and the processes of its session are being saved; of use if its sandbox is lost by that."""
MOST_SPENT: Final = 1_000
"""That one round of removals takes; the next takes more."""


@dataclass(frozen=True)
class HibernationRow:
    """What is known of one snapshot of a session. `executions` had run before it, `since` it is kept.

    `size_bytes` is what it takes in the store, and on the host's disk with the processes of the session.
    """

    id: str
    session_id: str
    state: State
    since: float
    size_bytes: int = 0
    executions: int = 0
    left_seconds: float = 0.0
    report: HibernationReport = field(default_factory=HibernationReport)

    @property
    def name(self) -> str:
        """What it is called in the store."""
        return self.id


class _SnapshotOf(msgspec.Struct):
    """Of the record of a session."""

    snapshot_of: str = ""


def find_snapshot(connection: Connection, principal_id: str, name: str) -> str | None:
    """The session that is a principal's snapshot of this id, or the newest of this name, at any gateway."""
    named = or_(sessions.c.id == name, sessions.c.name == name)
    query = select(sessions.c.id, sessions.c.record).where(named, sessions.c.principal_id == principal_id)
    query = query.where(sessions.c.status == "HIBERNATED").order_by(sessions.c.number.desc())
    for row in connection.execute(query):
        if row.record is not None and msgspec.json.decode(row.record, type=_SnapshotOf).snapshot_of:
            return str(row.id)
    return None


def put(connection: Connection, row: HibernationRow) -> None:
    """Write a row, in the place of what it was before."""
    connection.execute(delete(hibernations).where(hibernations.c.id == row.id))
    connection.execute(
        insert(hibernations).values(
            id=row.id,
            session_id=row.session_id,
            state=row.state,
            since=micros(row.since),
            size_bytes=row.size_bytes,
            executions=row.executions,
            left_seconds=row.left_seconds,
            report=to_json(row.report),
        )
    )


def spend(connection: Connection, snapshot_id: str) -> None:
    """Nobody is to have it any more: it is removed next."""
    connection.execute(update(hibernations).where(hibernations.c.id == snapshot_id).values(state="spent"))


def spend_if_begun(connection: Connection, snapshot_id: str) -> None:
    """The same for one that may be kept all the same: then it stays."""
    which = (hibernations.c.id == snapshot_id) & hibernations.c.state.in_(("begun", "saving"))
    connection.execute(update(hibernations).where(which).values(state="spent"))


def spend_begun(connection: Connection, session_ids: Sequence[str] | None = None) -> None:
    """Called at the start of a service: what an earlier process had begun and not completed is of no use.

    And with the sessions that are taken over from another gateway, of these.
    """
    which = gateways.among(connection, hibernations.c.session_id, session_ids)
    connection.execute(update(hibernations).where(hibernations.c.state == "begun", which).values(state="spent"))


def count_store_alone(connection: Connection, row: HibernationRow) -> None:
    """The processes of its session are lost: it takes what the store has."""
    size = row.report.size_bytes
    connection.execute(update(hibernations).where(hibernations.c.id == row.id).values(size_bytes=size))


def forget(connection: Connection, snapshot_id: str) -> None:
    """It has been removed from the store."""
    connection.execute(delete(hibernations).where(hibernations.c.id == snapshot_id))


def list_kept(connection: Connection) -> dict[str, HibernationRow]:
    """Those that a kernel is still to have, or may be, by session."""
    query = select(hibernations).where(hibernations.c.state.in_(("kept", "saving")))
    return {
        row.session_id: HibernationRow(
            id=row.id,
            session_id=row.session_id,
            state=row.state,
            since=seconds(row.since),
            size_bytes=row.size_bytes,
            executions=row.executions,
            left_seconds=row.left_seconds,
            report=msgspec.json.decode(row.report, type=HibernationReport),
        )
        for row in connection.execute(query)
    }


def list_spent(connection: Connection) -> list[HibernationRow]:
    """Those to be removed from the store: they are spent, or their sessions have ended."""
    query = select(hibernations.c.id, hibernations.c.session_id, hibernations.c.since).join(sessions)
    query = query.where(or_(hibernations.c.state == "spent", sessions.c.status == "TERMINATED")).limit(MOST_SPENT)
    return [HibernationRow(row.id, row.session_id, "spent", seconds(row.since)) for row in connection.execute(query)]


def sum_bytes(connection: Connection, principal_id: str) -> int:
    """What one principal's hibernated sessions take of store and disk."""
    query = select(func.coalesce(func.sum(hibernations.c.size_bytes), 0)).select_from(hibernations.join(sessions))
    query = query.where(sessions.c.principal_id == principal_id, sessions.c.status == "HIBERNATED")
    return int(connection.execute(query).scalar_one())
