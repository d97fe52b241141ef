"""What each workspace holds, and when it was last in use: noted as it happens, written to the database soon after.

Nothing is listed for it: the writer of a manifest knows what is in it. A `kill -9` loses what waits, about a second of
it; the next change of that workspace notes it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace

import structlog

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.clock import Clock
from kernel_gateway.storage import workspace_usage
from kernel_gateway.storage.database import Database

MOST_WAITING = 10_000
"""Workspaces of which something waits for the database; of more, those that came first are forgotten."""
LINGER_SECONDS = 0.5
RETRY_SECONDS = 5.0
FLUSH_SECONDS = 10.0
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Noted:
    """What is known of one workspace; None: nothing new."""

    touched: float
    file_count: int | None = None
    size_bytes: int | None = None


class WorkspaceLedger:
    """`note_counts` from any thread, `touch` from the loop; `run` for as long as the service lives."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: OrderedDict[str, Noted] = OrderedDict()
        self._guard = threading.Lock()
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def note_counts(self, workspace_id: str, file_count: int, size_bytes: int) -> None:
        """The store holds a state of the workspace with so many files and bytes from now on."""
        self._note(workspace_id, Noted(self._clock.now(), file_count, size_bytes))

    def touch(self, workspace_id: str) -> None:
        """Its files are read or written."""
        self._note(workspace_id, Noted(self._clock.now()))

    def waiting(self, workspace_id: str) -> Noted | None:
        """What is noted and not written yet."""
        return self._waiting.get(workspace_id)

    async def run(self) -> None:
        """Write what waits, again and again."""
        self._loop = asyncio.get_running_loop()
        while True:
            if not self._waiting:
                await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(LINGER_SECONDS)
            try:
                await self.flush()
            except (GatewayError, TimeoutError) as error:
                log.warning("usage_not_written", error=str(error), workspaces=len(self._waiting))
                await asyncio.sleep(RETRY_SECONDS)

    async def flush(self) -> None:
        """Write all that waits; raises DatabaseUnavailable, NoSpace, TimeoutError, and keeps what is not written."""
        with self._guard:
            taken = dict(self._waiting)
        if not taken:
            return
        rows = [(each, noted.touched, noted.file_count, noted.size_bytes) for each, noted in taken.items()]
        async with asyncio.timeout(FLUSH_SECONDS):
            await self._database.run(lambda c: workspace_usage.record(c, rows))
        with self._guard:
            for workspace_id, noted in taken.items():
                if self._waiting.get(workspace_id) is noted:
                    del self._waiting[workspace_id]

    async def close(self) -> None:
        """The service ends: write what can be written."""
        with contextlib.suppress(GatewayError, TimeoutError):
            await self.flush()

    def _note(self, workspace_id: str, noted: Noted) -> None:
        with self._guard:
            known = self._waiting.get(workspace_id)
            if known is not None and noted.file_count is None:
                noted = replace(known, touched=noted.touched)
            self._waiting[workspace_id] = noted
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popitem(last=False)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and `close` has written
                self._loop.call_soon_threadsafe(self._wake.set)
