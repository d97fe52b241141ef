"""What an endpoint gets: one admitted request, free of tornado, and what all requests of this face share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from kernel_gateway.errors import QueueFull
from kernel_gateway.faces.agent_engine.names import Place
from kernel_gateway.faces.agent_engine.resources import Resources
from kernel_gateway.identity.principal import ANONYMOUS, Caller, Principal

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

ENVIRONMENTS: Final = ("data", "python")
"""What sandboxes are made from where no setting says it: the first that is built."""


class Turns:
    """The executions of one sandbox, one after the other, each with its files; no more than `most` wait."""

    def __init__(self, most: int) -> None:
        self._lock = asyncio.Lock()
        self._most = most
        self._waiting = 0

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for one's own, and have it; raises QueueFull."""
        if self._lock.locked() and self._waiting >= self._most:
            raise QueueFull(f"{self._most} executions wait for this sandbox already", retry_after_seconds=1.0)
        self._waiting += 1
        try:
            await self._lock.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._lock.release()


class Face:
    """What all requests of this face share."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self.resources = Resources(services.database, services.clock)
        self._turns: WeakValueDictionary[str, Turns] = WeakValueDictionary()

    def turns(self, session_id: str) -> Turns:
        """Those of one sandbox, as long as anybody holds them."""
        return self._turns.setdefault(session_id, Turns(self.services.settings.queue_length))

    @property
    def environment(self) -> str:
        """The environment that a new sandbox is made from."""
        chosen = self.services.settings.agent_engine_environment
        names = (chosen,) if chosen else ENVIRONMENTS
        return next(filter(self.services.environments.has_host, names), names[-1])


@dataclass
class Call:
    """One admitted request. `ids` are the address's parameters, `place` its project and location; `body` is typed.

    `session_id` is set by the endpoint that knows it: the audit log names it. With `token` the caller has shown who it
    is: what is at other gateways is asked for with it. `forget_body` releases the memory of a
    body that is not needed any more.
    """

    face: Face
    caller: Caller = field(default_factory=lambda: Caller(ANONYMOUS, "read", ""))
    ids: Mapping[str, str] = field(default_factory=dict)
    place: Place = field(default_factory=lambda: Place("", ""))
    query: Any = None
    body: Any = None
    session_id: str | None = None
    token: str = ""
    forget_body: Callable[[], None] = lambda: None

    @property
    def services(self) -> Services:
        return self.face.services

    @property
    def principal(self) -> Principal:
        return self.caller.principal
