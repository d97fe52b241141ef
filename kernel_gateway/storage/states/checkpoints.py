"""Queries on checkpoints of sessions.

A row is written before anything is put into the store, and removed after it was removed there: whatever is killed
between, nothing stays in the store that no row knows of.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import Connection, Row, and_, delete, func, insert, or_, select, update

from kernel_gateway.storage.columns import micros, page, seconds, to_json
from kernel_gateway.storage.states import gateways
from kernel_gateway.storage.tables import checkpoints, sessions
from sandcell.models.sessions import KeptVariable

State = Literal["begun", "kept", "spent"]
Kind = Literal["asked", "automatic", "passing"]
MOST_SPENT: Final = 100
"""Checkpoints that one round of removals takes; the next takes more."""
MOST_LISTED: Final = 1_000
"""The most that one session may have."""
_TAKEN_BYTES: Final = checkpoints.c.size_bytes + checkpoints.c.file_bytes
"""`CheckpointRow.taken_bytes`, of a row of the table."""


class Report(msgspec.Struct, frozen=True):
    """What is said of one besides its row: names that are kept and lost, how many more there are, what else is lost."""

    variables: list[KeptVariable] = msgspec.field(default_factory=list)
    omitted: int = 0
    lost: list[str] = msgspec.field(default_factory=list)
    made_for: str = ""
    """The session that it was made for, where it is another's by now: its name in the store has that one."""


@dataclass(frozen=True)
class CheckpointRow:
    """A checkpoint as it is stored. `execution_id` had ended last, as one of so many `executions`."""

    id: str
    session_id: str
    kind: Kind
    created: float
    generation: int
    executions: int
    execution_id: str | None = None
    size_bytes: int = 0
    file_count: int = 0
    file_bytes: int = 0
    report: Report = field(default_factory=Report)

    @property
    def name(self) -> str:
        """What it is called in the store."""
        return f"{self.report.made_for or self.session_id}/{self.id}"

    @property
    def taken_bytes(self) -> int:
        """What it takes of the store, its files included."""
        return self.size_bytes + self.file_bytes


def begin(connection: Connection, row: CheckpointRow) -> None:
    """Something of it may be in the store from now on."""
    connection.execute(
        insert(checkpoints).values(
            id=row.id,
            session_id=row.session_id,
            state="begun",
            kind=row.kind,
            created=micros(row.created),
            execution_id=row.execution_id,
            generation=row.generation,
            executions=row.executions,
            size_bytes=0,
            file_count=0,
            file_bytes=0,
            report=to_json(row.report),
        )
    )


def keep(connection: Connection, row: CheckpointRow) -> None:
    """All of it is in the store."""
    connection.execute(
        update(checkpoints)
        .where(checkpoints.c.id == row.id)
        .values(
            state="kept",
            size_bytes=row.size_bytes,
            file_count=row.file_count,
            file_bytes=row.file_bytes,
            report=to_json(row.report),
        )
    )


def hand_over(connection: Connection, row: CheckpointRow) -> None:
    """It is another session's from now on, and of another kind."""
    connection.execute(
        update(checkpoints)
        .where(checkpoints.c.id == row.id)
        .values(
            session_id=row.session_id,
            kind=row.kind,
            execution_id=row.execution_id,
            generation=row.generation,
            executions=row.executions,
            report=to_json(row.report),
        )
    )


def spend(connection: Connection, checkpoint_id: str) -> None:
    """Nobody is to have it any more: it is removed next."""
    connection.execute(update(checkpoints).where(checkpoints.c.id == checkpoint_id).values(state="spent"))


def spend_unfinished(connection: Connection, wanted: Collection[str], session_ids: Sequence[str] | None = None) -> None:
    """Called at the start of a service: what an earlier process had begun, or was about to use, is of no use.

    Those that are `wanted` by their ids are: what they are for has begun. With the sessions that are taken over from
    another gateway, of these alone.
    """
    used_once = and_(checkpoints.c.kind == "passing", checkpoints.c.id.not_in(wanted))
    which = or_(checkpoints.c.state == "begun", used_once)
    which &= gateways.among(connection, checkpoints.c.session_id, session_ids)
    connection.execute(update(checkpoints).where(which).values(state="spent"))


