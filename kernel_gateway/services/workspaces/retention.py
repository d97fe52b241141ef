"""Workspaces that have not been used for long are removed, if the operator wants that; it is off by default.

Used means: a session lived on it, or a durable file of it was read or written. One that waits in the spool stays, as
its newest files are not durable. Each removal is in the audit log. The rules are asked again at the moment of removal,
in one transaction with it, so that an owner who comes back just then loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import math

import structlog

from kernel_gateway.errors import Forbidden, GatewayError, InvalidRequest
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.settings import Settings
from kernel_gateway.storage import workspace_usage
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.workspace_usage import Untouched, UsageRow
from sandcell.models.model import Page
from sandcell.models.usage import MOST_EXPIRED, Expired, ExpiredWorkspace, ExpireWorkspaces, PrincipalUsage

DAY = 86_400
EVERY_SECONDS = 600.0
"""Time between two looks for workspaces whose time is over."""
SPOOLED = "its newest files wait on the service's host for the store"
USED = "it was used meanwhile"
log = structlog.get_logger(__name__)


class Retention:
    """`sweep` now and then, `expire` for administrators, `usage` for everybody."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        spool: Spool,
        ledger: WorkspaceLedger,
        audit: Audit,
        readiness: Readiness,
        background: Background,
        removals: WorkspaceRemovals,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._spool = spool
        self._ledger = ledger
        self._audit = audit
        self._readiness = readiness
        self._background = background
        self._registry = registry
        self._removals = removals
        self._looked = -math.inf

    async def usage(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[PrincipalUsage]:
        """What the principal's workspaces and live sessions hold; for an administrator a page of everybody's, by name.

        One's own sessions are measured now, of everybody's it says what was measured last.
        """
        with contextlib.suppress(GatewayError, TimeoutError):  # what is stored can still be read
            await self._ledger.flush()
        only = None if principal.admin else principal.id
        rows, following = await self._database.run(lambda c: workspace_usage.of_principals(c, only, limit, cursor))
        if only is not None:
            own = [live for live in self._registry if live.row.principal_id == only]
            await asyncio.gather(*(live.sandbox.meter.measure() for live in own))
        return Page([self._usage_of(row) for row in rows], following)

    def _usage_of(self, row: UsageRow) -> PrincipalUsage:
        own = [each for each in self._registry if each.row.principal_id == row.principal_id]
        live = [each.sandbox.meter.last for each in own if not each.hibernated]
        return PrincipalUsage(
            principal=row.principal,
            workspaces=row.workspaces,
            live_workspaces=row.live_workspaces,
            not_counted=row.not_counted,
            file_count=row.file_count,
            size_bytes=row.size_bytes,
            datasets=row.datasets,
            live_sessions=len(live),
            live_sessions_most=row.quota or self._settings.own_sessions,
            memory_bytes=sum(each.memory_bytes for each in live),
            disk_bytes=sum(each.storage_used_bytes for each in live),
            cpu_seconds=round(row.cpu_seconds + sum(each.cpu_seconds for each in live), 6),
        )

    async def expire(self, principal: Principal, body: ExpireWorkspaces) -> Expired:
        """Remove what has not been used for so long, or only say what that is. Raises Forbidden, InvalidRequest."""
        if not principal.admin:
            raise Forbidden("only an administrator removes workspaces that nobody has used")
        days = body.days or self._settings.workspace_retention_days
        if not days:
            raise InvalidRequest("workspaces are kept for ever (workspace_retention_days is 0): say days", field="days")
        if not body.dry_run:
            self._readiness.require_accepting()
        return await self._background.carry_out(self._expire(days, dry_run=body.dry_run), "expire workspaces")

    async def sweep(self) -> None:
        """Remove those whose time is over, when that is wanted and it is time to look."""
        days, now = self._settings.workspace_retention_days, self._clock.now()
        if days and now - self._looked >= EVERY_SECONDS:
            self._looked = now
            await self._expire(days, dry_run=False)

    async def _expire(self, days: int, *, dry_run: bool) -> Expired:
        await self._ledger.flush()
        before = self._clock.now() - days * DAY
        found = await self._database.run(lambda c: workspace_usage.list_untouched(c, before, MOST_EXPIRED + 1))
        spooled = set(self._spool.waiting())
        told = []
        for each in found[:MOST_EXPIRED]:
            kept = SPOOLED if each.workspace_id in spooled else None
            if kept is None and not dry_run and not await self._remove(each, before, days):
                kept = USED
            told.append(_describe(each, kept))
        return Expired(dry_run, days, told, len(found) > MOST_EXPIRED)

    async def _remove(self, each: Untouched, before: float, days: int) -> bool:
        if await self._removals.expire(each.workspace_id, untouched_since=before) is None:
            return False
        self._audit.record(
            "retention",
            "ExpireWorkspace",
            allowed=True,
            reason=f"untouched: nobody has used it for {days:,} days",
            target=each.workspace_id,
            principal_id=each.principal_id,
            detail={
                "workspace_id": each.workspace_id,
                "touched_at": rfc3339(each.touched),
                "days": days,
                "file_count": each.file_count,
                "size_bytes": each.size_bytes,
            },
        )
        log.info("workspace_expired", workspace=each.workspace_id, days=days)
        return True


def _describe(each: Untouched, kept: str | None) -> ExpiredWorkspace:
    return ExpiredWorkspace(
        each.workspace_id, each.principal, rfc3339(each.touched), each.file_count, each.size_bytes, kept
    )
