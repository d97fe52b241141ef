"""Queries on sessions and on the workspaces they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Row, bindparam, case, func, insert, or_, select, update

from kernel_gateway.storage.columns import micros, page, seconds, seconds_or_none, to_json
from kernel_gateway.storage.states import gateways
from kernel_gateway.storage.tables import principals, sessions, workspaces
from sandcell.models.network import SessionNetwork
from sandcell.models.sessions import Forked, KeepVariables, Restored, Usage
from sandcell.models.sync import Sync, SyncMode


class StoredContext(msgspec.Struct, frozen=True):
    """A context of a session besides its default one: names of its own for code in that language."""

    id: str
    language: str
    directory: str


class Surroundings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What code of a session finds where it runs: a directory, environment variables; and what contexts there are."""

    directory: str = ""
    variables: dict[str, str] = msgspec.field(default_factory=dict)
    contexts: tuple[StoredContext, ...] = ()
    hibernates: bool = False
    """Whether the session hibernates when its time is over, rather than that it ends."""


class Undone(msgspec.Struct, frozen=True):
    """Cells that count no more: those that come `after` one, the `last` included, by their executions' ids.

    With an empty `after` all of them, from the first on.
    The kernel of that `generation` has had the state before them again.
    """

    after: str
    last: str
    generation: int


class Undoing(msgspec.Struct, frozen=True):
    """An undo that has begun: to how it was `after` an execution, or before the first, by the checkpoint of this id."""

    after: str
    checkpoint: str
    executions: int
    """How many had ended: when it is more by now, only this word of it was not removed."""


class Record(msgspec.Struct):
    """What is said of a session besides its row, as it was at its end; of a live one, as it was a while ago.

    Its surroundings are kept for as long as it lives: variables may be secrets.
    """

    usage: Usage = msgspec.field(default_factory=Usage)
    sync: Sync = msgspec.field(default_factory=Sync)
    runtime: str = ""
    network: SessionNetwork = msgspec.field(default_factory=SessionNetwork)
    keep_awake: bool = False
    keep_variables: KeepVariables | None = None
    keep_variables_mb: int | None = None
    checkpoint_every: int | None = None
    restored: Restored | None = None
    surroundings: Surroundings | None = None
    forked: Forked | None = None
    undone: tuple[Undone, ...] = ()
    undoing: Undoing | None = None
    slept_seconds: float = 0.0
    """How long it was hibernated, and by how much the host's clock was set meanwhile (back: less than nothing).

    None of it counts as time that the session has lived.
    """
    sandbox_id: str = ""
    """What its sandboxes are called on the host, when that is not the session's own id."""
    snapshot_of: str = ""
    """The session that this one is a snapshot of: it stays as it is, for others to begin as."""
    copy_of: str = ""
    """The session that this one began as a copy of, by no cells of its own."""

    @property
    def origin(self) -> str:
        """The session whose state this one began with, by no cells of its own; empty for one that began blank."""
        if self.forked is not None and self.forked.checkpoint is not None:
            return self.forked.session
        return self.copy_of


@dataclass(frozen=True)
class SessionRow:
    """A session as it is stored."""

    id: str
    principal_id: str
    workspace_id: str
    name: str
    environment: str
    generation: int
    created: float
    last_activity: float
    expires: float
    timeout_seconds: int
    idle_timeout_seconds: int
    agent: str | None
    labels: dict[str, str]
    status: str = "READY"
    executions: int = 0
    ended_reason: str | None = None
    ended_detail: str | None = None
    ended: float | None = None
    record: Record = field(default_factory=Record)
    sync: SyncMode = "async"

    @property
    def sandbox_id(self) -> str:
        """What its sandboxes are called on the host: as itself, or as the one that it got from a pool."""
        return self.record.sandbox_id or self.id


