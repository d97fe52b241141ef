"""The live sessions of this process, by id, and how callers find theirs."""

from __future__ import annotations

from collections.abc import Iterator

from kernel_gateway.errors import Conflict, NotFound, SessionElsewhere, SessionTerminated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.storage import sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import SessionRow


class Registry:
    """A session is here from before its row is written until its end is; then its sandbox is a dead one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._live: dict[str, LiveSession] = {}

    def __iter__(self) -> Iterator[LiveSession]:
        return iter(list(self._live.values()))

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, session_id: str) -> bool:
        return session_id in self._live

    def add(self, live: LiveSession) -> None:
        """Raises Conflict when there is one of this id already."""
        if self._live.setdefault(live.id, live) is not live:
            raise Conflict("a session of this id lives already", session_id=live.id)

    def remove(self, live: LiveSession) -> None:
        """This very one; another of its id stays."""
        if self._live.get(live.id) is live:
            del self._live[live.id]

    def get(self, session_id: str) -> LiveSession | None:
        """A session that lives here, of any principal."""
        return self._live.get(session_id)

    def find(self, principal: Principal, session_id: str) -> LiveSession | None:
        """The principal's session, if it lives here."""
        live = self._live.get(session_id)
        return live if live is not None and live.row.principal_id == principal.id else None

    async def require(self, principal: Principal, session_id: str) -> LiveSession:
        """The principal's live session; raises NotFound, SessionTerminated, SessionElsewhere."""
        live = self.find(principal, session_id)
        if live is not None and live.stored:
            live.require_live()
            return live
        row = await self.ended_row(principal, session_id)
        raise SessionTerminated(
            f"the session has ended: {row.ended_reason}",
            session_id=session_id,
            reason=row.ended_reason,
            detail=row.ended_detail,
        )

    async def ended_row(self, principal: Principal, session_id: str) -> SessionRow:
        """The same of a session that does not live here; raises SessionElsewhere while another gateway has it."""
        row = await self.row(principal, session_id)
        if row.status != "TERMINATED" and self._database.lease is not None:
            raise SessionElsewhere("another gateway has this session: try again", session_id=session_id)
        return row

    async def row(self, principal: Principal, session_id: str) -> SessionRow:
        """The principal's session as it is stored; raises NotFound."""
        row = await self._database.run(lambda c: sessions.find(c, session_id, principal.id))
        if row is None:
            raise NotFound("there is no such session")
        return row
