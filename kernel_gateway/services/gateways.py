"""This service as one of several gateways of a database: that it lives, and what happens at the others.

Each has the sessions of the workspaces that are at it, and renews its lease. Who finds that the lease of another has
run out takes over what is live there. One that was taken over from lets go of everything: its process ends at once,
and the launcher starts another, which removes what the sandboxes have left. Without several gateways nothing runs here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import structlog

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.admission.open_calls import OpenCalls
from kernel_gateway.services.admission.rates import Limits
from kernel_gateway.services.adoption import Adoption
from kernel_gateway.services.credentials.sign_ins import find_person, is_person, name_person
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.engines.lease import Lease
from kernel_gateway.storage.states import gateways, uses
from kernel_gateway.storage.states.gateways import Alive, Early, Home

log = structlog.get_logger(__name__)
RENEWALS = 6
"""Renewals, and looks at the others, in the time of one lease; three may fail before nothing is begun any more."""
LONGEST_PAUSE_SECONDS = 1.0
SHORTEST_PAUSE_SECONDS = 0.05
OVERDUE_PAUSES = 1.5
"""Since the last renewal, in the pauses between two, when one is overdue (`Early`)."""
EARLY_PART = 0.3
"""Of a lease: what is left of it when a gateway has for sure stopped to begin anything by itself (`Early`)."""
DIAL_SECONDS = 0.5
SHARE_SECONDS = 2.0
"""How long gateways' telling each other what they have let through may hold up the next look."""
RETURN_SECONDS = 60.0
"""How long a gateway that ended in order and keeps sandboxes on its host may be away until others take over."""


