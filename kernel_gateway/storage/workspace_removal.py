"""Queries that remove a workspace. Its row stays, since sessions refer to it."""

from __future__ import annotations

from sqlalchemy import Connection, delete, exists, select, true, update

from kernel_gateway.storage.columns import micros
from kernel_gateway.storage.tables import datasets, sessions, workspaces
from kernel_gateway.storage.workspace_usage import is_untouched


def mark_deleted(
    connection: Connection, workspace_id: str, now: float, *, untouched_since: float | None = None
) -> bool:
    """Nobody finds the workspace any more; False, and nothing is done, when a live session holds it or it is gone."""
    # Held first: a session that starts meanwhile is then seen by the statement that looks for it.
    connection.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id).with_for_update())
    live = exists(select(sessions.c.id).where(sessions.c.workspace_id == workspace_id, sessions.c.status == "READY"))
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
