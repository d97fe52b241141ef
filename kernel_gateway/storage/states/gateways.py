"""Queries on the gateways that share a database, and on which of them each workspace is at, with its sessions.

Only PostgreSQL is shared. Leases are told by its clock. A connection of a gateway knows whose it is (`own`); one of a
service that has its database alone is nobody's, and for that one everything is its own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    bindparam,
    cast,
    exists,
    extract,
    false,
    func,
    insert,
    inspect,
    select,
    text,
    true,
    update,
)

from kernel_gateway.errors import SessionElsewhere
from kernel_gateway.storage.columns import micros
from kernel_gateway.storage.locks import hold, number_of
from kernel_gateway.storage.tables import (
    access_keys,
    agent_engine_resources,
    attach_tokens,
    gateways,
    principals,
    sessions,
    tokens,
    workspaces,
)

MOST_TAKEN: Final = 100
"""Workspaces that one round takes over: other gateways take their part of what a dead one had."""
OPTION: Final = "sandcell_gateway"
"""The execution option of an engine's connections that says whose they are."""
_CONNECTED: Final = text(
    "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    " AND classid::bigint = (CAST(:number AS bigint) >> 32) & 4294967295"
    " AND objid::bigint = CAST(:number AS bigint) & 4294967295)"
)
_NOW: Final = cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
_ANY = sessions.alias()
_LIVE: Final = exists(select(_ANY.c.id).where(_ANY.c.workspace_id == workspaces.c.id, _ANY.c.status != "TERMINATED"))


class Place(msgspec.Struct, frozen=True):
    """One of several gateways: its id, where the others reach it, how long it counts as alive without a word."""

    gateway_id: str
    address: str
    lease_seconds: float


class Home(msgspec.Struct, frozen=True):
    """The gateway that something is at; `alive` by its lease. `live`: it is a live session, or has one."""

    gateway_id: str
    address: str
    alive: bool
    live: bool
    workspace_id: str = ""
    """Where something of a workspace was looked for."""


class Alive(msgspec.Struct, frozen=True):
    """A gateway that lives: where it is reached, and for how long its lease goes on if it is not renewed."""

    address: str
    left_seconds: float


class Early(msgspec.Struct, frozen=True):
    """When a gateway counts as ended that refuses connections while its lease goes on: by what is left of that.

    `overdue_seconds`: a renewal is overdue, and then it is enough that its connection to the database is gone, which
    it has for as long as it lives. `late_seconds`: it has stopped to begin anything (`lease.OWN_PART`).
    """

    overdue_seconds: float
    late_seconds: float


def own(connection: Connection) -> str | None:
    """The gateway whose connection this is; None where no other has the database."""
    found: str | None = connection.get_execution_options().get(OPTION)
    return found


def begin(connection: Connection, place: Place) -> int:
    """The gateway lives from now on; the number of this life, which is above those of its earlier ones."""
    hold(connection, "gateways")
    before = select(gateways.c.epoch).where(gateways.c.id == place.gateway_id).with_for_update()
    epoch = (connection.execute(before).scalar() or 0) + 1
    values = {"address": place.address, "epoch": epoch, "expires": _NOW + micros(place.lease_seconds)}
    changed = connection.execute(update(gateways).where(gateways.c.id == place.gateway_id).values(values))
    if not changed.rowcount:
        connection.execute(insert(gateways).values(id=place.gateway_id, **values))
    return epoch


def connect(connection: Connection, gateway_id: str) -> bool:
    """Show by a lock of this connection that the gateway lives: it ends with it. False while an earlier one has it."""
    number = bindparam("number", number_of("gateway", gateway_id), BigInteger())
    return bool(connection.execute(select(func.pg_try_advisory_lock(number))).scalar())


def is_connected(connection: Connection, gateway_id: str) -> bool:
    """Whether a connection shows that the gateway lives: the server knows at once when its process has ended."""
    return bool(connection.execute(_CONNECTED, {"number": number_of("gateway", gateway_id)}).scalar())


def leave(connection: Connection, seconds: float) -> None:
    """The gateway ends; nobody takes what it has for so long."""
    away = update(gateways).where(gateways.c.id == own(connection))
    connection.execute(away.values(expires=_NOW + micros(seconds)))


