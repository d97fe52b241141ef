"""People's clients attached to live kernels: what they send, what they are sent, how that ends.

A *visitor* is who attaches, an *attachment* one connection of theirs, a *client session* the name under which a client
comes back and goes on where it was. Knows no HTTP and no framing: messages come in and go out as their JSON parts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from kernel_gateway.errors import NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.executions import Executions
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.registry import Registry
from kernel_gateway.services.sessions import Sessions
from kernels.message import Message

__all__ = ["Attachment", "Attachments", "Ended", "Incoming", "Outgoing", "Visitor"]


@dataclass(frozen=True)
class Visitor:
    """Who attaches: a principal, or the holder of an attach token of theirs (`attached`), who reaches one session."""

    principal: Principal
    author: str
    session_id: str | None = None
    can: frozenset[str] = frozenset()
    attached: bool = False


@dataclass(frozen=True)
class Incoming:
    """A client's message: JSON bytes as they were received."""

    channel: str
    header: bytes
    parent_header: bytes
    metadata: bytes
    content: bytes
    buffers: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Outgoing:
    """A message for a client. One object however many clients get it; `sequence` rises within a session."""

    sequence: int
    channel: str
    message: Message


@dataclass(frozen=True)
class Ended:
    """Why an attachment ended: `reason` is slow, replaced, dead, draining or session_ended."""

    reason: str
    detail: str = ""


@dataclass
class Attachment:
    """One connection of a client's to a session. Close it with `aclose`, whatever happened."""

    client_session: str
    ended: Ended | None = field(default=None)

    async def send(self, message: Incoming) -> None:
        """Take a message of the client's; returns when the next one may come. Raises GatewayError: it was refused."""
        raise NotImplementedError

    def follow(self) -> AsyncIterator[Outgoing]:
        """What comes after the last message that was delivered; ends when `ended` is set.

        A message counts as delivered when the next one is asked for.
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        """The client has gone; it may come back under the same client session."""


class Attachments:
    """Opens attachments and knows who is attached."""

    def __init__(self, parts: Parts, registry: Registry, executions: Executions, sessions: Sessions) -> None:
        self._parts = parts
        self._registry = registry
        self._executions = executions
        self._sessions = sessions

    async def open(self, visitor: Visitor, session_id: str, client_session: str) -> Attachment:
        """Attach to a session; an older attachment of the same client session ends as `replaced`.

        Raises NotFound (also outside the visitor's reach), SessionTerminated, LimitReached, ShuttingDown.
        """
        if visitor.session_id not in (None, session_id):
            raise NotFound("there is no such session")
        await self._registry.require(visitor.principal, session_id)
        return Attachment(client_session)

    def connections(self, session_id: str) -> int:
        """How many clients are attached now."""
        return 0

    def execution_state(self, session_id: str) -> str:
        """The kernel's state as clients see it: starting, idle, busy, restarting or dead."""
        return "idle"
