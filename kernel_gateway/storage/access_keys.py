"""Queries on access keys. Secrets come here sealed, and leave as they came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from kernel_gateway.identity.principal import Caller, Principal, caller_of
from kernel_gateway.storage.columns import micros, micros_or_none, page, seconds, seconds_or_none
from kernel_gateway.storage.tables import access_keys, principals
from sandcell.models.credentials import Scope


class AccessKeyRow(msgspec.Struct, frozen=True):
    """An access key as it is listed: everything but the secret."""

    id: str
    principal: str
    name: str
    created: float
    revoked: float | None = None
    scope: Scope = "admin"
    expires: float | None = None
    last_used: float | None = None


@dataclass(frozen=True)
class SealedKey:
    """A key as it is verified with. `disabled`: its owner is."""

    caller: Caller
    sealed: bytes = field(repr=False)
    revoked: bool
    disabled: bool


def find(connection: Connection, key_id: str) -> SealedKey | None:
    """A key, revoked or not."""
    row = connection.execute(
        select(principals, *(access_keys.c[name] for name in ("secret", "revoked", "scope", "expires")))
        .join(access_keys, access_keys.c.principal_id == principals.c.id)
        .where(access_keys.c.id == key_id)
    ).first()
    if row is None:
        return None
    caller = caller_of(Principal(row.id, row.name, row.admin), row.scope, key_id, seconds_or_none(row.expires))
    return SealedKey(caller, row.secret, row.revoked is not None, row.disabled is not None)


def add(
    connection: Connection,
    owner: Principal,
    *,
    key_id: str,
    name: str,
    sealed: bytes,
    now: float,
    scope: Scope = "admin",
    expires: float | None = None,
) -> None:
    connection.execute(
        insert(access_keys).values(
            id=key_id,
            principal_id=owner.id,
            name=name,
            secret=sealed,
            created=micros(now),
            scope=scope,
            expires=micros_or_none(expires),
        )
    )


def replace_secret(connection: Connection, key_id: str, sealed: bytes) -> None:
    connection.execute(update(access_keys).where(access_keys.c.id == key_id).values(secret=sealed))


def all_live(connection: Connection) -> Iterable[tuple[str, bytes]]:
    """Id and sealed secret of every key that counts."""
    found = select(access_keys.c.id, access_keys.c.secret).where(access_keys.c.revoked.is_(None))
    return ((row.id, row.secret) for row in connection.execute(found))


def list_keys(connection: Connection, limit: int, cursor: str | None) -> tuple[list[AccessKeyRow], str | None]:
    rows, following = page(connection, _keys(), access_keys, limit, cursor, newest_first=False)
    return [_read_key(row) for row in rows], following


def revoke(connection: Connection, key_id: str, now: float) -> AccessKeyRow | None:
    """Revoke a key, once, and forget its secret; None when there is no such key."""
    connection.execute(
        update(access_keys)
        .where(access_keys.c.id == key_id, access_keys.c.revoked.is_(None))
        .values(revoked=micros(now), secret=b"")
    )
    row = connection.execute(_keys().where(access_keys.c.id == key_id)).first()
    return _read_key(row) if row else None


def _keys() -> Any:
    columns = [column for column in access_keys.c if column.name != "secret"]
    return select(*columns, principals.c.name.label("principal")).join(
        principals, access_keys.c.principal_id == principals.c.id
    )


def _read_key(row: Row[Any]) -> AccessKeyRow:
    return AccessKeyRow(
        row.id,
        row.principal,
        row.name,
        seconds(row.created),
        seconds_or_none(row.revoked),
        row.scope,
        seconds_or_none(row.expires),
        seconds_or_none(row.last_used),
    )