class Gateways:
    """`renew` from the opening of the database on, `watch` once sessions are served, `leave` at the end."""

    def __init__(
        self,
        *,
        settings: Settings,
        database: Database,
        open_calls: OpenCalls,
        registry: Registry,
        lifecycle: Lifecycle,
        adoption: Adoption,
        hand_over: Callable[[LiveSession, str], Awaitable[None]],
        limits: Limits,
        let_go: Callable[[], None] = lambda: os._exit(1),
    ) -> None:
        self._settings = settings
        self._database = database
        self._open_calls = open_calls
        self._registry = registry
        self._lifecycle = lifecycle
        self._adoption = adoption
        self._hand_over = hand_over
        self._limits = limits
        if database.lease is not None:
            limits.share()
        self._let_go = let_go
        self._pause = min(settings.gateway_lease_seconds / RENEWALS, LONGEST_PAUSE_SECONDS)
        lease = settings.gateway_lease_seconds
        self._early = Early(lease - OVERDUE_PAUSES * self._pause, lease * EARLY_PART)
        self._unsure = False
        """Whether a takeover failed that the database may have kept."""
        self._renewing = ThreadPoolExecutor(1, "lease")  # of its own: the others may be busy for longer than the lease
        self._on_change: list[Callable[[frozenset[str]], None]] = []

    @property
    def lease(self) -> Lease | None:
        """None for a service that has its database alone."""
        return self._database.lease

    @property
    def gateway_id(self) -> str:
        """This gateway's id; empty where there are no others."""
        return "" if self.lease is None else self.lease.place.gateway_id

    @property
    def prefix(self) -> str:
        """What ids begin with of what is in this gateway's memory alone; empty where there are no others."""
        return f"{self.gateway_id}." if self.gateway_id else ""

    def lives_here(self, session_id: str) -> bool:
        """Whether nobody need be asked where this session is."""
        live = self._registry.get(session_id)
        return live is not None and not self._adoption.is_arriving(live.row.workspace_id)

    async def find(self, kind: str, name: str) -> Home | None:
        """The gateway that something is at; None when it is at none, or at one that is gone for good."""
        home = await self._database.run(lambda c: gateways.find_home(c, kind, name))
        return home if home is not None and (home.alive or home.live) else None

    def is_self(self, home: Home) -> bool:
        return self.lease is not None and home.gateway_id == self.lease.place.gateway_id

    async def wait_arrived(self, home: Home) -> None:
        """If what is at home here is just being taken up, it is served afterwards."""
        await self._adoption.wait_arrived(home.workspace_id)

    def on_change(self, heard: Callable[[frozenset[str]], None]) -> None:
        """Have it told which gateways live, as often as that is looked at."""
        self._on_change.append(heard)

    async def renew(self) -> None:
        """Again and again, whatever else happens; ends the process once another gateway has taken over."""
        lease = self.lease
        while lease is not None:
            try:
                await asyncio.get_running_loop().run_in_executor(self._renewing, lease.renew)
            except Exception as error:
                log.warning("gateway_lease_not_renewed", error=str(error))
            if lease.lost:
                log.error("gateway_taken_over", gateway=lease.place.gateway_id)
                self._let_go()
                return
            await asyncio.sleep(self._pause)

    async def watch(self) -> None:
        """Look at what the others do, again and again; a look that fails is logged, and the next one comes."""
        pause = self._pause
        while self.lease is not None:
            await asyncio.sleep(pause)
            pause = self._pause
            try:
                pause = await self._look()
            except Exception as error:
                log.warning("gateways_not_looked_at", error=str(error) or repr(error))

    async def leave(self) -> None:
        """The service has ended in order, and lets go of what it has kept: nothing is written any more.

        Kernels on its host wait a while for it. Those in pods others reach as well: they may take over at once.
        """
        lease = self.lease
        if lease is None or lease.lost or not lease.begun:
            return
        lease.left = True
        seconds = RETURN_SECONDS if any(live.sandbox.on_this_host for live in self._registry) else 0.0
        with contextlib.suppress(GatewayError):
            await self._database.run(lambda c: gateways.leave(c, seconds))

    async def _look(self) -> float:
        """Seconds until the next look: until then nothing becomes due that this one has seen."""
        alive = await self._database.run(gateways.list_alive)
        refusing = await self._find_refusing(alive)
        await self._take_over(refusing)
        ended = {each for each in refusing if alive[each].left_seconds <= self._early.late_seconds}
        for heard in self._on_change:
            heard(frozenset(alive.keys() - ended))
        await self._end_void()
        await self._share_uses()
        moments = (self._early.overdue_seconds, self._early.late_seconds, 0.0)
        due = [each.left_seconds - when for each in alive.values() for when in moments if each.left_seconds > when]
        return max(min([self._pause, *due]), SHORTEST_PAUSE_SECONDS)

    async def _find_refusing(self, alive: Mapping[str, Alive]) -> set[str]:
        """Those whose renewals are overdue, and where nobody listens any more."""
        late = {name: each for name, each in alive.items() if each.left_seconds <= self._early.overdue_seconds}
        refused = await asyncio.gather(*(refuses_connections(each.address) for each in late.values()))
        return {name for name, is_refused in zip(late, refused, strict=True) if is_refused}

    async def _take_over(self, refusing: Collection[str]) -> None:
        """Make sessions of those that have ended this gateway's, and begin to take them up."""
        unsure, self._unsure = self._unsure, True
        served = {live.id for live in self._registry} if unsure else set()
        taken = set(await self._database.run(lambda c: gateways.take_over(c, refusing, self._early)))
        if unsure:
            rows = await self._database.run(sessions.list_live)
            served |= {live.id for live in self._registry}
            taken |= {row.id for row in rows if not self._adoption.is_arriving(row.workspace_id)} - served
        if taken:
            log.warning("sessions_taken_over", sessions=len(taken))
            await self._adoption.take_over(sorted(taken))
        self._unsure = False

    async def _share_uses(self) -> None:
        """What was counted here against limits of how often counts at the others, and theirs here.

        What cannot be written now is written at the next look: nothing else waits for it, nor fails with it.
        """
        changed = self._limits.list_changed()
        seconds = uses.SEEN_SECONDS if self._limits.heard else uses.KEPT_SECONDS
        try:
            async with asyncio.timeout(SHARE_SECONDS):
                counted = await self._database.run(lambda c: uses.exchange(c, changed, seconds))
        except Exception as error:
            self._limits.put_back(changed)
            log.warning("uses_not_shared", error=str(error) or repr(error))
            return
        self._limits.note_others(counted)

    async def _end_void(self) -> None:
        """What was revoked or disabled at another gateway ends here, too."""
        credentials, principals = self._open_calls.list_credentials()
        principals |= {find_person(each) for each in credentials if is_person(each)}
        principals |= {live.row.principal_id for live in self._registry if live.ending is None}
        if not credentials and not principals:
            return
        revoked, disabled = await self._database.run(lambda c: gateways.list_void(c, credentials, principals))
        for each in revoked:
            self._open_calls.end_credential(each)
        for each in disabled:
            self._open_calls.end_principal(each)
            self._open_calls.end_credential(name_person(each))  # while it looks at others
        for live in list(self._registry):
            if live.row.principal_id not in disabled or live.ending is not None:
                continue
            heir_id = disabled[live.row.principal_id]
            if heir_id is None:
                self._lifecycle.end(live, "disabled", "its owner was disabled")
            else:
                await self._hand_over(live, heir_id)


async def refuses_connections(address: str) -> bool:
    """Whether its host says that nobody listens there: also a process that hangs has its connections taken."""
    parts = urlsplit(address)
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except ConnectionRefusedError:
        return True
    except (OSError, TimeoutError):
        return False
    writer.close()
    return False
