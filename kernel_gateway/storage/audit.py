"""Queries on the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, func, insert, select

from kernel_gateway.storage.columns import micros, page, seconds
from kernel_gateway.storage.tables import audit, principals


@dataclass(frozen=True)
class AuditRow:
    """One record as it is stored: `detail` is a JSON object, `principal` the name that belongs to the id, when read."""

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
    principal: str | None = None


@dataclass(frozen=True)
class AuditFilter:
    """Which records; None means any. Times are seconds since the epoch, `until` itself is left out."""

    principal_id: str | None = None
    session_id: str | None = None
    kind: str | None = None
    allowed: bool | None = None
    since: float | None = None
    until: float | None = None


def add_all(connection: Connection, rows: Sequence[AuditRow]) -> None:
    connection.execute(insert(audit), [_values(row) for row in rows])


def list_of(
    connection: Connection, wanted: AuditFilter, limit: int, cursor: str | None
) -> tuple[list[AuditRow], str | None]:
    """Newest first."""
    query = (
        select(audit, principals.c.name.label("principal"))
        .outerjoin(principals, principals.c.id == audit.c.principal_id)
        .where(*_conditions(wanted))
    )
    rows, following = page(connection, query, audit, limit, cursor, newest_first=True)
    return [_row(row) for row in rows], following


def remove_old(connection: Connection, *, before: float, keep: int, at_once: int) -> int:
    """Remove records from before that time, and the oldest of more than `keep`; at most `at_once`. Says how many."""
    newest = connection.execute(select(func.max(audit.c.number))).scalar()
    if newest is None:
        return 0
    removed = 0
    for old in (audit.c.at < micros(before), audit.c.number <= newest - keep):
        numbers = select(audit.c.number).where(old).order_by(audit.c.number).limit(at_once - removed)
        removed += connection.execute(delete(audit).where(audit.c.number.in_(numbers))).rowcount
    return removed


def _conditions(wanted: AuditFilter) -> list[ColumnElement[bool]]:
    conditions = [
        audit.c[name] == getattr(wanted, name)
        for name in ("principal_id", "session_id", "kind", "allowed")
        if getattr(wanted, name) is not None
    ]
    if wanted.since is not None:
        conditions.append(audit.c.at >= micros(wanted.since))
    if wanted.until is not None:
        conditions.append(audit.c.at < micros(wanted.until))
    return conditions


def _values(row: AuditRow) -> dict[str, Any]:
    return {
        "at": micros(row.at),
        "principal_id": row.principal_id,
        "session_id": row.session_id,
        "kind": row.kind,
        "event": row.event,
        "allowed": row.allowed,
        "reason": row.reason,
        "target": row.target,
        "detail": row.detail,
    }


def _row(row: Row[Any]) -> AuditRow:
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
        principal=row.principal,
    )
