"""The sessions of the protocol: who may speak in which, how many there are, and when one that is not used ends."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from kernel_gateway.errors import LimitReached, NotFound
from kernel_gateway.faces.mcp.elsewhere import GatewayBackend
from kernel_gateway.identity.principal import Principal
from sandcell.mcp.conversation import Conversation
from sandcell.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

RANDOMNESS: Final = 32
"""Of a session's id, in bytes: nobody guesses one."""


@dataclass
class McpSession:
    """One client's session of the protocol. `used` is when it was last asked something."""

    id: str
    principal_id: str
    conversation: Conversation
    backend: GatewayBackend
    used: float
    open_requests: int = 0
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def busy(self) -> bool:
        """Whether something is being answered."""
        return self.open_requests > 0


class McpSessions:
    """In memory: after a restart of the service clients begin again, as the protocol has it (404).

    Of several gateways one has a session; its id begins with that gateway's.

    One that was not used for `mcp_idle_seconds` ends, and so do the sandboxes that it started. A principal that has as
    many as it may loses the one that was unused for longest.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._sessions: dict[str, McpSession] = {}

    def begin(self, principal: Principal, token: str, environment: str | None) -> McpSession:
        """A new session; raises LimitReached when the principal's are all busy."""
        settings = self._services.settings
        own = [each for each in self._sessions.values() if each.principal_id == principal.id]
        if len(own) >= settings.mcp_sessions_per_principal:
            idle = [each for each in own if not each.busy]
            if not idle:
                raise LimitReached(f"{len(own)} MCP sessions are busy already: end one first", retry_after_seconds=10.0)
            self.end(min(idle, key=lambda each: each.used))
        backend = GatewayBackend(self._services, principal, token)
        toolbox = Toolbox(
            backend,
            environment=environment or settings.mcp_environment,
            name="MCP",
            labels={"mcp": "yes"},
            output_bytes=settings.mcp_output_bytes,
        )
        loop = asyncio.get_running_loop()
        session_id = self._services.gateways.prefix + secrets.token_urlsafe(RANDOMNESS)
        session = McpSession(session_id, principal.id, Conversation(toolbox), backend, loop.time())
        self._sessions[session.id] = session
        self._watch(session)
        return session

    def require(self, principal: Principal, session_id: str) -> McpSession:
        """A session of this principal; raises NotFound for any other."""
        found = self._sessions.get(session_id)
        if found is None or found.principal_id != principal.id:
            raise NotFound("there is no such MCP session, or it has ended: begin with initialize")
        return found

    def enter(self, session: McpSession) -> None:
        """Called when a request of it begins."""
        session.open_requests += 1

    def leave(self, session: McpSession) -> None:
        """Called when a request of it is over."""
        session.open_requests -= 1
        session.used = asyncio.get_running_loop().time()

    def end(self, session: McpSession) -> None:
        """End it, and in the background the sandboxes that it started."""
        if self._sessions.pop(session.id, None) is None:
            return
        if session.timer is not None:
            session.timer.cancel()
        self._services.background.spawn(_close(session), "end of an MCP session")

    def _watch(self, session: McpSession) -> None:
        loop, idle_seconds = asyncio.get_running_loop(), self._services.settings.mcp_idle_seconds
        left = idle_seconds if session.busy else session.used + idle_seconds - loop.time()
        if left <= 0:
            self.end(session)
        else:
            session.timer = loop.call_later(left, self._watch, session)


async def _close(session: McpSession) -> None:
    try:
        await session.conversation.aclose()
    finally:
        await session.backend.aclose()