class WorkspaceRow(msgspec.Struct, frozen=True):
    """A workspace as it is stored; `session_id` is the session that used it last.

    `file_count` and `size_bytes` are what was durable when it last changed, None when it has not been counted yet.
    """

    id: str
    principal_id: str
    created: float
    session_id: str | None
    live: bool
    file_count: int | None = None
    size_bytes: int | None = None
    touched: float | None = None


# Made once: to put a statement together takes longer than to carry it out, and each start has these.
_ADD, _ADD_WORKSPACE = insert(sessions), insert(workspaces)
_PLACES = select(func.count(), func.count(case((sessions.c.principal_id == bindparam("owner"), sessions.c.id)))).where(
    sessions.c.status == "READY"
)


def count_live(
    connection: Connection, principal_id: str | None = None, *, status: Literal["READY", "HIBERNATED"] = "READY"
) -> int:
    """Live sessions, all or one principal's: those that have a sandbox, or those that are hibernated."""
    query = select(func.count()).select_from(sessions).where(sessions.c.status == status)
    if principal_id is not None:
        query = query.where(sessions.c.principal_id == principal_id)
    return int(connection.execute(query).scalar_one())


def count_places(connection: Connection, principal_id: str) -> tuple[int, int]:
    """Live sessions that have a sandbox: all, and one principal's."""
    every, own = connection.execute(_PLACES, {"owner": principal_id}).one()
    return every, own


def add(connection: Connection, row: SessionRow) -> None:
    values = {
        "id": row.id,
        "principal_id": row.principal_id,
        "workspace_id": row.workspace_id,
        "name": row.name,
        "status": row.status,
        "environment": row.environment,
        "generation": row.generation,
        "created": micros(row.created),
        "last_activity": micros(row.last_activity),
        "expires": micros(row.expires),
        "timeout_seconds": row.timeout_seconds,
        "idle_timeout_seconds": row.idle_timeout_seconds,
        "agent": row.agent,
        "labels": to_json(row.labels),
        "executions": row.executions,
        "record": to_json(row.record),
        "sync": row.sync,
    }
    connection.execute(_ADD, values)


def find(
    connection: Connection, session_id: str, principal_id: str | None = None, *, lock: bool = False
) -> SessionRow | None:
    """One session; with a principal only when it is theirs. With `lock` it does not end before the transaction does."""
    query = select(sessions).where(sessions.c.id == session_id)
    if principal_id is not None:
        query = query.where(sessions.c.principal_id == principal_id)
    row = connection.execute(query.with_for_update(of=sessions) if lock else query).first()
    return _read_session(row) if row else None


def list_of(
    connection: Connection,
    principal_id: str,
    limit: int,
    cursor: str | None,
    status: str | None,
    *,
    environment: str | None = None,
    newest_first: bool = True,
) -> tuple[list[SessionRow], str | None]:
    """One page of a principal's sessions: of one status, of one environment by its id, or of any.

    LIVE are those that have not ended.
    """
    query = select(sessions).where(sessions.c.principal_id == principal_id)
    if environment is not None:
        query = query.where(sessions.c.environment == environment)
    if status is not None:
        query = query.where(sessions.c.status != "TERMINATED" if status == "LIVE" else sessions.c.status == status)
    rows, following = page(connection, query, sessions, limit, cursor, newest_first=newest_first)
    return [_read_session(row) for row in rows], following


def list_ended(connection: Connection, workspace_id: str, most: int) -> list[SessionRow]:
    """The sessions of a workspace that have ended, newest first."""
    query = select(sessions).where(sessions.c.workspace_id == workspace_id, sessions.c.status == "TERMINATED")
    return [_read_session(row) for row in connection.execute(query.order_by(sessions.c.number.desc()).limit(most))]


def list_live(connection: Connection) -> list[SessionRow]:
    """Every session that has not ended, oldest first; of several gateways this one's."""
    query = select(sessions).where(sessions.c.status != "TERMINATED", gateways.is_own(connection))
    return [_read_session(row) for row in connection.execute(query.order_by(sessions.c.number))]


