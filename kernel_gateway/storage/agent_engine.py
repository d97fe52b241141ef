"""Queries on what clients of Agent Engine make: engines, and the sandboxes, snapshots and templates in them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, Literal

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, func, insert, or_, select, update

from kernel_gateway.storage.columns import micros, page, seconds, seconds_or_none, to_json
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.tables import agent_engine_resources as resources
from kernel_gateway.storage.tables import sessions

Kind = Literal["engine", "sandbox", "snapshot", "template"]
SESSIONS: Final[tuple[Kind, ...]] = ("sandbox", "snapshot")
"""What is a session: gone once that has ended."""
FAILED = ("lost", "shutdown")
"""Why a session ended whose sandbox is still shown all the same."""


class ResourceRow(msgspec.Struct, frozen=True):
    """One of them as it is stored. `engine_id` is None for an engine; `session_id`, and what follows `deleted`, which
    is how the session is now, for what is none."""

    id: str
    kind: Kind
    principal_id: str
    project: str
    location: str
    created: float
    engine_id: str | None = None
    session_id: str | None = None
    display_name: str = ""
    content: dict[str, Any] = msgspec.field(default_factory=dict)
    deleted: float | None = None
    status: str | None = None
    last_activity: float | None = None
    expires: float | None = None


class Wanted(msgspec.Struct, frozen=True):
    """Which rows of a list. `statuses` are of sessions, READY or TERMINATED; None: of any."""

    statuses: frozenset[str] | None = None
    names: frozenset[str] | None = None
    other_names: frozenset[str] = frozenset()


EVERYTHING = Wanted()


def add(connection: Connection, row: ResourceRow) -> None:
    connection.execute(
        insert(resources).values(
            id=row.id,
            kind=row.kind,
            principal_id=row.principal_id,
            project=row.project,
            location=row.location,
            engine_id=row.engine_id,
            session_id=row.session_id,
            display_name=row.display_name,
            content=to_json(row.content),
            created=micros(row.created),
        )
    )


def count(connection: Connection, principal_id: str, kind: Kind) -> int:
    """How many a principal has that are not deleted; until the transaction ends nobody else counts them."""
    hold(connection, f"{kind}s of Agent Engine", principal_id)
    mine = (resources.c.principal_id == principal_id) & (resources.c.kind == kind) & resources.c.deleted.is_(None)
    return int(connection.execute(select(func.count()).select_from(resources).where(mine)).scalar_one())


def find(
    connection: Connection, principal_id: str, kind: Kind, resource_id: str, *, lock: bool = False
) -> ResourceRow | None:
    """The principal's resource of this id, a deleted one too; with `lock` it stays as it is until the end."""
    query = _rows().where(resources.c.principal_id == principal_id, resources.c.id == resource_id)
    query = query.where(resources.c.kind == kind)
    row = connection.execute(query.with_for_update(of=resources) if lock else query).first()
    return _read(row) if row else None


def list_of(
    connection: Connection, where: Collection[ColumnElement[bool]], wanted: Wanted, limit: int, cursor: str | None
) -> tuple[list[ResourceRow], str | None]:
    """One page, newest first, of those that are not deleted, of sandboxes those that are not gone."""
    query = _rows().where(*where, resources.c.deleted.is_(None), _is_shown())
    if wanted.statuses is not None:
        query = query.where(sessions.c.status.in_(wanted.statuses))
    if wanted.names is not None:
        query = query.where(resources.c.display_name.in_(wanted.names))
    if wanted.other_names:
        query = query.where(resources.c.display_name.not_in(wanted.other_names))
    rows, following = page(connection, query, resources, limit, cursor, newest_first=True)
    return [_read(row) for row in rows], following


def engines_of(principal_id: str, project: str, location: str) -> tuple[ColumnElement[bool], ...]:
    """The principal's engines in one place, for `list_of`."""
    place = (resources.c.project == project) & (resources.c.location == location)
    return resources.c.principal_id == principal_id, resources.c.kind == "engine", place


def children_of(engine_id: str, kind: Kind) -> tuple[ColumnElement[bool], ...]:
    """What is in an engine, for `list_of`."""
    return resources.c.engine_id == engine_id, resources.c.kind == kind


def has_children(connection: Connection, engine_id: str) -> bool:
    """Whether an engine has anything that is not deleted or gone."""
    query = _rows().where(resources.c.engine_id == engine_id, resources.c.deleted.is_(None), _is_shown())
    return connection.execute(query.limit(1)).first() is not None


def set_content(connection: Connection, resource_id: str, content: dict[str, Any]) -> None:
    """Replace what is said of one."""
    connection.execute(update(resources).where(resources.c.id == resource_id).values(content=to_json(content)))


def delete(connection: Connection, resource_id: str, now: float) -> list[str]:
    """Mark one as deleted, and all that is in it, and name their sessions; what is deleted already stays as it was."""
    which = or_(resources.c.id == resource_id, resources.c.engine_id == resource_id) & resources.c.deleted.is_(None)
    change = update(resources).where(which).values(deleted=micros(now)).returning(resources.c.session_id)
    return [str(session) for session in connection.execute(change).scalars() if session is not None]


def _is_shown() -> ColumnElement[bool]:
    failed = and_(resources.c.kind == "sandbox", sessions.c.status == "TERMINATED", sessions.c.ended_reason.in_(FAILED))
    return or_(resources.c.kind.not_in(SESSIONS), sessions.c.status != "TERMINATED", failed)


def _rows() -> Select[Any]:
    """With the session, where it still is its principal's."""
    same = (sessions.c.id == resources.c.session_id) & (sessions.c.principal_id == resources.c.principal_id)
    columns = sessions.c.status, sessions.c.ended_reason, sessions.c.last_activity, sessions.c.expires
    started = sessions.c.created.label("started")
    return select(resources, *columns, started).select_from(resources.outerjoin(sessions, same))


def _read(row: Row[Any]) -> ResourceRow:
    failed = row.kind == "sandbox" and row.ended_reason in FAILED
    gone = row.status == "TERMINATED" and not failed
    return ResourceRow(
        id=row.id,
        kind=row.kind,
        principal_id=row.principal_id,
        project=row.project,
        location=row.location,
        created=seconds(row.created if row.started is None else row.started),
        engine_id=row.engine_id,
        session_id=row.session_id,
        display_name=row.display_name,
        content=msgspec.json.decode(row.content, type=dict[str, Any]),
        deleted=seconds_or_none(row.deleted),
        status=None if gone else row.status,
        last_activity=seconds_or_none(row.last_activity),
        expires=seconds_or_none(row.expires),
    )
