"""Principals, for administrators: list them, disable and enable them, set their quota.

Disabling ends everything of a principal at once: first its credentials count no longer, in the database and in memory,
then its open calls are hung up on, then its replays stop and its live sessions end, or go over to another principal.
What a call of it began meanwhile is refused by the database: a session's start asks there once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import Conflict, InvalidRequest, NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339, rfc3339_or_none
from kernel_gateway.services.credentials.sign_ins import name_person
from kernel_gateway.services.credentials.tokens import require_administrator
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import principals, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.principals import PrincipalRow
from sandcell.models.model import Page
from sandcell.models.principals import Disabled, DisablePrincipal, PrincipalInfo, SetQuota

log = structlog.get_logger(__name__)
WHAT = "principals"


class Principals:
    """Raises Forbidden for everybody but administrators.

    `forget_credentials` makes every credential be looked up again.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        record: Record,
        open_calls: OpenCalls,
        background: Background,
        registry: Registry,
        lifecycle: Lifecycle,
        replays: Replays,
        forget_credentials: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._record = record
        self._open_calls = open_calls
        self._background = background
        self._registry = registry
        self._lifecycle = lifecycle
        self._replays = replays
        self._forget_credentials = forget_credentials

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[PrincipalInfo]:
        """Every principal, by name."""
        require_administrator(principal, WHAT)
        rows, following = await self._database.run(lambda c: principals.list_principals(c, limit, cursor))
        return Page([self._principal_info(row) for row in rows], following)

    async def disable(self, principal: Principal, name: str, body: DisablePrincipal) -> Disabled:
        """None of its credentials counts any more, its calls and sessions end; again, for one that is disabled.

        Its live sessions are stopped, which goes on when this returns, or with `sessions` hand_over become those of
        `to`, with their workspaces. Raises NotFound, InvalidRequest, Conflict: no principal disables itself.
        """
        require_administrator(principal, WHAT)
        if (body.sessions == "hand_over") != (body.to is not None):
            raise InvalidRequest("`to` says whose the sessions become, and goes with sessions=hand_over", field="to")
        row, heir = await self._database.run(lambda c: (_find(c, name), _find(c, body.to) if body.to else None))
        if row.id == principal.id:
            raise Conflict("no administrator disables themselves: another one can")
        if heir is not None and (heir.disabled is not None or heir.id == row.id):
            raise InvalidRequest("`to` must be another principal, and one that is not disabled", field="to")
        return await self._background.carry_out(self._disable(row, heir, principal), f"disable {row.id}")

    async def enable(self, principal: Principal, name: str) -> PrincipalInfo:
        """Its credentials count again, those that were not revoked and have not expired."""
        require_administrator(principal, WHAT)
        return await self._change(name, lambda connection, row: principals.enable(connection, row.id))

    async def set_quota(self, principal: Principal, name: str, body: SetQuota) -> PrincipalInfo:
        """How many live sessions it may have; None: what the settings say."""
        require_administrator(principal, WHAT)
        return await self._change(name, lambda c, row: principals.set_quota(c, row.id, body.live_sessions))

    async def _change(self, name: str, change: Callable[[Connection, PrincipalRow], None]) -> PrincipalInfo:
        def carry_out(connection: Connection) -> PrincipalRow:
            change(connection, _find(connection, name))
            return _find(connection, name)

        try:
            row = await self._database.run(carry_out)
        finally:  # also when nobody waits for the answer any more, since the change is made all the same
            self._forget_credentials()
        return self._principal_info(row)

    async def _disable(self, row: PrincipalRow, heir: PrincipalRow | None, by: Principal) -> Disabled:
        now = self._clock.now()
        try:
            heir_id = heir.id if heir is not None else None
            await self._database.run(lambda connection: principals.disable(connection, row.id, now, heir_id))
        finally:  # also when nobody waits for the answer any more, since the change is made all the same
            self._forget_credentials()
            calls = self._open_calls.end_principal(row.id)
            calls += self._open_calls.end_credential(name_person(row.id))  # while it looks at others
        await self._replays.stop_all_of(row.id)
        live = [each for each in self._registry if each.row.principal_id == row.id and each.ending is None]
        log.info("principal_disabled", principal=row.name, by=by.name, calls=calls, sessions=len(live))
        if heir is None:
            for each in live:
                self._lifecycle.end(each, "disabled", f"its owner was disabled by {by.name}")
        else:
            await asyncio.gather(*(self.hand_over(each, heir.id, heir.name, by.name) for each in live))
        return Disabled(row.name, rfc3339(now), calls, [each.id for each in live], heir.name if heir else None)

    async def hand_over(self, live: LiveSession, heir_id: str, heir_name: str, by: str) -> None:
        """The row first: the heir hears of nothing that is not stored. Attached clients have been disconnected."""
        session_id, workspace_id = live.id, live.row.workspace_id
        await self._database.run(lambda c: sessions.hand_over(c, session_id, workspace_id, heir_id))
        if live.row.principal_id == heir_id:  # of several gateways this one has heard of it twice
            return
        live.row = replace(live.row, principal_id=heir_id)
        live.sandbox.egress_gateway.hand_over(heir_id)
        await self._record.note(live, "handed_over", f"**Handed over** to `{heir_name}` by `{by}`.")

    async def hand_over_here(self, live: LiveSession, heir_id: str) -> None:
        """Another of several gateways has disabled the session's owner."""
        heir = await self._database.run(lambda c: principals.find_enabled(c, heir_id))
        if heir is None:
            self._lifecycle.end(live, "disabled", "its owner was disabled, and so was the heir")
            return
        await self.hand_over(live, heir.id, heir.name, "an administrator")

    def _principal_info(self, row: PrincipalRow) -> PrincipalInfo:
        return PrincipalInfo(
            name=row.name,
            admin=row.admin,
            created_at=rfc3339(row.created),
            disabled_at=rfc3339_or_none(row.disabled),
            live_sessions=row.live,
            live_sessions_most=row.quota or self._settings.own_sessions,
        )


def _find(connection: Connection, name: str) -> PrincipalRow:
    row = principals.find_row(connection, name)
    if row is None:
        raise NotFound("there is no such principal")
    return row