def list_sandboxes(connection: Connection, sandbox_ids: Sequence[str]) -> set[str]:
    """Those of the sandboxes that a session has which has not ended, at any gateway."""
    named = [sessions.c.record.bool_op("LIKE")(f"%{each}%".encode()) for each in sandbox_ids]
    query = select(sessions).where(sessions.c.status != "TERMINATED", or_(sessions.c.id.in_(sandbox_ids), *named))
    return {_read_session(row).sandbox_id for row in connection.execute(query)} & set(sandbox_ids)


def list_some(connection: Connection, session_ids: Sequence[str]) -> list[SessionRow]:
    """Sessions by their ids, oldest first."""
    query = select(sessions).where(sessions.c.id.in_(session_ids)).order_by(sessions.c.number)
    return [_read_session(row) for row in connection.execute(query)]


def set_generation(connection: Connection, session_id: str, generation: int) -> None:
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(generation=generation))


def change_status(connection: Connection, row: SessionRow) -> bool:
    """READY becomes HIBERNATED or the other way round, with all that changes then; False when the session has ended."""
    changed = connection.execute(
        update(sessions)
        .where(sessions.c.id == row.id, sessions.c.status != "TERMINATED")
        .values(
            status=row.status,
            generation=row.generation,
            last_activity=micros(row.last_activity),
            expires=micros(row.expires),
            record=to_json(row.record),
        )
    )
    return bool(changed.rowcount)


def touch(connection: Connection, session_id: str, moment: float) -> None:
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(last_activity=micros(moment)))


_COUNT_EXECUTION = (
    update(sessions)
    .where(sessions.c.id == bindparam("session"))
    .values(last_activity=bindparam("moment"), executions=sessions.c.executions + 1)
)


def count_execution(connection: Connection, session_id: str, moment: float) -> None:
    """One more execution has ended; it counts as activity."""
    connection.execute(_COUNT_EXECUTION, {"session": session_id, "moment": micros(moment)})


def end(connection: Connection, session_id: str, *, reason: str, detail: str, now: float, record: Record) -> None:
    """A session becomes TERMINATED, and its processor time its owner's; an ended session stays as it ended."""
    ended = connection.execute(
        update(sessions)
        .where(sessions.c.id == session_id, sessions.c.status != "TERMINATED")
        .values(
            status="TERMINATED",
            ended_reason=reason,
            ended_detail=detail,
            ended=micros(now),
            record=to_json(record),
        )
    )
    if ended.rowcount:
        owner = select(sessions.c.principal_id).where(sessions.c.id == session_id).scalar_subquery()
        used = principals.c.cpu + micros(record.usage.cpu_seconds)
        connection.execute(update(principals).where(principals.c.id == owner).values(cpu=used))


def hand_over(connection: Connection, session_id: str, workspace_id: str, principal_id: str) -> None:
    """A session and its workspace become another principal's."""
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(principal_id=principal_id))
    connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(principal_id=principal_id))


def list_all(
    connection: Connection, limit: int, cursor: str | None, principal: str | None, status: str | None
) -> tuple[list[tuple[SessionRow, str]], str | None]:
    """One page of everybody's sessions, newest first, with the names of their owners."""
    query = select(sessions, principals.c.name.label("owner")).join(principals)
    if principal is not None:
        query = query.where(principals.c.name == principal)
    if status is not None:
        query = query.where(sessions.c.status == status)
    rows, following = page(connection, query, sessions, limit, cursor, newest_first=True)
    return [(_read_session(row), row.owner) for row in rows], following


def owner_of(connection: Connection, session_id: str) -> tuple[str, str] | None:
    """Id and name of the principal whose session this is."""
    query = select(principals.c.id, principals.c.name).join(sessions).where(sessions.c.id == session_id)
    row = connection.execute(query).first()
    return (row.id, row.name) if row else None


