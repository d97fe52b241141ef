"""Queries on principals and their tokens."""

from __future__ import annotations

import hmac
import uuid
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, Table, bindparam, func, insert, or_, select, update

from kernel_gateway.identity.principal import Caller, Principal, caller_of
from kernel_gateway.storage.columns import (
    cursor_of_name,
    micros,
    micros_or_none,
    name_of,
    page,
    seconds,
    seconds_or_none,
)
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.tables import principals, sessions, tokens
from sandcell.models.credentials import Scope


class TokenRow(msgspec.Struct, frozen=True):
    """A token as it is stored: everything but the token."""

    id: str
    principal: str
    name: str
    created: float
    revoked: float | None = None
    scope: Scope = "admin"
    expires: float | None = None
    last_used: float | None = None


class PrincipalRow(msgspec.Struct, frozen=True):
    """A principal as it is listed: `live` are its sessions now, `quota` how many it may have if that was said."""

    id: str
    name: str
    admin: bool
    created: float
    disabled: float | None
    quota: int | None
    live: int


def list_principals(connection: Connection, limit: int, cursor: str | None) -> tuple[list[PrincipalRow], str | None]:
    """One page of the principals, by name."""
    query = _principals().order_by(principals.c.name).limit(limit + 1)
    if cursor is not None:
        query = query.where(principals.c.name > name_of(cursor))
    rows = [_read_principal(row) for row in connection.execute(query)]
    following = cursor_of_name(rows[limit - 1].name) if len(rows) > limit else None
    return rows[:limit], following


def find_row(connection: Connection, name: str) -> PrincipalRow | None:
    row = connection.execute(_principals().where(principals.c.name == name)).first()
    return _read_principal(row) if row else None


def _principals() -> Any:
    live = select(func.count()).where(sessions.c.principal_id == principals.c.id, sessions.c.status == "READY")
    return select(principals, live.scalar_subquery().label("live"))


def _read_principal(row: Row[Any]) -> PrincipalRow:
    created, disabled = seconds(row.created), seconds_or_none(row.disabled)
    return PrincipalRow(row.id, row.name, row.admin, created, disabled, row.live_sessions, row.live)


def disable(connection: Connection, principal_id: str, now: float, heir_id: str | None = None) -> None:
    """Nothing of the principal's counts from now on; one that is disabled stays so since when it was.

    Its live sessions are to be the heir's, or to end.
    """
    this = principals.c.id == principal_id
    connection.execute(update(principals).where(this).values(heir=heir_id))
    connection.execute(update(principals).where(this, principals.c.disabled.is_(None)).values(disabled=micros(now)))


def enable(connection: Connection, principal_id: str) -> None:
    connection.execute(update(principals).where(principals.c.id == principal_id).values(disabled=None))


def set_quota(connection: Connection, principal_id: str, live_sessions: int | None) -> None:
    connection.execute(update(principals).where(principals.c.id == principal_id).values(live_sessions=live_sessions))


_STANDING = (
    select(principals.c.disabled, principals.c.live_sessions)
    .where(principals.c.id == bindparam("principal"))
    .with_for_update(read=True)
)


def standing(connection: Connection, principal_id: str) -> tuple[bool, int | None]:
    """Whether a principal is disabled, and its own quota of live sessions; both stay so until the transaction ends."""
    row = connection.execute(_STANDING, {"principal": principal_id}).one()
    return row.disabled is not None, row.live_sessions


def find_by_name(connection: Connection, name: str) -> Principal | None:
    row = connection.execute(select(principals).where(principals.c.name == name)).first()
    return Principal(row.id, row.name, row.admin) if row else None


def find_enabled(connection: Connection, principal_id: str) -> Principal | None:
    this = (principals.c.id == principal_id, principals.c.disabled.is_(None))
    row = connection.execute(select(principals).where(*this)).first()
    return Principal(row.id, row.name, row.admin) if row else None


def add(connection: Connection, principal: Principal, now: float) -> None:
    connection.execute(
        insert(principals).values(id=principal.id, name=principal.name, admin=principal.admin, created=micros(now))
    )


def find_or_add(connection: Connection, name: str, now: float) -> Principal:
    """The principal of this name, made when new, and then no administrator."""
    hold(connection, "principal", name)
    found = find_by_name(connection, name)
    if found is None:
        found = Principal(str(uuid.uuid4()), name, admin=False)
        add(connection, found, now)
    return found


