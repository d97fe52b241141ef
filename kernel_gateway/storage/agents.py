"""Queries on agents, and on who depends on an environment: agents that are attached to it and sessions that live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, Select, delete, func, insert, select, update

from kernel_gateway.storage.columns import MOST_ROWS, micros, page, seconds
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.tables import agents, sessions


@dataclass(frozen=True)
class AgentRow:
    """An agent as it is stored; `environment` and `detached_from` are ids, or names of the host's."""

    id: str
    principal_id: str
    name: str
    description: str
    environment: str | None
    detached_from: str | None
    created: float
    updated: float


class Needs(msgspec.Struct, frozen=True):
    """Some of those that need an environment, and how many there are."""

    names: Sequence[str]
    count: int


def add(connection: Connection, row: AgentRow) -> None:
    connection.execute(
        insert(agents).values(
            id=row.id,
            principal_id=row.principal_id,
            name=row.name,
            description=row.description,
            environment=row.environment,
            detached_from=row.detached_from,
            created=micros(row.created),
            updated=micros(row.updated),
        )
    )


def replace(connection: Connection, row: AgentRow) -> None:
    """What is said of an agent becomes what the row says."""
    connection.execute(
        update(agents)
        .where(agents.c.id == row.id)
        .values(
            description=row.description,
            environment=row.environment,
            detached_from=row.detached_from,
            updated=micros(row.updated),
        )
    )


def count(connection: Connection, principal_id: str) -> int:
    """How many a principal has; until the transaction ends nobody else counts them."""
    hold(connection, "agents", principal_id)
    query = select(func.count()).select_from(agents).where(agents.c.principal_id == principal_id)
    return int(connection.execute(query).scalar_one())


def find(connection: Connection, principal_id: str, name: str, *, lock: bool = False) -> AgentRow | None:
    """The principal's agent of this name; with `lock` it stays as it is until the end of the transaction."""
    query = select(agents).where(agents.c.principal_id == principal_id, agents.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return _read_agent(row) if row else None


def list_of(
    connection: Connection, principal_id: str, limit: int, cursor: str | None
) -> tuple[list[AgentRow], str | None]:
    """One page of the principal's agents, oldest first."""
    query = select(agents).where(agents.c.principal_id == principal_id)
    rows, following = page(connection, query, agents, limit, cursor, newest_first=False)
    return [_read_agent(row) for row in rows], following


def remove(connection: Connection, agent_id: str) -> None:
    connection.execute(delete(agents).where(agents.c.id == agent_id))


def find_attached(connection: Connection, principal_id: str, environment: str) -> Needs:
    """The principal's agents that are attached to an environment."""
    return _needs(connection, agents.c.name, _match_attached(principal_id, environment), agents.c.number)


def find_detached(connection: Connection, principal_id: str, environment: str) -> Needs:
    """The principal's agents that were detached from an environment and have none since."""
    return _needs(connection, agents.c.name, _match_detached(principal_id, environment), agents.c.number)


def live_sessions(connection: Connection, principal_id: str, environment: str) -> Needs:
    """The principal's sessions of an environment that live, those that start or end included."""
    mine = (sessions.c.principal_id == principal_id) & (sessions.c.status != "TERMINATED")
    return _needs(connection, sessions.c.id, mine & (sessions.c.environment == environment), sessions.c.number)


def is_named(connection: Connection, principal_id: str, environment: str) -> bool:
    """Whether an agent or a live session of the principal names an environment, be it there or not."""
    every = (find_attached, find_detached, live_sessions)
    return any(needs(connection, principal_id, environment).count for needs in every)


def detach_all(connection: Connection, principal_id: str, environment: str, now: float) -> Needs:
    """Leave every agent of an environment without one; each remembers which it was."""
    changes = {"environment": None, "detached_from": environment, "updated": micros(now)}
    return _move(connection, _match_attached(principal_id, environment), changes)


def attach_all(connection: Connection, principal_id: str, environment: str, was: str, now: float) -> Needs:
    """Give an environment to every agent that was detached from the one it `was`."""
    changes = {"environment": environment, "detached_from": None, "updated": micros(now)}
    return _move(connection, _match_detached(principal_id, was), changes)


def _move(connection: Connection, which: Any, changes: dict[str, Any]) -> Needs:
    moved = connection.execute(update(agents).where(which).values(changes).returning(agents.c.name))
    names = sorted(moved.scalars())
    return Needs(names[:MOST_ROWS], len(names))


def _match_attached(principal_id: str, environment: str) -> Any:
    return (agents.c.principal_id == principal_id) & (agents.c.environment == environment)


def _match_detached(principal_id: str, environment: str) -> Any:
    mine = (agents.c.principal_id == principal_id) & (agents.c.detached_from == environment)
    return mine & agents.c.environment.is_(None)


def _needs(connection: Connection, name: Any, where: Any, order: Any) -> Needs:
    names: Select[Any] = select(name).where(where).order_by(order).limit(MOST_ROWS)
    found = [str(row[0]) for row in connection.execute(names)]
    if len(found) < MOST_ROWS:
        return Needs(found, len(found))
    every = connection.execute(select(func.count()).where(where)).scalar_one()
    return Needs(found, int(every))


def _read_agent(row: Row[Any]) -> AgentRow:
    return AgentRow(
        id=row.id,
        principal_id=row.principal_id,
        name=row.name,
        description=row.description,
        environment=row.environment,
        detached_from=row.detached_from,
        created=seconds(row.created),
        updated=seconds(row.updated),
    )