def list_own_ids(connection: Connection, principal_id: str) -> set[str]:
    """The sessions of a principal that have not ended, at any gateway."""
    query = select(sessions.c.id).where(sessions.c.principal_id == principal_id, sessions.c.status != "TERMINATED")
    return set(connection.execute(query).scalars())


def set_record(connection: Connection, session_id: str, record: Record) -> None:
    """Replace what is said of a session: of a live one now and then, so that a restart goes on counting from there."""
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(record=to_json(record)))


def set_expiry(connection: Connection, session_id: str, expires: float, timeout_seconds: int) -> None:
    values = {"expires": micros(expires), "timeout_seconds": timeout_seconds}
    connection.execute(update(sessions).where(sessions.c.id == session_id).values(values))


def add_workspace(connection: Connection, workspace_id: str, principal_id: str, now: float) -> None:
    made = {"id": workspace_id, "principal_id": principal_id, "created": micros(now)}
    connection.execute(_ADD_WORKSPACE, {**made, "gateway": gateways.own(connection)})


def find_workspace(connection: Connection, workspace_id: str, principal_id: str) -> WorkspaceRow | None:
    query = select(workspaces).where(workspaces.c.id == workspace_id, workspaces.c.principal_id == principal_id)
    query = query.where(workspaces.c.deleted.is_(None))
    row = connection.execute(query).first()
    return _workspace(connection, row) if row else None


def claim_workspace(connection: Connection, workspace_id: str, principal_id: str) -> WorkspaceRow | None:
    """The same for a session that is about to start: until the transaction ends, no other takes or removes it.

    Raises SessionElsewhere while it is at another gateway.
    """
    own = select(workspaces.c.id).where(workspaces.c.id == workspace_id, workspaces.c.principal_id == principal_id)
    connection.execute(own.with_for_update())
    found = find_workspace(connection, workspace_id, principal_id)
    if found is not None and not found.live:
        gateways.require_home(connection, workspace_id)
    return found


def list_workspaces(
    connection: Connection, principal_id: str, limit: int, cursor: str | None
) -> tuple[list[WorkspaceRow], str | None]:
    query = select(workspaces).where(workspaces.c.principal_id == principal_id, workspaces.c.deleted.is_(None))
    rows, following = page(connection, query, workspaces, limit, cursor, newest_first=True)
    return [_workspace(connection, row) for row in rows], following


def _workspace(connection: Connection, row: Row[Any]) -> WorkspaceRow:
    used = connection.execute(
        select(sessions.c.id, sessions.c.status)
        .where(sessions.c.workspace_id == row.id)
        .order_by(sessions.c.number.desc())
        .limit(1)
    ).first()
    session_id, live = (used.id, used.status != "TERMINATED") if used else (None, False)
    return WorkspaceRow(
        row.id,
        row.principal_id,
        seconds(row.created),
        session_id,
        live,
        row.file_count,
        row.size_bytes,
        seconds_or_none(row.touched),
    )


def _read_session(row: Row[Any]) -> SessionRow:
    found = SessionRow(
        id=row.id,
        principal_id=row.principal_id,
        workspace_id=row.workspace_id,
        name=row.name,
        status=row.status,
        environment=row.environment,
        generation=row.generation,
        created=seconds(row.created),
        last_activity=seconds(row.last_activity),
        expires=seconds(row.expires),
        timeout_seconds=row.timeout_seconds,
        idle_timeout_seconds=row.idle_timeout_seconds,
        agent=row.agent,
        labels=msgspec.json.decode(row.labels, type=dict[str, str]),
        executions=row.executions,
        ended_reason=row.ended_reason,
        ended_detail=row.ended_detail,
        ended=seconds_or_none(row.ended),
        sync=row.sync,
    )
    return found if row.record is None else replace(found, record=msgspec.json.decode(row.record, type=Record))
