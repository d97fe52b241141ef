"""Engines, sandboxes, snapshots and templates as they are kept: rows of the database, each its principal's.

The row of a sandbox or a snapshot is written before its session is there, under the id that this then gets: a service
that ends in between leaves a row that nothing shows, and never a session that nobody can name.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Collection
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection

from kernel_gateway.errors import Conflict, InvalidRequest, QuotaReached
from kernel_gateway.faces.agent_engine.names import (
    EXPRESS,
    Place,
    make_missing_error,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock
from kernel_gateway.storage import agent_engine
from kernel_gateway.storage.agent_engine import SESSIONS, Kind, ResourceRow, Wanted
from kernel_gateway.storage.database import Database

MOST_EACH: Final = 1_000
"""Engines, and templates, that one principal may have; the others are sessions, which are bounded as such."""
LEAST_ID: Final = 10**18
"""Ids are as Google's: numbers of 19 digits."""


class Resources:
    """The verbs on rows; another principal's is not found."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def add(
        self, principal: Principal, kind: Kind, place: Place, *, engine_id: str | None = None, **more: Any
    ) -> ResourceRow:
        """A new one, in an engine that is there; raises QuotaReached, NotFound."""
        chosen = place.choose()
        row = ResourceRow(
            id=str(LEAST_ID + secrets.randbelow(8 * LEAST_ID)),
            kind=kind,
            principal_id=principal.id,
            project=chosen.project,
            location=chosen.location,
            created=self._clock.now(),
            engine_id=engine_id,
            session_id=str(uuid.uuid4()) if kind in SESSIONS else None,
            **more,
        )

        def store(connection: Connection) -> None:
            engine = engine_id and agent_engine.find(connection, principal.id, "engine", engine_id, lock=True)
            if engine_id and (not engine or engine.deleted is not None):
                raise make_missing_error(place.engine(engine_id))
            if kind not in SESSIONS and agent_engine.count(connection, principal.id, kind) >= MOST_EACH:
                raise QuotaReached(f"{MOST_EACH:,} of your {kind}s are there, which is the most: delete one first")
            agent_engine.add(connection, row)

        await self._database.run(store)
        return row

    async def find(
        self, principal: Principal, kind: Kind, place: Place, ids: dict[str, str], *, deleted: bool = False
    ) -> ResourceRow:
        """The one that an address names by `ids` (its kind, and its engine); raises NotFound.

        `deleted`: also one that is gone, for its operations.
        """
        resource_id, engine_id = ids[kind], ids["engine"]
        row = await self._database.run(lambda c: agent_engine.find(c, principal.id, kind, resource_id))
        name = place.engine(engine_id) if kind == "engine" else place.child(engine_id, kind, resource_id)
        if row is None or not _is_at(row, place) or (kind != "engine" and row.engine_id != engine_id):
            raise make_missing_error(name)
        gone = row.deleted is not None or (kind in SESSIONS and row.status is None)
        if gone and not deleted:
            raise make_missing_error(name)
        return row

    async def add_content(self, row: ResourceRow, **more: Any) -> None:
        """Say more of it; what is None is not said."""
        content = {**row.content, **{name: value for name, value in more.items() if value is not None}}
        await self._database.run(lambda c: agent_engine.set_content(c, row.id, content))

    async def delete(self, row: ResourceRow, *, force: bool = True) -> list[str]:
        """Mark it as deleted, with all that is in it; raises Conflict when something is, without `force`.

        The sessions of what was marked: those that still live are the caller's to stop.
        """

        def remove(connection: Connection) -> list[str]:
            agent_engine.find(connection, row.principal_id, row.kind, row.id, lock=True)
            if not force and agent_engine.has_children(connection, row.id):
                raise Conflict(
                    "the engine still has sandboxes, snapshots or templates: delete them first, or use force"
                )
            return agent_engine.delete(connection, row.id, self._clock.now())

        return await self._database.run(remove)

    async def list(
        self, where: Collection[ColumnElement[bool]], wanted: Wanted, limit: int, token: str | None
    ) -> tuple[list[ResourceRow], str | None]:
        """One page, newest first, and the token of the next; raises InvalidRequest for a token that no list gave."""
        try:
            return await self._database.run(lambda c: agent_engine.list_of(c, where, wanted, limit, token))
        except InvalidRequest:
            raise InvalidRequest("pageToken: this is no token that a list gave", field="pageToken") from None


def _is_at(row: ResourceRow, place: Place) -> bool:
    """Whether the row is where the address says."""
    return place.project in (row.project, EXPRESS) and place.location in (row.location, EXPRESS)
