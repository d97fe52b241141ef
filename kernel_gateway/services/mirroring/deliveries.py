"""What is written down when a workspace that waited on this host has reached the store."""

from __future__ import annotations

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.storage import sessions
from kernel_gateway.storage.database import Database
from sandcell.models.sync import DurableExecution, Sync
from workspace_sync import AsOf

log = structlog.get_logger(__name__)
ENDED_SESSIONS = 100
"""How many of a workspace are looked at for the one whose files have been delivered."""


class Deliveries:
    """`record` is called by the spool after each delivery."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def record(self, workspace_id: str, as_of: AsOf | None) -> None:
        """What a session left is in the store at last: its record says so.

        It need not be the last session: others may have failed to start since, for want of the store,
        or start just now.
        """
        durable = None if as_of is None else DurableExecution(as_of.execution_id, as_of.number)
        flushed = rfc3339(self._clock.now())

        def store(connection: Connection) -> None:
            ended = sessions.list_ended(connection, workspace_id, ENDED_SESSIONS)
            row = next((each for each in ended if each.record.sync.pending), None)
            if row is not None:
                row.record.sync = Sync(flushed, mode=row.sync, durable=durable or row.record.sync.durable)
                sessions.set_record(connection, row.id, row.record)

        try:
            await self._database.run(store)
        except GatewayError as error:
            log.error("delivery_not_stored", workspace=workspace_id, error=error.code)