def has_others(connection: Connection, gateway_id: str) -> bool:
    """Whether another gateway lives, also where the tables are of another version."""
    if not inspect(connection).has_table(gateways.name):
        return False
    query = select(gateways.c.id).where(gateways.c.id != gateway_id, gateways.c.expires > _NOW)
    return connection.execute(query.limit(1)).first() is not None


def list_alive(connection: Connection) -> dict[str, Alive]:
    """All gateways that live, by their ids."""
    left = (gateways.c.expires - _NOW).label("left")
    query = select(gateways.c.id, gateways.c.address, left).where(gateways.c.expires > _NOW)
    return {row.id: Alive(row.address, row.left / 1_000_000) for row in connection.execute(query)}


def is_own(connection: Connection) -> ColumnElement[bool]:
    """Of a row of sessions: it is at this gateway."""
    gateway = own(connection)
    if gateway is None:
        return true()
    return exists(
        select(workspaces.c.id).where(workspaces.c.id == sessions.c.workspace_id, workspaces.c.gateway == gateway)
    )


def among(connection: Connection, session_id: Column[str], ids: Sequence[str] | None) -> ColumnElement[bool]:
    """Of a row that refers to a session: it is one of these, or where none are given one of this gateway's."""
    if ids is not None:
        return session_id.in_(ids)
    if own(connection) is None:
        return true()
    return session_id.in_(select(sessions.c.id).where(is_own(connection)))


def take_unowned(connection: Connection) -> None:
    """Called at a start: live sessions that a service had which was alone become this gateway's."""
    gateway = own(connection)
    if gateway is not None:
        connection.execute(update(workspaces).where(workspaces.c.gateway.is_(None), _LIVE).values(gateway=gateway))


def require_home(connection: Connection, workspace_id: str) -> None:
    """From now on the workspace is at this gateway; raises SessionElsewhere while it is at another that lives.

    Called before anything of a workspace is changed: what is under way or waits to be is known where it is.
    """
    gateway = own(connection)
    if gateway is None:
        return
    held = select(workspaces.c.gateway).where(workspaces.c.id == workspace_id).with_for_update()
    at = connection.execute(held).scalar()
    if at == gateway:
        return
    if at is not None and not _end_dead(connection, at):
        raise SessionElsewhere("another gateway has this workspace: try again when no session uses it")
    live = select(workspaces.c.id).where(workspaces.c.id == workspace_id, _LIVE)
    if connection.execute(live).first() is not None:
        raise SessionElsewhere("the workspace is being taken over from a gateway that is gone: try again")
    connection.execute(update(workspaces).where(workspaces.c.id == workspace_id).values(gateway=gateway))


def is_at_home(connection: Connection, workspace_id: str) -> bool:
    """Whether the workspace is at no other gateway."""
    gateway = own(connection)
    at = select(workspaces.c.gateway).where(workspaces.c.id == workspace_id)
    return gateway is None or connection.execute(at).scalar() in {None, gateway}


def list_moved(connection: Connection, workspace_ids: Sequence[str], service_id: str) -> list[str]:
    """Those of the workspaces that another service has had since; `service_id` is that of the data directory."""
    query = select(workspaces.c.id).where(workspaces.c.id.in_(workspace_ids), workspaces.c.gateway != service_id)
    return list(connection.execute(query).scalars())


def take_all(connection: Connection, service_id: str) -> None:
    """Called at a start: what others have had becomes this service's if it has the database alone.

    Another one that is started with its own data directory later knows by that which of its copies are old. Gateways
    that begin later find the service as one whose lease is over, and take its workspaces over.
    """
    if own(connection) is not None:
        return
    others = workspaces.c.gateway.is_distinct_from(service_id)
    connection.execute(update(workspaces).where(others).values(gateway=service_id))
    if connection.execute(select(gateways.c.id).where(gateways.c.id == service_id)).first() is None:
        connection.execute(insert(gateways).values(id=service_id, address="", epoch=1, expires=0))


