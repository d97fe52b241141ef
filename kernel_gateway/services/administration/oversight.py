"""Anybody's sessions, for administrators: list, look into, end. The audit log names the administrator."""

from __future__ import annotations

import msgspec

from kernel_gateway.errors import NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.credentials.tokens import require_administrator
from kernel_gateway.services.sessions.live_session import describe_session
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.storage import sessions
from kernel_gateway.storage.database import Database
from sandcell.models.model import Page
from sandcell.models.principals import OwnedSession
from sandcell.models.sessions import Session, SessionStatus

WHAT = "the sessions of others"


class Oversight:
    """Raises Forbidden for everybody but administrators."""

    def __init__(self, database: Database, registry: Registry, sessions_: Sessions) -> None:
        self._database = database
        self._registry = registry
        self._sessions = sessions_

    async def owner(self, principal: Principal, session_id: str) -> Principal:
        """Whose session this is, as other services take them; raises NotFound."""
        require_administrator(principal, WHAT)
        found = await self._database.run(lambda connection: sessions.owner_of(connection, session_id))
        if found is None:
            raise NotFound("there is no such session")
        return Principal(*found, admin=False)

    async def list(
        self,
        principal: Principal,
        limit: int = 100,
        cursor: str | None = None,
        *,
        owner: str | None = None,
        status: SessionStatus | None = None,
    ) -> Page[OwnedSession]:
        """Everybody's sessions or one principal's, newest first."""
        require_administrator(principal, WHAT)
        rows, following = await self._database.run(
            lambda connection: sessions.list_all(connection, limit, cursor, owner, status)
        )
        shown = []
        for row, name in rows:
            live = self._registry.get(row.id)
            session = describe_session(row) if live is None else live.describe()
            shown.append(_with_owner(session, name))
        return Page(shown, following)

    async def show(self, principal: Principal, session_id: str) -> OwnedSession:
        """A session of any principal; raises NotFound."""
        owner = await self.owner(principal, session_id)
        return _with_owner(await self._sessions.get(owner, session_id), owner.name)

    async def stop(self, principal: Principal, session_id: str) -> OwnedSession:
        """End a session, as its owner can; raises NotFound, DeadlinePassed."""
        owner = await self.owner(principal, session_id)
        ended = await self._sessions.stop(owner, session_id, f"it was stopped by {principal.name}, an administrator")
        return _with_owner(ended, owner.name)


def _with_owner(session: Session, principal: str) -> OwnedSession:
    return OwnedSession(**msgspec.structs.asdict(session), principal=principal)
