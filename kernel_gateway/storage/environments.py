"""Queries on the environments that principals have made.

A row is locked before anything is decided by it (SQLite has one writer, and locks whole): a delete, the start of a
session and an agent's attachment exclude each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, delete, func, insert, select, update

from kernel_gateway.errors import UnknownEnvironment
from kernel_gateway.storage.columns import micros, page, seconds, seconds_or_none, to_json
from kernel_gateway.storage.tables import environments, principals, sessions


@dataclass(frozen=True)
class EnvironmentRow:
    """A made environment as it is stored; `owner` is the name of its principal."""

    id: str
    principal_id: str
    owner: str
    name: str
    description: str
    image: str
    memory_mb: int
    storage_mb: int
    network: str
    role_arn: str
    vcpus: float | None
    tags: dict[str, str]
    created: float
    updated: float
    deleted: float | None = None


def add(connection: Connection, row: EnvironmentRow) -> None:
    """Raises sqlalchemy's IntegrityError when the principal has one of that name."""
    connection.execute(
        insert(environments).values(
            id=row.id,
            principal_id=row.principal_id,
            name=row.name,
            description=row.description,
            image=row.image,
            memory_mb=row.memory_mb,
            storage_mb=row.storage_mb,
            network=row.network,
            role_arn=row.role_arn,
            vcpus=row.vcpus,
            tags=to_json(row.tags),
            created=micros(row.created),
            updated=micros(row.updated),
        )
    )


def count(connection: Connection, principal_id: str) -> int:
    """How many a principal has."""
    query = select(func.count()).select_from(environments).where(_of(principal_id))
    return int(connection.execute(query).scalar_one())


def find(
    connection: Connection, principal_id: str, environment_id: str, *, lock: bool = False
) -> EnvironmentRow | None:
    """The principal's environment of this id, unless it is deleted; with `lock` it stays as it is until the end."""
    query = _rows().where(_of(principal_id), environments.c.id == environment_id)
    row = connection.execute(query.with_for_update(of=environments) if lock else query).first()
    return _read_environment(row) if row else None


def find_of_anybody(connection: Connection, environment_id: str) -> EnvironmentRow | None:
    """The environment of this id, of any principal, unless it is deleted."""
    query = _rows().where(environments.c.id == environment_id, environments.c.deleted.is_(None))
    row = connection.execute(query).first()
    return _read_environment(row) if row else None


def require(connection: Connection, principal_id: str, environment_id: str) -> EnvironmentRow:
    """The principal's environment, which stays until the transaction's end; raises UnknownEnvironment."""
    row = find(connection, principal_id, environment_id, lock=True)
    if row is None:
        raise UnknownEnvironment(f"the environment {environment_id} was deleted")
    return row


def find_by_name(connection: Connection, principal_id: str, name: str) -> EnvironmentRow | None:
    """The principal's environment of this name, unless it is deleted."""
    row = connection.execute(_rows().where(_of(principal_id), environments.c.name == name)).first()
    return _read_environment(row) if row else None


def list_of(
    connection: Connection, principal_id: str, limit: int, cursor: str | None
) -> tuple[list[EnvironmentRow], str | None]:
    """One page of the principal's environments, oldest first."""
    rows, following = page(
        connection, _rows().where(_of(principal_id)), environments, limit, cursor, newest_first=False
    )
    return [_read_environment(row) for row in rows], following


def set_tags(connection: Connection, environment_id: str, tags: dict[str, str], now: float) -> None:
    connection.execute(
        update(environments).where(environments.c.id == environment_id).values(tags=to_json(tags), updated=micros(now))
    )


def remove(connection: Connection, environment_id: str, now: float) -> None:
    """Delete one that no live session needs: its row stays only while sessions of old name it."""
    old = (sessions.c.status == "TERMINATED") & (sessions.c.environment == environment_id)
    mine = environments.c.id == environment_id
    if connection.execute(select(sessions.c.id).where(old).limit(1)).first() is None:
        connection.execute(delete(environments).where(mine))
    else:
        connection.execute(update(environments).where(mine).values(deleted=micros(now), updated=micros(now)))


def _of(principal_id: str) -> Any:
    return (environments.c.principal_id == principal_id) & environments.c.deleted.is_(None)


def _rows() -> Any:
    return select(environments, principals.c.name.label("owner")).join(
        principals, environments.c.principal_id == principals.c.id
    )


def _read_environment(row: Row[Any]) -> EnvironmentRow:
    return EnvironmentRow(
        id=row.id,
        principal_id=row.principal_id,
        owner=row.owner,
        name=row.name,
        description=row.description,
        image=row.image,
        memory_mb=row.memory_mb,
        storage_mb=row.storage_mb,
        network=row.network,
        role_arn=row.role_arn,
        vcpus=row.vcpus,
        tags=msgspec.json.decode(row.tags, type=dict[str, str]),
        created=seconds(row.created),
        updated=seconds(row.updated),
        deleted=seconds_or_none(row.deleted),
    )
