"""The audit log verified by the service itself, in the background: what `sandcell audit verify` does beside it.

One goes on at a time. It takes records in slices, and after each lets the database rest for as long as that took, so
that it holds up nobody; and it has a deadline. The report of the last one is kept in memory. It says no more than this
process and its key can: who has taken the service has both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import Forbidden, GatewayError, NotFound
from kernel_gateway.identity.audit_key import PublicKey
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.audit.verification import DatabaseWalk
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.storage import audit_chain as stored
from kernel_gateway.storage.database import Database
from sandcell.models.audit import AuditProblem, AuditVerification

MOST_AT_ONCE: Final = 200
"""Records that are read in one transaction."""
MOST_SECONDS: Final = 3_600.0
log = structlog.get_logger(__name__)


class AuditSelfCheck:
    """`begin` one, `get` how far it is. Raises Forbidden for everybody but administrators."""

    def __init__(self, database: Database, clock: Clock, audit: Audit, background: Background) -> None:
        self._database = database
        self._clock = clock
        self._audit = audit
        self._background = background
        self._last: AuditVerification | None = None

    async def begin(self, principal: Principal) -> AuditVerification:
        """Begin one, unless one goes on; it is `running` either way."""
        _require_administrator(principal)
        if self._last is None or self._last.state != "running":
            key = self._audit.public_key
            self._last = AuditVerification("running", rfc3339(self._clock.now()), public_key=key.text)
            self._background.spawn(self._verify(self._last, key), "verification of the audit log")
        return self._last

    async def get(self, principal: Principal) -> AuditVerification:
        """The last one; raises NotFound when there was none since the service started."""
        _require_administrator(principal)
        if self._last is None:
            raise NotFound("the audit log was not verified since the service started")
        return self._last

    def _read(self, place: int | None) -> Callable[[Connection], stored.Slice]:
        return lambda connection: stored.read_slice(connection, place, MOST_AT_ONCE, beside_writers=True)

    async def _verify(self, shown: AuditVerification, key: PublicKey) -> None:
        walk, over = DatabaseWalk(key), False
        try:
            async with asyncio.timeout(MOST_SECONDS):
                while not over:
                    began = time.monotonic()
                    taken = await self._database.run(self._read(walk.place))
                    over = await asyncio.to_thread(walk.take, taken)
                    _show(shown, walk)
                    await asyncio.sleep(time.monotonic() - began)
            shown.state = "whole" if walk.report.whole else "broken"
        except (GatewayError, TimeoutError) as error:
            shown.error = str(error) or "it took longer than an hour"
        finally:
            if shown.state == "running":
                shown.state = "failed"
            shown.ended_at = rfc3339(self._clock.now())
            log.info("audit_verified", state=shown.state, records=shown.records, problems=len(shown.problems))


def _show(shown: AuditVerification, walk: DatabaseWalk) -> None:
    report = walk.report
    shown.records, shown.outside, shown.digests = report.records, report.outside, report.digests
    shown.first, shown.last, shown.newest = report.first, report.last, walk.newest
    shown.problems = [AuditProblem(each.text, each.number) for each in report.problems]


def _require_administrator(principal: Principal) -> None:
    if not principal.admin:
        raise Forbidden("only an administrator verifies the audit log")
