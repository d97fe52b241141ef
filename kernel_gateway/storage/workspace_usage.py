"""Queries on what workspaces hold, whose they are, and for how long they have not been used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    or_,
    select,
    true,
    update,
)

from kernel_gateway.cursors import cursor_to, place_in
from kernel_gateway.storage.columns import micros, seconds
from kernel_gateway.storage.states import gateways
from kernel_gateway.storage.tables import datasets, principals, sessions, workspaces


class UsageRow(msgspec.Struct, frozen=True):
    """The workspaces of one principal; `not_counted` of them hold what has not been counted yet.

    `cpu_seconds` is the processor time of its sessions that have ended, `quota` its own of live sessions.
    """

    principal: str
    workspaces: int
    live_workspaces: int
    not_counted: int
    file_count: int
    size_bytes: int
    datasets: int
    principal_id: str
    cpu_seconds: float
    quota: int | None


class Untouched(msgspec.Struct, frozen=True):
    """A workspace that has not been used since `touched`."""

    workspace_id: str
    principal_id: str
    principal: str
    touched: float
    file_count: int | None
    size_bytes: int | None


_LATER = case((workspaces.c.touched > bindparam("at"), workspaces.c.touched), else_=bindparam("at"))
_TOUCH = (
    update(workspaces)
    .where(workspaces.c.id == bindparam("workspace"), workspaces.c.deleted.is_(None))
    .values(touched=_LATER)
)
_COUNT = _TOUCH.values(touched=_LATER, file_count=bindparam("files"), size_bytes=bindparam("bytes"))


def record(connection: Connection, rows: Sequence[tuple[str, float, int | None, int | None]]) -> None:
    """Workspaces, when they were used, and what they hold where that is new."""
    touched = [{"workspace": each, "at": micros(at)} for each, at, files, _ in rows if files is None]
    counted = [
        {"workspace": each, "at": micros(at), "files": files, "bytes": size}
        for each, at, files, size in rows
        if files is not None
    ]
    if touched:
        connection.execute(_TOUCH, touched)
    if counted:
        connection.execute(_COUNT, counted)


def record_first(connection: Connection, workspace_id: str, file_count: int, size_bytes: int) -> None:
    """What a workspace holds that had not been counted; what was counted meanwhile is newer."""
    connection.execute(
        update(workspaces)
        .where(workspaces.c.id == workspace_id, workspaces.c.file_count.is_(None), workspaces.c.deleted.is_(None))
        .values(file_count=file_count, size_bytes=size_bytes)
    )


def of_principals(
    connection: Connection, principal_id: str | None, limit: int, cursor: str | None
) -> tuple[list[UsageRow], str | None]:
    """One principal's usage, or a page of everybody's, by name."""
    query = select(principals).order_by(principals.c.name).limit(limit + 1)
    if principal_id is not None:
        query = query.where(principals.c.id == principal_id)
    if cursor is not None:
        query = query.where(principals.c.name > place_in(cursor).decode("utf-8", "replace"))
    found = list(connection.execute(query))
    page = found[:limit]
    following = cursor_to(page[-1].name.encode()) if len(found) > limit else None
    return [_usage(connection, each) for each in page], following


def _usage(connection: Connection, principal: Row[Any]) -> UsageRow:
    own = and_(workspaces.c.principal_id == principal.id, workspaces.c.deleted.is_(None))
    counted = select(
        func.count().label("all"),
        func.count(workspaces.c.file_count).label("counted"),
        func.coalesce(func.sum(workspaces.c.file_count), 0).label("files"),
        func.coalesce(func.sum(workspaces.c.size_bytes), 0).label("bytes"),
    ).where(own)
    row = connection.execute(counted).one()
    live = select(func.count()).where(own, _live())
    names = select(func.count()).select_from(datasets.join(workspaces)).where(own)
    return UsageRow(
        principal=principal.name,
        workspaces=row.all,
        live_workspaces=connection.execute(live.select_from(workspaces)).scalar_one(),
        not_counted=row.all - row.counted,
        file_count=int(row.files),
        size_bytes=int(row.bytes),
        datasets=connection.execute(names).scalar_one(),
        principal_id=principal.id,
        cpu_seconds=seconds(principal.cpu),
        quota=principal.live_sessions,
    )


def list_untouched(connection: Connection, before: float, limit: int) -> list[Untouched]:
    """Workspaces without a live session that have not been used since, those first that have lain longest."""
    ended = select(func.max(sessions.c.ended)).where(sessions.c.workspace_id == workspaces.c.id).scalar_subquery()
    query = (
        select(workspaces, principals.c.name, ended.label("ended"))
        .join(principals, principals.c.id == workspaces.c.principal_id)
        .where(is_untouched(before))
        .order_by(workspaces.c.number)
        .limit(limit)
    )
    return [
        Untouched(
            workspace_id=row.id,
            principal_id=row.principal_id,
            principal=row.name,
            touched=seconds(max(row.created, row.touched or 0, row.ended or 0)),
            file_count=row.file_count,
            size_bytes=row.size_bytes,
        )
        for row in connection.execute(query)
    ]


def is_untouched(before: float) -> ColumnElement[bool]:
    """Of a row of workspaces: it is there, and neither a session nor a read nor a write has used it since."""
    since = micros(before)
    used = exists(
        select(sessions.c.id).where(
            sessions.c.workspace_id == workspaces.c.id,
            or_(sessions.c.status != "TERMINATED", sessions.c.ended >= since),
        )
    )
    return and_(
        workspaces.c.deleted.is_(None),
        workspaces.c.created < since,
        or_(workspaces.c.touched.is_(None), workspaces.c.touched < since),
        ~used,
    )


def _live() -> ColumnElement[bool]:
    return exists(
        select(sessions.c.id).where(sessions.c.workspace_id == workspaces.c.id, sessions.c.status != "TERMINATED")
    )


# Queries that remove a workspace. Its row stays, since sessions refer to it.


def mark_deleted(
    connection: Connection, workspace_id: str, now: float, *, untouched_since: float | None = None
) -> bool:
    """The workspace is not found any more; False, and nothing is done, when a live session holds it or it is gone.

    Where it is at another gateway that one alone expires it, and a removal raises SessionElsewhere.
    """
    # Held first: a session that starts meanwhile is then seen by the statement that looks for it.
    connection.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id).with_for_update())
    if untouched_since is None:
        gateways.require_home(connection, workspace_id)
    elif not gateways.is_at_home(connection, workspace_id):
        return False
    live = exists(
        select(sessions.c.id).where(sessions.c.workspace_id == workspace_id, sessions.c.status != "TERMINATED")
    )
    marked = connection.execute(
        update(workspaces)
        .where(workspaces.c.id == workspace_id, workspaces.c.deleted.is_(None), ~live)
        .where(true() if untouched_since is None else is_untouched(untouched_since))
        .values(deleted=micros(now), file_count=0, size_bytes=0)
    )
    if marked.rowcount:
        connection.execute(delete(datasets).where(datasets.c.workspace_id == workspace_id))
    return bool(marked.rowcount)


def is_deleted(connection: Connection, workspace_id: str) -> bool:
    """Whether the workspace was removed."""
    query = select(workspaces.c.id).where(workspaces.c.id == workspace_id, workspaces.c.deleted.is_not(None))
    return connection.execute(query).first() is not None
