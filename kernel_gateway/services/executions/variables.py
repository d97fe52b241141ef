"""The names that a session's code has defined, looked at while anything runs in it, without running any of its code."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from kernel_gateway.errors import SandboxUnavailable, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import cancel_all
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernels.execution import variables
from sandcell.models.inspection import Variable, Variables

CLOSE_SECONDS = 10.0


class Inspection:
    """Looking is no activity that keeps a session from idling. Who asks while a look is under way gets its answer."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._looks: dict[str, asyncio.Task[Variables]] = {}

    async def variables(self, principal: Principal, session_id: str) -> Variables:
        """The variables of the session's Python kernel."""
        live = await self._registry.require(principal, session_id)
        look = self._looks.get(session_id)
        if look is None:
            look = self._looks[session_id] = asyncio.create_task(self._look(live), name=f"variables of {session_id}")
            look.add_done_callback(partial(self._forget, session_id))
        return await asyncio.shield(look)

    async def aclose(self) -> None:
        """Give up the looks that are under way."""
        await cancel_all(self._looks.values(), CLOSE_SECONDS)

    def _forget(self, session_id: str, look: asyncio.Task[Variables]) -> None:
        del self._looks[session_id]
        if not look.cancelled():
            look.exception()  # there may be no caller left to hear of it

    async def _look(self, live: LiveSession) -> Variables:
        with translated():
            kernel = await live.sandbox.ready()
            await kernel.ready()
            hub, generation = kernel.hub, kernel.generation
            if hub is None:
                raise SandboxUnavailable("the kernel has just ended: try again")
            found = await variables.ask(hub)
        told = [Variable(**msgspec.structs.asdict(each)) for each in found.variables]
        return Variables(generation, told, found.omitted)
