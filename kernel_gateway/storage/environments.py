"""Queries on the environments that principals have made.

A row is locked before anything is decided by it (SQLite has one writer, and locks whole): a delete, the start of a
session and an agent's attachment exclude each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import BindParameter, Connection, Row, bindparam, delete, func, insert, select, update

from kernel_gateway.errors import UnknownEnvironment
from kernel_gateway.storage.columns import micros, page, seconds, seconds_or_none, to_json
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.tables import environments, principals, sessions

BUILDING: Final = "BUILDING"
BUILT: Final = "READY"
FAILED: Final = "FAILED"


class Added(msgspec.Struct, frozen=True):
    """Packages that are added to the image, Python's and Debian's."""

    packages: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()


@dataclass(frozen=True)
class EnvironmentRow:
    """A made environment as it is stored; `owner` is the name of its principal.

    `build` is the state of the image with the packages that are `added`, `layer` its digest once that is known.
    """

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
    added: Added | None = None
    build: str | None = None
    build_failure: str = ""
    build_attempts: int = 0
    layer: str | None = None


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
            added=None if row.added is None else to_json(row.added),
            build=row.build,
        )
    )


def count(connection: Connection, principal_id: str) -> int:
    """How many a principal has; until the transaction ends nobody else counts them."""
    hold(connection, "environments", principal_id)
    query = select(func.count()).select_from(environments).where(_of(principal_id))
    return int(connection.execute(query).scalar_one())


def count_built(connection: Connection, principal_id: str) -> int:
    """How many of them have packages added to their image, whatever became of that."""
    query = select(func.count()).select_from(environments).where(_of(principal_id), environments.c.build.is_not(None))
    return int(connection.execute(query).scalar_one())


def list_building(connection: Connection) -> list[EnvironmentRow]:
    """Those of all principals whose image is still to be built, the oldest first."""
    query = _rows().where(environments.c.build == BUILDING, environments.c.deleted.is_(None))
    return [_read_environment(row) for row in connection.execute(query.order_by(environments.c.number))]


def list_layers(connection: Connection) -> set[str]:
    """Digests of the images that environments of any principal have, or are about to have."""
    query = select(environments.c.layer).where(environments.c.build.in_((BUILDING, BUILT)))
    return {str(row.layer) for row in connection.execute(query.where(environments.c.deleted.is_(None))) if row.layer}


def list_built(connection: Connection, principal_id: str | None) -> list[EnvironmentRow]:
    """Those whose image with added packages is built, of one principal or of all, the oldest first."""
    query = _rows().where(environments.c.build == BUILT, environments.c.deleted.is_(None))
    if principal_id is not None:
        query = query.where(environments.c.principal_id == principal_id)
    return [_read_environment(row) for row in connection.execute(query.order_by(environments.c.number))]


def begin_build(connection: Connection, environment_id: str, layer: str) -> int:
    """Note that its image, of this digest, is being built; how often that has begun by now, 0 when it is not to be."""
    row = find_of_anybody(connection, environment_id)
    if row is None or row.build != BUILDING:
        return 0
    attempts = row.build_attempts + 1
    connection.execute(
        update(environments)
        .where(environments.c.id == environment_id)
        .values(layer=layer, build_attempts=attempts, build_log=None)
    )
    return attempts


def end_build(connection: Connection, environment_id: str, failure: str, log: str, now: float) -> None:
    """Its image is built, or, with a `failure`, will not be; `log` is kept. One that is deleted stays as it is."""
    connection.execute(
        update(environments)
        .where(environments.c.id == environment_id, environments.c.deleted.is_(None))
        .values(build=FAILED if failure else BUILT, build_failure=failure, build_log=log.encode(), updated=micros(now))
    )


def read_log(connection: Connection, environment_id: str) -> str:
    """What its build said, empty until it has ended."""
    found = connection.execute(select(environments.c.build_log).where(environments.c.id == environment_id)).scalar()
    return bytes(found or b"").decode()


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
    row = connection.execute(_BY_NAME, {"owner_id": principal_id, "wanted": name}).first()
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


def _of(principal_id: str | BindParameter[Any]) -> Any:
    return (environments.c.principal_id == principal_id) & environments.c.deleted.is_(None)


def _rows() -> Any:
    columns = (each for each in environments.c if each is not environments.c.build_log)  # which may be long
    return select(*columns, principals.c.name.label("owner")).join(
        principals, environments.c.principal_id == principals.c.id
    )


# Made once: to put it together takes longer than to carry it out, and each start asks.
_BY_NAME = _rows().where(_of(bindparam("owner_id")), environments.c.name == bindparam("wanted"))


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
        added=None if row.added is None else msgspec.json.decode(row.added, type=Added),
        build=row.build,
        build_failure=row.build_failure or "",
        build_attempts=row.build_attempts or 0,
        layer=row.layer,
    )
