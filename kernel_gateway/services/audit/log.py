"""The audit log: who asked for what, and what the answer was. Written in batches in the background, read page by page.

`record` and `call` return at once. What does not fit is dropped and counted, and the count becomes a record of its own.
Refusals cost a caller nothing and so are kept up to a rate; a session that floods the log crowds out neither others nor
what it was allowed. A `kill -9` loses what waits, a fraction of a second. Each record is a link of a chain
(`chain`), and what is in the database goes to the sinks too: the audit file, a syslog server, an HTTP server.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway import metrics
from kernel_gateway.errors import Forbidden, GatewayError, NoSpace
from kernel_gateway.identity.audit_key import PublicKey
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.rates import Buckets
from kernel_gateway.services.audit.api_call import API, CLIENT_GONE, ApiCall, detail
from kernel_gateway.services.audit.chain import AuditChain, Written
from kernel_gateway.services.audit.feed import Feed, Sink
from kernel_gateway.services.audit.file import AuditFile, FileSink
from kernel_gateway.services.audit.syslog import SyslogSink
from kernel_gateway.services.audit.text import cut_text, encode_detail
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.settings import Settings
from kernel_gateway.storage import audit
from kernel_gateway.storage.audit import AuditFilter, AuditRow
from kernel_gateway.storage.columns import to_json
from kernel_gateway.storage.database import Database
from kernel_gateway.syslog_address import SyslogAddress
from sandcell.models.audit import AuditRecord
from sandcell.models.model import Page

log = structlog.get_logger(__name__)
MOST_WAITING = 10_000
MOST_WAITING_OF_SESSION = 2_000
MOST_IN_BATCH = 1_000
MOST_REMOVED_AT_ONCE = 1_000
LINGER_SECONDS = 0.2
"""How long a record waits for company."""
COUNT_SECONDS = 10.0
"""How often it is said at most how many were dropped."""
RETRY_SECONDS = 1.0
FLUSH_SECONDS = 10.0
REMOVALS_IN_SWEEP = 100
DAY = 86_400
REFUSALS_A_SECOND = 1.0
MOST_REFUSALS_AT_ONCE = 1_000
Owner = tuple[str | None, str | None, bool]
"""Whose records: principal and session; and whether they were allowed."""


class Audit:
    """`record` from anywhere on the loop; `run` for as long as the service lives, `flush` at its end."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._retention_seconds = settings.audit_retention_days * DAY
        self._most_records = settings.audit_records
        self._waiting: deque[AuditRow] = deque()
        self._waiting_of: Counter[Owner] = Counter()
        self._dropped: Counter[Owner] = Counter()
        self._refusals = Buckets(REFUSALS_A_SECOND, MOST_REFUSALS_AT_ONCE, clock.now)
        self._wake = asyncio.Event()
        self._writing = asyncio.Lock()
        shared = settings.secrets_key if settings.gateway_address else ""
        self._chain = AuditChain(settings.state_path, shared)
        self._feeds = [Feed(database, sink) for sink in _sinks(settings)]

    def call(self, call: ApiCall) -> bool:
        """Take the record of one call of an interface, once it is over; says whether there was room."""
        call.user_agent, call.error_message = cut_text(call.user_agent), cut_text(call.error_message)
        call.target, call.access_key_id = cut_text(call.target), cut_text(call.access_key_id)
        now = self._clock.now()
        return self.record(
            API,
            call.event_name,
            allowed=call.error_code in ("", CLIENT_GONE),
            reason=f"{call.error_code}: {call.error_message}" if call.error_code else "",
            target=call.target,
            principal_id=call.principal.id if call.principal else None,
            session_id=call.session_id,
            detail=detail(call, rfc3339(now)),
            at=now,
        )

    def record(
        self,
        kind: str,
        event: str,
        *,
        allowed: bool,
        reason: str = "",
        target: str = "",
        principal_id: str | None = None,
        session_id: str | None = None,
        detail: dict[str, Any] | None = None,
        at: float | None = None,
    ) -> bool:
        """Take a record, to be written soon; says whether there was room. `detail` is JSON: plain values.

        `at` is when it happened, now unless told.
        """
        owner = _owner(kind, principal_id, session_id, allowed=allowed)
        self._wake.set()
        if not self._has_room(owner):
            known = owner in self._dropped or len(self._dropped) < MOST_WAITING
            self._dropped[owner if known else (None, None, allowed)] += 1
            metrics.count_audit_dropped()
            return False
        row = AuditRow(
            at=self._clock.now() if at is None else at,
            kind=kind,
            event=event,
            allowed=allowed,
            reason=cut_text(reason),
            target=cut_text(target),
            principal_id=principal_id,
            session_id=session_id,
            detail=encode_detail(detail or {}),
        )
        self._waiting.append(row)
        self._waiting_of[owner] += 1
        return True

    @property
    def public_key(self) -> PublicKey:
        """What its signatures are verified with."""
        return self._chain.key.public

    def backlog(self) -> tuple[int, float]:
        """How many records are not in the database yet, and the age of the oldest in seconds."""
        oldest = self._waiting[0].at if self._waiting else self._clock.now()
        return len(self._waiting), max(self._clock.now() - oldest, 0.0)

    def sink_lags(self) -> dict[str, int]:
        """How many records of the database each sink has not taken, by its name."""
        return {feed.name: feed.lag(self._chain.last_number) for feed in self._feeds}

    def _has_room(self, owner: Owner) -> bool:
        if len(self._waiting) >= MOST_WAITING or self._waiting_of[owner] >= MOST_WAITING_OF_SESSION:
            return False
        return owner[2] or not self._refusals.take(owner)

    def note_alive(self, gateway_ids: frozenset[str]) -> None:
        """Of several gateways these live: one of them brings what all have written to the sinks that they share."""
        for feed in self._feeds:
            feed.note_alive(gateway_ids)

    async def run(self) -> None:
        """Write what waits, and bring to the sinks what is written."""
        async with asyncio.TaskGroup() as group:
            for feed in self._feeds:
                group.create_task(feed.run())
            await self._write()

    async def _write(self) -> None:
        """Write what waits, again and again; while the database takes nothing the queue fills, and then drops."""
        counted = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COUNT_SECONDS if self._dropped else None):
                    await self._wake.wait()
            await asyncio.sleep(LINGER_SECONDS)
            count = time.monotonic() - counted > COUNT_SECONDS
            try:
                await self.flush(count_dropped=count)
                counted = time.monotonic() if count else counted
            except (GatewayError, TimeoutError) as error:
                log.error("audit_not_written", error=str(error), waiting=len(self._waiting))
                await asyncio.sleep(RETRY_SECONDS)

    async def flush(self, *, count_dropped: bool = True) -> None:
        """Write all that waits; raises DatabaseUnavailable, NoSpace, TimeoutError, and keeps what is not written."""
        async with asyncio.timeout(FLUSH_SECONDS), self._writing:
            self._wake.clear()
            try:
                for _ in range(len(self._waiting) // MOST_IN_BATCH + 1):
                    await self._write_batch(count_dropped=count_dropped)
            except BaseException:
                self._wake.set()
                raise

    async def open(self) -> None:
        """Take up the key and the sinks; raises StartRefused when the key or the file cannot be used."""
        await asyncio.to_thread(lambda: self._chain.key)
        if self._database.lease is not None:
            await self._database.run(self._chain.require_key)
        for feed in self._feeds:
            await feed.open()

    async def close(self) -> None:
        """The service ends: write what can be written."""
        try:
            await self.flush()
        except (GatewayError, TimeoutError) as error:
            log.error("audit_lost", records=len(self._waiting), error=str(error) or "the database did not answer")
        await asyncio.gather(*(feed.close() for feed in self._feeds))

    async def _write_batch(self, *, count_dropped: bool) -> None:
        """Under the lock. A row leaves the queue when it is in the database."""
        rows = [self._waiting[place] for place in range(min(len(self._waiting), MOST_IN_BATCH))]
        dropped = dict(list(self._dropped.items())[:MOST_IN_BATCH]) if count_dropped else {}
        rows += [self._count_row(owner, count) for owner, count in dropped.items()]
        if not rows:
            return
        try:
            self._pass_on(await self._database.run(lambda c: self._chain.write(c, rows, self._clock.now())))
        except GatewayError:
            raise
        except Exception as error:  # a row that no database takes must not keep all others from being written
            log.error("audit_batch_lost", records=len(rows), exc_info=error)
        for row in rows[: len(rows) - len(dropped)]:
            self._waiting.popleft()
            self._forget_one(row)
        self._dropped -= Counter(dropped)

    def _pass_on(self, written: Written) -> None:
        """It is in the database."""
        self._chain.confirm(written.head)
        for feed in self._feeds:
            feed.offer(written.entries)

    def _forget_one(self, row: AuditRow) -> None:
        owner = _owner(row.kind, row.principal_id, row.session_id, allowed=row.allowed)
        self._waiting_of[owner] -= 1
        if not self._waiting_of[owner]:
            del self._waiting_of[owner]

    def _count_row(self, owner: Owner, count: int) -> AuditRow:
        log.warning("audit_dropped", session=owner[1], principal=owner[0], records=count)
        return AuditRow(
            at=self._clock.now(),
            kind="audit",
            event="dropped",
            allowed=False,
            reason=f"dropped: {count:,} records came faster than they are kept",
            principal_id=owner[0],
            session_id=owner[1],
            detail=to_json({"records": count, "allowed": owner[2]}),
        )

    async def list(
        self, principal: Principal, wanted: AuditFilter, limit: int = 100, cursor: str | None = None
    ) -> Page[AuditRecord]:
        """Records newest first, all that were made before the call: an administrator's all, anybody else's their own.

        A page may hold fewer than it could and still name the next: so many records are looked through at once.
        Raises DatabaseUnavailable, Forbidden.
        """
        with contextlib.suppress(NoSpace, TimeoutError):  # what is stored can still be read
            await self.flush()
        if not principal.admin:
            if wanted.principal not in (None, principal.id, principal.name):
                raise Forbidden("only an administrator looks into the records of others")
            wanted = replace(wanted, principal_id=principal.id, principal=None)
        rows, following = await self._database.run(lambda c: audit.list_of(c, wanted, limit, cursor))
        return Page([_record(row) for row in rows], following)

    async def sweep(self) -> None:
        """Remove what is older than the retention or more than is kept; of very much the rest waits for the next."""
        now = self._clock.now()
        before = now - self._retention_seconds

        def remove(connection: Connection) -> int:
            most = MOST_REMOVED_AT_ONCE
            return self._chain.prune(connection, now=now, before=before, keep=self._most_records, at_once=most)

        for _ in range(REMOVALS_IN_SWEEP):
            if await self._database.run(remove) < MOST_REMOVED_AT_ONCE:
                return

    async def sign(self) -> None:
        """Write a digest, when it is time for one; raises DatabaseUnavailable, NoSpace, TimeoutError."""
        async with asyncio.timeout(FLUSH_SECONDS), self._writing:
            now = self._clock.now()
            if self._chain.digest_due(now):
                written = await self._database.run(lambda c: self._chain.digest(c, now))
                if written is not None:
                    self._pass_on(written)


def _record(row: AuditRow) -> AuditRecord:
    return AuditRecord(
        number=row.number,
        at=rfc3339(row.at),
        kind=row.kind,
        event=row.event,
        allowed=row.allowed,
        reason=row.reason,
        target=row.target,
        principal=row.principal,
        session_id=row.session_id,
        hash=row.hash,
        detail=msgspec.json.decode(row.detail, type=dict[str, Any]),
    )


def _owner(kind: str, principal_id: str | None, session_id: str | None, *, allowed: bool) -> Owner:
    """Refused calls count by principal alone: which session they name is the caller's to choose."""
    return principal_id, None if kind == API and not allowed else session_id, allowed


def _sinks(settings: Settings) -> list[Sink]:
    sinks: list[Sink] = []
    if settings.audit_files:
        file = AuditFile(Path(settings.audit_path), settings.audit_file_bytes, settings.audit_files)
        sinks.append(FileSink(file))
    if settings.audit_syslog:
        sinks.append(SyslogSink(SyslogAddress.of_text(settings.audit_syslog)))
    if settings.audit_http_url:
        from kernel_gateway.services.audit.http_sink import HttpSink  # noqa: PLC0415 - HTTPX is 3 % of a start

        sinks.append(HttpSink(settings.audit_http_url, settings.audit_http_token))
    return sinks
