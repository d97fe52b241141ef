"""The audit log on its way to one place outside the database: in order, each record once, or again after a kill.

What was just written comes from memory; what a sink has missed, since it was down or behind, from the database, where
its position is kept. A sink that takes nothing delays neither calls nor other sinks, and loses only what retention
removes meanwhile, which is logged.

Of several gateways the first by its id that lives brings what all have written to a sink that is not of a host alone.
It does not look at the leases before each delivery: where one is taken over from, records may come twice. It begins
where the last of them was when each brought all records there, as before version 21 of the tables; later nobody was.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.audit.chain import entries_after
from kernel_gateway.services.audit.line import Entry
from kernel_gateway.storage import audit_chain
from kernel_gateway.storage.database import Database

MOST_AT_ONCE = 500
MOST_BYTES_AT_ONCE = 1_000_000
MOST_REMEMBERED = 2_000
MOST_BYTES_REMEMBERED = 4_000_000
DELIVER_SECONDS = 30.0
CLOSE_SECONDS = 5.0
"""Time that a sink has at the service's end for what it lacks; the rest follows after the next start."""
SAVE_SECONDS = 10.0
"""How often a position is written down at most: what a killed service delivered since comes again."""
RETRY_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
SETTLE_SECONDS = 3.0
"""How long a gateway is the first of those that live before it delivers: the one before has seen it by then."""
NOT_KNOWN = -1
log = structlog.get_logger(__name__)


class Sink(Protocol):
    """A place for lines; `of_host`: each of several gateways has one of its own."""

    name: str
    of_host: bool

    async def open(self) -> tuple[int, str] | None:
        """The number and hash of the last line that it knows to be there, if it can say so.

        Raises StartRefused for what only the operator can put right.
        """

    async def deliver(self, entries: Sequence[Entry]) -> None:
        """Have them for good when this returns; raises OSError, and then none, some or all of them are there."""

    async def close(self) -> None: ...


