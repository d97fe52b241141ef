"""Contexts of a live session besides its default one: names of their own in the session's one Python kernel.

They share the session's files, processes, queue and imported modules. What there is of them is kept with the session; a
kernel that is replaced knows none of their names any more.
"""

from __future__ import annotations

import contextlib
import uuid

import msgspec

from kernel_gateway.errors import GatewayError, LimitReached, NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.sessions.events import write_record
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import StoredContext, Surroundings
from kernels.execution.contexts import RunContext
from kernels.languages import PYTHON

MOST_CONTEXTS = 32
"""Of one session."""
RETRY_SECONDS = 60.0


class Contexts:
    """The verbs on contexts; another principal's session is not found."""

    def __init__(self, database: Database, registry: Registry, sessions: Sessions) -> None:
        self._database = database
        self._registry = registry
        self._sessions = sessions

    async def create(self, principal: Principal, session_id: str, language: str, directory: str) -> StoredContext:
        """A context for code in this language, which begins in that directory; raises LimitReached."""
        live = await self._registry.require(principal, session_id)
        kept = _surroundings(live)
        if len(kept.contexts) >= MOST_CONTEXTS:
            raise LimitReached(
                f"a session has at most {MOST_CONTEXTS} contexts: remove one", retry_after_seconds=RETRY_SECONDS
            )
        context = StoredContext(str(uuid.uuid4()), language, directory)
        await self._keep(live, (*kept.contexts, context))
        return context

    async def list(self, principal: Principal, session_id: str) -> list[StoredContext]:
        """Those that were created and not removed."""
        return list(_surroundings(await self._registry.require(principal, session_id)).contexts)

    async def find(
        self, principal: Principal, session_id: str, context_id: str | None, variables: dict[str, str]
    ) -> tuple[str, RunContext]:
        """Language and place of a context, None being the default one, with further variables; raises NotFound."""
        live = await self._registry.require(principal, session_id)
        kept = _surroundings(live)
        everything = {**kept.variables, **variables}
        if context_id is None:
            return "python", RunContext("", kept.directory, everything)
        found = _find(kept, context_id)
        name = found.id if found.language == "python" else ""
        return found.language, RunContext(name, found.directory, everything)

    async def remove(self, principal: Principal, session_id: str, context_id: str) -> None:
        """Let go of a context and its names; what runs in it is interrupted, and what waits is refused."""
        live = await self._registry.require(principal, session_id)
        found = _find(_surroundings(live), context_id)
        await self._keep(live, tuple(each for each in _surroundings(live).contexts if each.id != context_id))
        await self._blank(principal, live, found)

    async def restart(self, principal: Principal, session_id: str, context_id: str) -> None:
        """Blank names for a context, and an end of what runs in it; other contexts keep theirs."""
        live = await self._registry.require(principal, session_id)
        await self._blank(principal, live, _find(_surroundings(live), context_id))

    async def _blank(self, principal: Principal, live: LiveSession, context: StoredContext) -> None:
        if context.language == PYTHON:
            live.worker.forget_context(context.id)  # before the wait: what runs next has blank names
        running = live.running
        if running is not None and running.context is not None and running.context.name == context.id:
            await self._sessions.interrupt(principal, live.id)
            with contextlib.suppress(GatewayError):
                await running.wait()

    async def _keep(self, live: LiveSession, contexts: tuple[StoredContext, ...]) -> None:
        """What was answered is stored; where it cannot be, all is as before and the database's error is raised."""
        before = live.surroundings
        kept = live.surroundings = msgspec.structs.replace(_surroundings(live), contexts=contexts)
        try:
            await write_record(self._database, live)
        except BaseException:
            if live.surroundings is kept:  # else another call's are there, which are stored by it
                live.surroundings = before
            raise


def _surroundings(live: LiveSession) -> Surroundings:
    return live.surroundings or Surroundings()


def _find(kept: Surroundings, context_id: str) -> StoredContext:
    found = next((each for each in kept.contexts if each.id == context_id), None)
    if found is None:
        raise NotFound(f"Context {context_id} not found")
    return found
