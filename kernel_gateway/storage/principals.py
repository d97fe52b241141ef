"""Queries on principals and their tokens."""

from __future__ import annotations

import hmac
import uuid
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage.columns import micros, page, seconds, seconds_or_none
from kernel_gateway.storage.tables import principals, tokens


@dataclass(frozen=True)
class TokenRow:
    """A token as it is stored: everything but the token."""

    id: str
    principal: str
    name: str
    created: float
    revoked: float | None


def find_by_name(connection: Connection, name: str) -> Principal | None:
    row = connection.execute(select(principals).where(principals.c.name == name)).first()
    return Principal(row.id, row.name, row.admin) if row else None


def add(connection: Connection, principal: Principal, now: float) -> None:
    connection.execute(
        insert(principals).values(id=principal.id, name=principal.name, admin=principal.admin, created=micros(now))
    )


def find_or_add(connection: Connection, name: str, now: float) -> Principal:
    """The principal of this name, made when new, and then no administrator."""
    found = find_by_name(connection, name)
    if found is None:
        found = Principal(str(uuid.uuid4()), name, admin=False)
        add(connection, found, now)
    return found


def find_by_digest(connection: Connection, digest: str) -> Principal | None:
    """Whose token has this digest, if it counts; digests are compared in constant time once more."""
    row = connection.execute(
        select(principals, tokens.c.digest)
        .join(tokens, tokens.c.principal_id == principals.c.id)
        .where(tokens.c.digest == digest, tokens.c.revoked.is_(None))
    ).first()
    if row is None or not hmac.compare_digest(row.digest, digest):
        return None
    return Principal(row.id, row.name, row.admin)


def has_token(connection: Connection, principal_id: str) -> bool:
    """Whether a principal has any token that counts."""
    found = select(tokens.c.id).where(tokens.c.principal_id == principal_id, tokens.c.revoked.is_(None))
    return connection.execute(found).first() is not None


def knows_digest(connection: Connection, digest: str) -> bool:
    """Whether a token with this digest was ever stored, revoked or not."""
    return connection.execute(select(tokens.c.id).where(tokens.c.digest == digest)).first() is not None


def add_token(connection: Connection, owner: Principal, *, token_id: str, name: str, digest: str, now: float) -> None:
    connection.execute(
        insert(tokens).values(id=token_id, principal_id=owner.id, name=name, digest=digest, created=micros(now))
    )


def list_tokens(connection: Connection, limit: int, cursor: str | None) -> tuple[list[TokenRow], str | None]:
    rows, following = page(connection, _tokens(), tokens, limit, cursor, newest_first=False)
    return [_token(row) for row in rows], following


def revoke_token(connection: Connection, token_id: str, now: float) -> TokenRow | None:
    """Revoke a token, once; None when there is no such token."""
    connection.execute(
        update(tokens).where(tokens.c.id == token_id, tokens.c.revoked.is_(None)).values(revoked=micros(now))
    )
    row = connection.execute(_tokens().where(tokens.c.id == token_id)).first()
    return _token(row) if row else None


def _tokens() -> Any:
    return select(tokens, principals.c.name.label("principal")).join(
        principals, tokens.c.principal_id == principals.c.id
    )


def _token(row: Row[Any]) -> TokenRow:
    return TokenRow(row.id, row.principal, row.name, seconds(row.created), seconds_or_none(row.revoked))