class Feed:
    """`run` delivers for as long as the service lives, `offer` says what is new, `close` delivers the rest."""

    def __init__(self, database: Database, sink: Sink) -> None:
        self._database = database
        self._sink = sink
        lease = database.lease
        self._gateway_id = "" if lease is None or sink.of_host else lease.place.gateway_id
        self._key = sink.name if lease is None or self._gateway_id else f"{sink.name} of {lease.place.gateway_id}"
        self._delivers = not self._gateway_id
        self._first_since: float | None = None
        self._position = NOT_KNOWN
        self._saved = (0, 0.0)
        self._recent: deque[Entry] = deque()
        self._recent_bytes = 0
        self._behind = True  # the database has what memory has not
        self._wake = asyncio.Event()
        self._wake.set()
        self._down = False

    @property
    def name(self) -> str:
        """The sink's."""
        return self._sink.name

    def lag(self, newest: int) -> int:
        """How many records up to that one the sink has not taken, as far as it is known."""
        return 0 if self._position == NOT_KNOWN else max(newest - self._position, 0)

    async def open(self) -> None:
        """Find out where to go on; a new sink begins with the next record. Raises StartRefused, DatabaseUnavailable."""
        last = await self._sink.open()

        def find(connection: Connection) -> int:
            known = audit_chain.position(connection, self._key)
            before = self._take_positions(connection)
            position = known if before is None else before
            if position is None:
                position = audit_chain.newest(connection)
            if position != known:
                audit_chain.put_position(connection, self._key, position)
            if last is not None and last[0] > position and audit_chain.hash_at(connection, last[0]) == last[1]:
                return last[0]
            return position

        self._position = await self._database.run(find)
        self._saved = (self._position, time.monotonic())

    def _take_positions(self, connection: Connection) -> int | None:
        """Where gateways have left off that had this sink each for itself, as before it was one for all."""
        return audit_chain.take_positions(connection, self._sink.name) if self._gateway_id else None

    def offer(self, entries: Sequence[Entry]) -> None:
        """These are in the database now."""
        self._recent.extend(entries)
        self._recent_bytes += sum(len(each.line) for each in entries)
        if len(self._recent) > MOST_REMEMBERED or self._recent_bytes > MOST_BYTES_REMEMBERED:
            self._forget()
        self._wake.set()

    def note_alive(self, gateway_ids: frozenset[str]) -> None:
        """These gateways live: the first by its id delivers what all have written."""
        if not self._gateway_id:
            return
        if self._gateway_id != min(gateway_ids | {self._gateway_id}):
            self._first_since = None
        elif self._first_since is None:
            self._first_since = time.monotonic()
        since = self._first_since
        self._delivers = since is not None and time.monotonic() - since >= SETTLE_SECONDS
        self._behind = True
        self._wake.set()

    async def run(self) -> None:
        """Deliver what comes, and again what could not be delivered."""
        pause = RETRY_SECONDS
        while True:
            await self._wake.wait()
            try:
                await self.deliver()
                pause = RETRY_SECONDS
            except Exception as error:  # whatever it is, the next try may go well, and nothing is lost meanwhile
                self._log_down(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def deliver(self) -> None:
        """Deliver what there is, all of it; raises OSError, TimeoutError, GatewayError."""
        while True:
            self._wake.clear()
            if not self._delivers:
                await self._save()
                self._position = NOT_KNOWN
                self._forget()
                return
            try:
                if self._position == NOT_KNOWN:
                    await self.open()
                entries = self._take_recent() or (await self._read() if self._behind else [])
                if not entries:
                    await self._save(only_later=True)
                    return
                async with asyncio.timeout(DELIVER_SECONDS):
                    await self._sink.deliver(entries)
            except BaseException:
                self._wake.set()
                raise
            self._advance(entries)
            await self._save(only_later=True)

    async def close(self) -> None:
        """The service ends."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._position != NOT_KNOWN:
                    await self.deliver()
        except (OSError, TimeoutError, GatewayError) as error:
            self._log_down(error)
        with contextlib.suppress(GatewayError):
            await self._save()
        await self._sink.close()

    def _take_recent(self) -> list[Entry]:
        """The next ones, if memory has them; where numbers are left out, the database says whether that is so."""
        while self._recent and self._recent[0].number <= self._position:
            self._recent_bytes -= len(self._recent.popleft().line)
        if not self._recent:
            return []
        if self._recent[0].number != self._position + 1:
            self._behind = True
            return []
        return _batch(each for place, each in enumerate(self._recent, self._position + 1) if each.number == place)

    async def _read(self) -> list[Entry]:
        """The next ones that the database has; none: memory has all that come."""
        position = self._position
        entries = await self._database.run(lambda c: entries_after(c, position, MOST_AT_ONCE))
        self._behind = bool(entries)
        return _batch(entries)

    def _advance(self, entries: Sequence[Entry]) -> None:
        if entries[0].number > self._position + 1:
            log.error("audit_sink_lacks", sink=self._sink.name, first=self._position + 1, last=entries[0].number - 1)
        self._position = entries[-1].number
        if self._down:
            self._down = False
            log.info("audit_sink_back", sink=self._sink.name)

    async def _save(self, *, only_later: bool = False) -> None:
        position, (saved, at) = self._position, self._saved
        if position in {NOT_KNOWN, saved} or (only_later and time.monotonic() - at < SAVE_SECONDS):
            return

        def put(connection: Connection) -> None:
            self._take_positions(connection)  # of one that is not upgraded yet: it would be old when it is looked at
            audit_chain.put_position(connection, self._key, position)

        await self._database.run(put)
        self._saved = (position, time.monotonic())

    def _forget(self) -> None:
        self._behind = True
        self._recent.clear()
        self._recent_bytes = 0

    def _log_down(self, error: Exception) -> None:
        if not self._down:
            self._down = True
            reason = str(error) or "it took too long"
            log.error("audit_sink_down", sink=self._sink.name, error=reason, delivered=self._position)


def _batch(entries: Iterable[Entry]) -> list[Entry]:
    """The first of them, as many as go at once."""
    taken: list[Entry] = []
    size = 0
    for each in entries:
        size += len(each.line)
        if taken and (len(taken) >= MOST_AT_ONCE or size > MOST_BYTES_AT_ONCE):
            break
        taken.append(each)
    return taken
