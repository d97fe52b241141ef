"""Queries on attach tokens."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, func, insert, select, update

from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage.columns import micros, page, seconds, seconds_or_none
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.tables import attach_tokens, principals


class AttachTokenRow(msgspec.Struct, frozen=True):
    """An attach token as it is stored: everything but the token."""

    id: str
    session_id: str
    name: str
    can: tuple[str, ...]
    created: float
    expires: float
    revoked: float | None = None


@dataclass(frozen=True)
class OwnedToken:
    """A token that counts, and whose session it is for."""

    row: AttachTokenRow
    owner: Principal = field(repr=False)


def add(connection: Connection, owner: Principal, row: AttachTokenRow, digest: str) -> None:
    connection.execute(
        insert(attach_tokens).values(
            id=row.id,
            principal_id=owner.id,
            session_id=row.session_id,
            name=row.name,
            digest=digest,
            can=" ".join(row.can),
            created=micros(row.created),
            expires=micros(row.expires),
        )
    )


def count_live(connection: Connection, session_id: str, now: float) -> int:
    """How many of a session's tokens count; until the transaction ends nobody else counts them."""
    hold(connection, "attach tokens", session_id)
    found = select(func.count()).where(
        attach_tokens.c.session_id == session_id,
        attach_tokens.c.revoked.is_(None),
        attach_tokens.c.expires > micros(now),
    )
    return int(connection.execute(found).scalar_one())


def find_by_digest(connection: Connection, digest: str) -> OwnedToken | None:
    """The token with this digest unless it was revoked; digests are compared in constant time once more."""
    row = connection.execute(
        select(attach_tokens, principals.c.name.label("owner"))
        .join(principals, attach_tokens.c.principal_id == principals.c.id)
        .where(attach_tokens.c.digest == digest, attach_tokens.c.revoked.is_(None), principals.c.disabled.is_(None))
    ).first()
    if row is None or not hmac.compare_digest(row.digest, digest):
        return None
    return OwnedToken(_read_token(row), Principal(row.principal_id, row.owner, admin=False))


def list_of(
    connection: Connection, session_id: str, limit: int, cursor: str | None
) -> tuple[list[AttachTokenRow], str | None]:
    """A session's tokens, oldest first."""
    found = select(attach_tokens).where(attach_tokens.c.session_id == session_id)
    rows, following = page(connection, found, attach_tokens, limit, cursor, newest_first=False)
    return [_read_token(row) for row in rows], following


def revoke(connection: Connection, session_id: str, token_id: str, now: float) -> AttachTokenRow | None:
    """Revoke a session's token, once; None when it has no such token."""
    this = (attach_tokens.c.session_id == session_id, attach_tokens.c.id == token_id)
    connection.execute(
        update(attach_tokens).where(*this, attach_tokens.c.revoked.is_(None)).values(revoked=micros(now))
    )
    row = connection.execute(select(attach_tokens).where(*this)).first()
    return _read_token(row) if row else None


def _read_token(row: Row[Any]) -> AttachTokenRow:
    return AttachTokenRow(
        id=row.id,
        session_id=row.session_id,
        name=row.name,
        can=tuple(row.can.split()),
        created=seconds(row.created),
        expires=seconds(row.expires),
        revoked=seconds_or_none(row.revoked),
    )
