"""What an operation gets: one request whose signature is verified; no HTTP in it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from kernel_gateway.faces.agentcore.identifiers import Identifiers
from kernel_gateway.faces.agentcore.invocations import Invocations, Waiter
from kernel_gateway.faces.agentcore.tools import Figures
from kernel_gateway.identity.principal import Caller, Principal
from kernel_gateway.services.admission.fair_shares import FairShares, Share
from kernel_gateway.services.client_tokens import ClientTokens

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services


class Face(msgspec.Struct, frozen=True):
    """What all requests of this face share."""

    services: Services
    identifiers: Identifiers
    tokens: ClientTokens
    invocations: Invocations
    figures: Figures
    memory: FairShares

    @classmethod
    def over(cls, services: Services) -> Face:
        """The face of these services."""
        return cls(
            services=services,
            identifiers=Identifiers.of(services.settings, services.environments.has_host),
            tokens=services.client_tokens,
            invocations=Invocations(services.background),
            figures=Figures(),
            memory=services.body_room.whole,
        )


@dataclass
class Call:
    """One request whose signature is verified.

    `outside` and `body` are as the operation's types read them. `region` is the one signed for, `invocation_id` the
    client's own, which it repeats. `reservation` is the memory that a large body takes. `session_id`, ours with dashes,
    is set by the operation once it knows it: the audit log names it. `result` is what the log keeps of an invocation's
    result, once there is one. `waiter` stands for the client while it waits for an invocation.
    """

    face: Face
    caller: Caller
    region: str
    outside: Any
    body: Any
    body_sha256: str
    invocation_id: str
    reservation: Share | None = None
    session_id: str | None = None
    result: dict[str, Any] | None = None
    result_room: Share | None = None
    waiter: Waiter | None = None
    left: bool = False
    at_work: bool = False
    over: bool = False

    @property
    def services(self) -> Services:
        return self.face.services

    @property
    def principal(self) -> Principal:
        return self.caller.principal

    def hand_over(self) -> Share | None:
        """Called as the work begins: the memory that the body takes is the work's to release. `end_work` ends it."""
        self.at_work = True
        reservation, self.reservation = self.reservation, None
        return reservation

    async def take_room(self, size: int) -> None:
        """Memory for a large result, until work and call are both over; raises LimitReached when none comes in time."""
        if self.result_room is None:
            self.result_room = await self.face.memory.take(self.principal.id, size)

    def end_work(self, result_bytes: int) -> None:
        """Called when the work has ended, its client still there or not."""
        self.at_work = False
        if self.result_room is not None:
            self.result_room.shrink(result_bytes)
        self._let_go()

    def wait_for(self, session_id: str, work: asyncio.Task[bytes]) -> Waiter:
        """The client waits for this work, unless it has left before it began."""
        self.waiter = waiter = self.face.invocations.wait_for(session_id, work)
        if self.left:
            self.leave()
        return waiter

    def leave(self) -> None:
        """Called when the client is gone, and when the request is over: it waits for nothing any more."""
        self.left = True
        if self.waiter is not None:
            self.face.invocations.leave(self.waiter)

    def end(self) -> None:
        """Called when the request is over: release what no work has taken over."""
        self.over = True
        self.leave()
        self._let_go()

    def _let_go(self) -> None:
        if self.over and not self.at_work:
            for held in (self.reservation, self.result_room):
                if held is not None:
                    held.release()
