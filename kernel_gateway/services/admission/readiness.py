"""Whether the service takes new work: it does until it drains, while its database answers and its disk has room."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from sqlalchemy import text

from kernel_gateway.errors import DatabaseUnavailable, GatewayError, NoSpace, ShuttingDown
from kernel_gateway.storage.database import Database

LOOK_SECONDS: Final = 1.0
"""How long an answer stands: everybody may ask, as often as they like."""
ANSWER_SECONDS: Final = 5.0
_ASK: Final = text("SELECT 1")


class Readiness:
    """One per gateway; `accepting` is false from the start of the shutdown on."""

    def __init__(self, database: Database, require_disk: Callable[[], None]) -> None:
        self.accepting = True
        self._database = database
        self._require_disk = require_disk
        self._looking = asyncio.Lock()
        self._looked = float("-inf")
        self._trouble: GatewayError | None = None

    def require_accepting(self) -> None:
        """Raises ShuttingDown once the service drains."""
        if not self.accepting:
            raise ShuttingDown("the service is shutting down and takes no new work")

    async def require_ready(self) -> None:
        """Raises ShuttingDown, DatabaseUnavailable or NoSpace, in words that tell strangers nothing."""
        self.require_accepting()
        async with self._looking:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._trouble = await self._look()
                self._looked = time.monotonic()
        if self._trouble is not None:
            raise type(self._trouble)(self._trouble.message)

    async def _look(self) -> GatewayError | None:
        try:
            self._require_disk()
        except NoSpace:
            return NoSpace("the service's disk is full")
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._database.run(lambda connection: connection.execute(_ASK))
        except (DatabaseUnavailable, TimeoutError):
            return DatabaseUnavailable("the database cannot be used now")
        except NoSpace:
            return NoSpace("the database's disk is full")
        return None