def find_by_digest(connection: Connection, digest: str) -> Caller | None:
    """Who calls with the token of this digest, if it counts but for its expiry, which is the caller's to look at.

    Digests are compared in constant time once more.
    """
    row = connection.execute(
        select(principals, tokens.c.id.label("token"), tokens.c.digest, tokens.c.scope, tokens.c.expires)
        .join(tokens, tokens.c.principal_id == principals.c.id)
        .where(tokens.c.digest == digest, tokens.c.revoked.is_(None), principals.c.disabled.is_(None))
    ).first()
    if row is None or not hmac.compare_digest(row.digest, digest):
        return None
    return caller_of(Principal(row.id, row.name, row.admin), row.scope, row.token, seconds_or_none(row.expires))


def find_by_token_id(connection: Connection, token_id: str) -> Caller | None:
    """Who calls with the token of this id, if it counts but for its expiry, which is the caller's to look at."""
    row = connection.execute(
        select(principals, tokens.c.id.label("token"), tokens.c.scope, tokens.c.expires)
        .join(tokens, tokens.c.principal_id == principals.c.id)
        .where(tokens.c.id == token_id, tokens.c.revoked.is_(None), principals.c.disabled.is_(None))
    ).first()
    if row is None:
        return None
    return caller_of(Principal(row.id, row.name, row.admin), row.scope, row.token, seconds_or_none(row.expires))


def has_admin_token(connection: Connection, principal_id: str, now: float) -> bool:
    """Whether a principal has any token that counts and whose scope is all that the principal may."""
    own = (tokens.c.principal_id == principal_id, tokens.c.scope == "admin")
    return connection.execute(select(tokens.c.id).where(*own, *counting(tokens, now))).first() is not None


def counting(credentials: Table, now: float) -> tuple[ColumnElement[bool], ...]:
    """Of a row of tokens or access keys: neither revoked nor expired."""
    expires = credentials.c.expires
    return credentials.c.revoked.is_(None), or_(expires.is_(None), expires > micros(now))


def knows_digest(connection: Connection, digest: str) -> bool:
    """Whether a token with this digest was ever stored, revoked or not."""
    return connection.execute(select(tokens.c.id).where(tokens.c.digest == digest)).first() is not None


def add_token(
    connection: Connection,
    owner: Principal,
    *,
    token_id: str,
    name: str,
    digest: str,
    now: float,
    scope: Scope = "admin",
    expires: float | None = None,
) -> None:
    connection.execute(
        insert(tokens).values(
            id=token_id,
            principal_id=owner.id,
            name=name,
            digest=digest,
            created=micros(now),
            scope=scope,
            expires=micros_or_none(expires),
        )
    )


def find_token(connection: Connection, token_id: str, *, lock: bool = False) -> TokenRow | None:
    """One token; with `lock` it stays as it is until the end of the transaction."""
    query = _tokens().where(tokens.c.id == token_id)
    row = connection.execute(query.with_for_update(of=tokens) if lock else query).first()
    return _read_token(row) if row else None


def shorten_token(connection: Connection, token_id: str, expires: float) -> None:
    """Let a token expire then, unless it does so before."""
    sooner = or_(tokens.c.expires.is_(None), tokens.c.expires > micros(expires))
    connection.execute(update(tokens).where(tokens.c.id == token_id, sooner).values(expires=micros(expires)))


def record_use(connection: Connection, credentials: Table, used: dict[str, float]) -> None:
    """When tokens or access keys were last used, by their ids."""
    statement = update(credentials).where(credentials.c.id == bindparam("credential")).values(last_used=bindparam("at"))
    connection.execute(statement, [{"credential": each, "at": micros(at)} for each, at in used.items()])


def list_tokens(connection: Connection, limit: int, cursor: str | None) -> tuple[list[TokenRow], str | None]:
    rows, following = page(connection, _tokens(), tokens, limit, cursor, newest_first=False)
    return [_read_token(row) for row in rows], following


def revoke_token(connection: Connection, token_id: str, now: float) -> TokenRow | None:
    """Revoke a token, once; None when there is no such token."""
    connection.execute(
        update(tokens).where(tokens.c.id == token_id, tokens.c.revoked.is_(None)).values(revoked=micros(now))
    )
    return find_token(connection, token_id)


def _tokens() -> Any:
    return select(tokens, principals.c.name.label("principal")).join(
        principals, tokens.c.principal_id == principals.c.id
    )


def _read_token(row: Row[Any]) -> TokenRow:
    return TokenRow(
        row.id,
        row.principal,
        row.name,
        seconds(row.created),
        seconds_or_none(row.revoked),
        row.scope,
        seconds_or_none(row.expires),
        seconds_or_none(row.last_used),
    )
