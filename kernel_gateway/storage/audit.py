"""Queries on the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, select

from kernel_gateway.storage.columns import cursor_of, micros, page, place_of, seconds
from kernel_gateway.storage.tables import audit, principals

MOST_LOOKED_THROUGH = 100_000
"""Records that one page is taken from: a filter that fits few reads no more than that at once."""


@dataclass(frozen=True)
class AuditRow:
    """One record as it is stored: `detail` is a JSON object, `principal` the name that belongs to the id, when read.

    `number` and `hash` are its place in the chain; one that is older than the chain has no hash.
    """

    at: float
    kind: str
    event: str
    allowed: bool
    reason: str = ""
    target: str = ""
    principal_id: str | None = None
    session_id: str | None = None
    detail: bytes = b"{}"
    number: int = 0
    hash: str | None = None
    principal: str | None = None


@dataclass(frozen=True)
class AuditFilter:
    """Which records; None means any. Times are seconds since the epoch, `until` itself is left out.

    `principal` is a principal's name or id, `error_code` the word that a reason begins with.
    """

    principal_id: str | None = None
    principal: str | None = None
    session_id: str | None = None
    kind: str | None = None
    event: str | None = None
    error_code: str | None = None
    allowed: bool | None = None
    since: float | None = None
    until: float | None = None


def add_all(connection: Connection, rows: Sequence[AuditRow]) -> None:
    """Rows that have their numbers."""
    connection.execute(insert(audit), [_values(row) for row in rows])


def list_of(
    connection: Connection, wanted: AuditFilter, limit: int, cursor: str | None
) -> tuple[list[AuditRow], str | None]:
    """Newest first, of `MOST_LOOKED_THROUGH` records: a page of fewer than `limit` has a cursor when there are more."""
    newest, oldest = _window(connection, cursor)
    conditions = _conditions(wanted)
    if wanted.principal is not None:
        named = connection.execute(select(principals.c.id).where(principals.c.name == wanted.principal)).scalar()
        conditions.append(audit.c.principal_id == (named or wanted.principal))
    query = (
        select(audit, principals.c.name.label("principal"))
        .outerjoin(principals, principals.c.id == audit.c.principal_id)
        .where(*conditions, audit.c.number > newest - MOST_LOOKED_THROUGH)
    )
    rows, following = page(connection, query, audit, limit, cursor, newest_first=True)
    if following is None and newest - MOST_LOOKED_THROUGH >= oldest:
        following = cursor_of(newest - MOST_LOOKED_THROUGH + 1)
    return [row_of(row, row.principal) for row in rows], following


def _window(connection: Connection, cursor: str | None) -> tuple[int, int]:
    """The numbers of the newest record that a page may have, and of the oldest that there is."""
    oldest = connection.execute(select(func.min(audit.c.number))).scalar()
    newest = connection.execute(select(func.max(audit.c.number))).scalar()
    if cursor is not None:
        newest = min(newest or 0, place_of(cursor) - 1)
    return newest or 0, oldest or 1


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    conditions = [
        audit.c[name] == getattr(wanted, name)
        for name in ("principal_id", "session_id", "kind", "event", "allowed")
        if getattr(wanted, name) is not None
    ]
    if wanted.error_code is not None:
        conditions.append(audit.c.reason.startswith(f"{wanted.error_code}:", autoescape=True))
    if wanted.since is not None:
        conditions.append(audit.c.at >= micros(wanted.since))
    if wanted.until is not None:
        conditions.append(audit.c.at < micros(wanted.until))
    return conditions


def _values(row: AuditRow) -> dict[str, Any]:
    return {
        "number": row.number,
        "at": micros(row.at),
        "principal_id": row.principal_id,
        "session_id": row.session_id,
        "kind": row.kind,
        "event": row.event,
        "allowed": row.allowed,
        "reason": row.reason,
        "target": row.target,
        "detail": row.detail,
        "hash": row.hash,
    }


def row_of(row: Row[Any], principal: str | None = None) -> AuditRow:
    return AuditRow(
        at=seconds(row.at),
        kind=row.kind,
        event=row.event,
        allowed=row.allowed,
        reason=row.reason,
        target=row.target,
        principal_id=row.principal_id,
        session_id=row.session_id,
        detail=row.detail,
        number=row.number,
        hash=row.hash,
        principal=principal,
    )
