"""Leases: for a while a person has a session to themselves, and what others want to run waits or is refused.

A lease is in memory, runs out by itself, and leaves a note in the record when it begins and when it ends. A service
that starts again knows of none.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import structlog

from kernel_gateway.errors import NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.sessions.live_session import HeldLease, LiveSession
from kernel_gateway.services.sessions.registry import Registry
from sandcell.models.leases import Lease, TakeLease

log = structlog.get_logger(__name__)


class Leases:
    """Take, renew, show and give back. The owner of a session may end any lease on it."""

    def __init__(
        self,
        *,
        clock: Clock,
        record: Record,
        readiness: Readiness,
        background: Background,
        registry: Registry,
    ) -> None:
        self._clock = clock
        self._record = record
        self._readiness = readiness
        self._background = background
        self._registry = registry

    async def take(self, principal: Principal, session_id: str, body: TakeLease, lease_id: str | None = None) -> Lease:
        """A new lease, or, for its holder, who gives its id, the same one for longer.

        Raises NotFound, SessionTerminated, SessionBusy: another client holds one; ShuttingDown.
        """
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        live.require_unleased(lease_id)
        live.touch()
        expires = self._clock.now() + body.seconds
        renewed = live.held is not None
        lease = live.held or HeldLease(str(uuid.uuid4()), body.name or principal.name, expires)
        lease = live.lease = replace(lease, expires=expires)
        self._follow(live, expires)
        if not renewed:
            await self._begin(live, lease)
        live.news.append("lease", {"holder": lease.holder, "expires_at": rfc3339(expires)})
        log.info("lease_taken", session=live.id, seconds=body.seconds)
        return _lease_info(lease, told=True)

    async def show(self, principal: Principal, session_id: str) -> Lease:
        """The lease that lasts; raises NotFound also when there is none."""
        live = await self._registry.require(principal, session_id)
        if live.held is None:
            raise NotFound("there is no lease on this session")
        return _lease_info(live.held)

    async def give_back(self, principal: Principal, session_id: str) -> None:
        """End the lease, if there is one."""
        live = await self._registry.require(principal, session_id)
        if live.held is not None:
            self._unfollow(live)
            await self._end(live, "It was given back.")

    def _follow(self, live: LiveSession, expires: float) -> None:
        """End the lease when it runs out, which the latest word decides."""
        self._unfollow(live)
        live.lease_task = self._background.spawn(self._watch(live, expires), f"lease of {live.id}")

    def _unfollow(self, live: LiveSession) -> None:
        if live.lease_task is not None:
            live.lease_task.cancel()
        live.lease_task = None

    async def _watch(self, live: LiveSession, expires: float) -> None:
        while (left := expires - self._clock.now()) > 0:
            await self._clock.sleep(left)
        live.lease_task = None
        await self._end(live, "It ran out.")

    async def _begin(self, live: LiveSession, lease: HeldLease) -> None:
        """Say so in the record; a lease of which no caller gets the id is none."""
        text = f"**{_plain(lease.holder)} took the session** until {rfc3339(lease.expires)}."
        try:
            await self._record.note(live, "lease", text)
        except BaseException:
            if live.lease is not None and live.lease.id == lease.id:
                self._unfollow(live)
                live.lease = None
                live.wake()
            raise

    async def _end(self, live: LiveSession, why: str) -> None:
        lease, live.lease = live.lease, None
        live.wake()
        if lease is not None:
            log.info("lease_ended", session=live.id)
            live.news.append("lease", {"holder": None, "expires_at": None})
            await self._record.note(live, "lease", f"**The lease of {_plain(lease.holder)} ended.** {why}")


def _lease_info(lease: HeldLease, *, told: bool = False) -> Lease:
    return Lease(lease.holder, rfc3339(lease.expires), lease.id if told else None)


def _plain(name: str) -> str:
    """A name as it stands in a note: on one line, and no Markdown of its own."""
    return "`" + " ".join(name.replace("`", "'").split()) + "`"