def spend_after(connection: Connection, session_id: str, cells: Collection[str]) -> None:
    """All of a session that stand after one of these executions are for nobody any more."""
    for each in list_all_of(connection, session_id):
        if each.execution_id in cells:
            spend(connection, each.id)


def find_kept(connection: Connection, checkpoint_id: str) -> CheckpointRow | None:
    """One of a session that has not ended, of any kind."""
    query = select(checkpoints).join(sessions).where(checkpoints.c.id == checkpoint_id, checkpoints.c.state == "kept")
    row = connection.execute(query.where(sessions.c.status != "TERMINATED")).first()
    return _read(row) if row else None


def forget(connection: Connection, checkpoint_id: str) -> None:
    """It has been removed from the store."""
    connection.execute(delete(checkpoints).where(checkpoints.c.id == checkpoint_id))


def find(connection: Connection, session_id: str, checkpoint_id: str) -> CheckpointRow | None:
    query = _kept(session_id).where(checkpoints.c.id == checkpoint_id)
    row = connection.execute(query).first()
    return _read(row) if row else None


def list_of(
    connection: Connection, session_id: str, limit: int, cursor: str | None
) -> tuple[list[CheckpointRow], str | None]:
    """One page of a session's, oldest first."""
    rows, following = page(connection, _kept(session_id), checkpoints, limit, cursor, newest_first=False)
    return [_read(row) for row in rows], following


def list_all_of(connection: Connection, session_id: str) -> list[CheckpointRow]:
    """All of a session's, oldest first; none of one that has ended."""
    return [_read(row) for row in connection.execute(_kept(session_id).order_by(checkpoints.c.number))]


def list_spent(connection: Connection) -> list[CheckpointRow]:
    """Those to be removed from the store: they are spent, or their sessions have ended.

    Not one that is being written: who writes it finds that the session has ended, and spends it.
    """
    ended = and_(checkpoints.c.state == "kept", sessions.c.status == "TERMINATED")
    query = select(checkpoints).join(sessions).where(or_(checkpoints.c.state == "spent", ended))
    query = query.order_by(checkpoints.c.number).limit(MOST_SPENT)
    return [_read(row) for row in connection.execute(query)]


def sum_bytes(connection: Connection, principal_id: str) -> int:
    """What those of one principal take that callers see, in variables and files.

    Those of a session that has ended go with the next round of removals: until then nobody could make room of them.
    """
    query = _shown().where(sessions.c.principal_id == principal_id)
    query = query.with_only_columns(func.coalesce(func.sum(_TAKEN_BYTES), 0), maintain_column_froms=True)
    return int(connection.execute(query).scalar_one())


def list_largest(
    connection: Connection, principal_id: str, limit: int, *, without: Collection[str] = ()
) -> list[CheckpointRow]:
    """Those of one principal that can be removed, the largest first, but for some by their ids."""
    query = _shown().where(sessions.c.principal_id == principal_id, checkpoints.c.id.not_in(without))
    query = query.order_by(_TAKEN_BYTES.desc(), checkpoints.c.number).limit(limit)
    return [_read(row) for row in connection.execute(query)]


def _kept(session_id: str) -> Any:
    """Those of one session that callers see."""
    return _shown().where(checkpoints.c.session_id == session_id).limit(MOST_LISTED)


def _shown() -> Any:
    """Those that callers see: of a session that has ended there are none."""
    query = select(checkpoints).join(sessions).where(sessions.c.status != "TERMINATED")
    return query.where(checkpoints.c.state == "kept", checkpoints.c.kind != "passing")


def _read(row: Row[Any]) -> CheckpointRow:
    return CheckpointRow(
        id=row.id,
        session_id=row.session_id,
        kind=row.kind,
        created=seconds(row.created),
        generation=row.generation,
        executions=row.executions,
        execution_id=row.execution_id,
        size_bytes=row.size_bytes,
        file_count=row.file_count,
        file_bytes=row.file_bytes,
        report=msgspec.json.decode(row.report, type=Report),
    )
