"""Sessions as callers see them: start, show, list, stop, interrupt, restart."""

from __future__ import annotations

from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import Page, Session, SessionStatus, StartSession


class Sessions:
    """The verbs on sessions; another principal's session is not found."""

    async def start(self, principal: Principal, body: StartSession) -> Session:
        """Start a session and return when its kernel takes code.

        Raises UnknownEnvironment, InvalidRequest, SessionLimit, NotFound (workspace), WorkspaceInUse, NoSpace,
        SandboxUnavailable, StoreUnavailable, ShuttingDown, DeadlinePassed.
        """
        raise NotImplementedError

    async def get(self, principal: Principal, session_id: str) -> Session:
        raise NotImplementedError

    async def list(
        self, principal: Principal, limit: int = 100, cursor: str | None = None, status: SessionStatus | None = None
    ) -> Page[Session]:
        """The principal's sessions, newest first."""
        raise NotImplementedError

    async def stop(self, principal: Principal, session_id: str) -> Session:
        """End a session, waiting for its last flush; ending an ended one answers with how it ended."""
        raise NotImplementedError

    async def interrupt(self, principal: Principal, session_id: str) -> None:
        """Interrupt what runs; nothing running is fine."""
        raise NotImplementedError

    async def restart(self, principal: Principal, session_id: str) -> Session:
        """A blank kernel of the next generation in the same sandbox; what ran ends as `died`."""
        raise NotImplementedError