def _end_dead(connection: Connection, gateway_id: str, early: Early | None = None) -> bool:
    """End the life that a gateway may still have whose lease is over, or that has ended early; False when it lives.

    It writes nothing from here on. Its transactions that are under way hold its row, so this waits for them.
    """
    left = select(gateways.c.expires - _NOW).where(gateways.c.id == gateway_id)
    found = connection.execute(left.with_for_update()).scalar()
    if found is None:
        return False
    if found > 0:
        if early is None or found > micros(early.overdue_seconds):
            return False
        # Asked once its row is ours: one that begins another life is connected before it comes to that.
        if found > micros(early.late_seconds) and is_connected(connection, gateway_id):
            return False
    over = update(gateways).where(gateways.c.id == gateway_id)
    connection.execute(over.values(epoch=gateways.c.epoch + 1, expires=func.least(gateways.c.expires, _NOW)))
    return True


def find_home(connection: Connection, kind: str, name: str) -> Home | None:
    """Where a session, a workspace, a sandbox of Agent Engine is; None for one that is unknown or at none.

    Of the kind `gateway` it is the gateway of this id, of `replay` the one whose id this replay's ends with.
    """
    if kind in {"gateway", "replay"}:
        this = gateways.c.id == name if kind == "gateway" else gateways.c.id.startswith(name[-12:])
        own_row = select(gateways.c.id, gateways.c.address, gateways.c.expires > _NOW, false())
        found = connection.execute(own_row.where(this)).first()
        return None if found is None else Home(*found)
    found_at = gateways.c.id, gateways.c.address, gateways.c.expires > _NOW, _LIVE, workspaces.c.id
    query = select(*found_at).select_from(workspaces.join(gateways, gateways.c.id == workspaces.c.gateway))
    if kind == "workspace":
        query = query.where(workspaces.c.id == name)
    elif kind == "session":
        query = query.join(sessions, sessions.c.workspace_id == workspaces.c.id).where(sessions.c.id == name)
    else:
        resources = agent_engine_resources
        query = query.join(sessions, sessions.c.workspace_id == workspaces.c.id)
        query = query.join(resources, resources.c.session_id == sessions.c.id).where(resources.c.id == name)
    row = connection.execute(query).first()
    return None if row is None else Home(*row)


def take_over(connection: Connection, refusing: Collection[str] = (), early: Early | None = None) -> list[str]:
    """Take workspaces with live sessions of gateways whose leases have run out; the ids of these sessions.

    Of those that are `refusing` connections also of such as have ended `early`.
    """
    gateway = own(connection)
    mine = gateways.c.id == gateway
    with_live = exists(select(workspaces.c.id).where(workspaces.c.gateway == gateways.c.id, _LIVE))
    dead = select(gateways.c.id).where(~mine, (gateways.c.expires <= _NOW) | gateways.c.id.in_(refusing), with_live)
    query = dead.order_by(gateways.c.expires).with_for_update(skip_locked=True)
    for each in connection.execute(query).scalars().all():
        if not _end_dead(connection, each, early if each in refusing else None):
            continue  # it lives, or has come back meanwhile
        some = select(workspaces.c.id).where(workspaces.c.gateway == each, _LIVE).limit(MOST_TAKEN)
        ids = list(connection.execute(some).scalars())
        connection.execute(update(workspaces).where(workspaces.c.id.in_(ids)).values(gateway=gateway))
        of_them = sessions.c.workspace_id.in_(ids) & (sessions.c.status != "TERMINATED")
        return list(connection.execute(select(sessions.c.id).where(of_them).order_by(sessions.c.number)).scalars())
    return []


def list_void(
    connection: Connection, credential_ids: set[str], principal_ids: set[str]
) -> tuple[set[str], dict[str, str | None]]:
    """What of these was revoked or disabled at any gateway: credentials, and principals, each with its heir."""
    revoked: set[str] = set()
    for table in (tokens, access_keys, attach_tokens):
        query = select(table.c.id).where(table.c.id.in_(credential_ids), table.c.revoked.is_not(None))
        revoked.update(connection.execute(query).scalars())
    disabled = principals.c.id.in_(principal_ids) & principals.c.disabled.is_not(None)
    found = connection.execute(select(principals.c.id, principals.c.heir).where(disabled))
    return revoked, {row.id: row.heir for row in found}
