"""The sessions that one conversation works in, by name; the default one starts at the first use."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from sandcell.errors import Conflict, InvalidRequest, NotFound, SandcellError
from sandcell.models.sessions import ForkPoint, Session, StartSession
from sandcell.tools.backends.protocol import Backend
from sandcell.tools.definitions import DEFAULT_SESSION

MOST_SESSIONS: Final = 20
"""Sessions that one conversation has at once."""
ENDED: Final = "session_terminated"


class NamedSessions:
    """Names and the sessions that they stand for. Those started here are stopped by `close`, others only on request.

    `start` is what sessions are started with; `joined` a session that is there already, as the default one.
    """

    def __init__(self, backend: Backend, start: StartSession, joined: str | None = None) -> None:
        self._backend = backend
        self._start = start
        self._live: dict[str, Session] = {}
        self._own: set[str] = set()
        self._joined = joined
        self._starting = asyncio.Lock()

    @property
    def live(self) -> dict[str, Session]:
        """The sessions by name, as they were when they were started or joined."""
        return dict(self._live)

    async def find(self, name: str) -> Session:
        """The session of a name or an id; the default one is started now if it is not there yet."""
        if name in self._live:
            return self._live[name]
        async with self._starting:
            if name in self._live:  # another call was quicker
                return self._live[name]
            if name == DEFAULT_SESSION:
                return await self._find_default()
            return await self._join(name)

    async def _find_default(self) -> Session:
        if self._joined is None:
            return await self._begin(DEFAULT_SESSION, self._start)
        self._live[DEFAULT_SESSION] = await self._backend.get_session(self._joined)
        return self._live[DEFAULT_SESSION]

    async def _join(self, name: str) -> Session:
        """One that was started elsewhere, by its id."""
        for session in self._live.values():
            if session.id == name:
                return session
        if not _is_id(name):
            known = ", ".join(sorted(self._live)) or "none yet"
            raise NotFound(f"there is no session {name!r} here (there are: {known}); start_session makes one")
        self._require_room()
        self._live[name] = session = await self._backend.get_session(name)
        return session

    async def start(
        self, name: str, environment: str | None, workspace_id: str | None, fork_of: Session | None = None
    ) -> Session:
        """A new session under a name, blank or as another is now; raises Conflict when there is one."""
        async with self._starting:
            if name in self._live:
                raise Conflict(f"there is a session {name!r} already: use it, or stop it first", code="session_exists")
            self._require_room()
            request = StartSession(
                environment=environment or (self._start.environment if fork_of is None else None),
                name=self._start.name,
                workspace_id=workspace_id,
                idle_timeout_seconds=self._start.idle_timeout_seconds,
                labels=self._start.labels,
                from_=None if fork_of is None else ForkPoint(fork_of.id),
            )
            return await self._begin(name, request)

    async def _begin(self, name: str, request: StartSession) -> Session:
        session = await self._backend.start_session(request)
        self._own.add(session.id)
        self._live[name] = session
        return session

    async def replace(self, name: str, ended: Session) -> Session:
        """A session that goes on with the files of one that has ended; raises what says so when it is not ours."""
        async with self._starting:
            if name in self._live and self._live[name].id != ended.id:
                return self._live[name]
            self._live.pop(name, None)
            if ended.id not in self._own:
                raise Conflict("the session has ended; start_session starts another", code=ENDED)
            self._own.discard(ended.id)
            start = StartSession(
                environment=ended.environment,
                name=ended.name,
                workspace_id=ended.workspace_id,
                idle_timeout_seconds=self._start.idle_timeout_seconds,
                labels=self._start.labels,
            )
            return await self._begin(name, start)

    async def stop(self, name: str) -> Session:
        """Stop a session, also one that was started elsewhere."""
        session = await self.find(name) if name != DEFAULT_SESSION or name in self._live or self._joined else None
        if session is None:
            raise NotFound("the default session has not been started yet")
        stopped = await self._backend.stop_session(session.id)
        self._forget(session)
        return stopped

    def _forget(self, session: Session) -> None:
        self._own.discard(session.id)
        self._live = {name: each for name, each in self._live.items() if each.id != session.id}

    def _require_room(self) -> None:
        if len(self._live) >= MOST_SESSIONS:
            raise InvalidRequest(f"there are {MOST_SESSIONS} sessions already: stop one first", code="limit_reached")

    async def close(self) -> None:
        """Stop the sessions that were started here; what cannot be stopped ends by its own idle timeout."""
        async with self._starting:
            own, self._own = self._own, set()
            self._live.clear()
            await asyncio.gather(*(self._stop_quietly(each) for each in own))

    async def _stop_quietly(self, session_id: str) -> None:
        try:
            await self._backend.stop_session(session_id)
        except SandcellError:
            return


def _is_id(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False
