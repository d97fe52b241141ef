"""How much one session may send, receive and ask for: the bounds, and the count that both its proxies share. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True)
class EgressLimits:
    """The bounds of one session. Sent is what leaves the sandbox, received what comes into it."""

    connections: int = 64
    """At once."""
    requests: int = 100_000
    """In all."""
    sent_bytes: int = 1_000_000_000
    received_bytes: int = 10_000_000_000
    header_bytes: int = 32 * 1024
    """Of one request's or answer's head."""
    header_seconds: float = 10
    """From a connection's start to the end of its request's head."""
    connect_seconds: float = 10
    """To resolve a name and to connect."""
    idle_seconds: float = 300
    """Without a byte in either direction."""


class EgressUsage(msgspec.Struct, frozen=True):
    """What a session has used of its limits."""

    connections_open: int = 0
    requests: int = 0
    refused: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class OverBudget(Exception):
    """The session has used up one of its limits. `word` names it, the message says how much it was."""

    def __init__(self, word: str, sentence: str) -> None:
        super().__init__(sentence)
        self.word = word


class Budget:
    """The count of one session. What serves a connection opens it, counts its bytes and closes it.

    It goes on from what was `used` before: a new sandbox, or a restart of the service, gives a session nothing back.
    """

    def __init__(self, limits: EgressLimits, used: EgressUsage | None = None) -> None:
        self.limits = limits
        used = used or EgressUsage()
        self._connections, self._requests, self._refused = 0, used.requests, used.refused
        self._sent, self._received = used.sent_bytes, used.received_bytes

    @property
    def usage(self) -> EgressUsage:
        return EgressUsage(self._connections, self._requests, self._refused, self._sent, self._received)

    def open(self) -> None:
        """Count a connection as open. One too many is not refused here but when it asks, so that it gets an answer."""
        self._connections += 1

    def close(self) -> None:
        """Count a connection as over."""
        self._connections -= 1

    def ask(self) -> None:
        """Count a request; raises `OverBudget` when the session has had all it gets, or too many connections."""
        limits = self.limits
        if self._requests >= limits.requests:
            raise OverBudget("requests", f"the session has made all of its {limits.requests} requests")
        self._requests += 1
        if self._connections > limits.connections:
            raise OverBudget("connections", f"more than {limits.connections} connections at once; try again")
        self.send(0)
        self.receive(0)

    def refuse(self) -> None:
        """Count a request that was refused."""
        self._refused += 1

    def send(self, size: int) -> None:
        """Count bytes before they leave the sandbox; raises `OverBudget` when so many may not any more."""
        if self._sent + max(size, 1) > self.limits.sent_bytes:
            raise OverBudget("sent_bytes", f"the session has sent the {self.limits.sent_bytes} bytes it may")
        self._sent += size

    def receive(self, size: int) -> None:
        """Count bytes before they enter the sandbox; raises `OverBudget` when so many may not any more."""
        if self._received + max(size, 1) > self.limits.received_bytes:
            limit = self.limits.received_bytes
            raise OverBudget("received_bytes", f"the session has received the {limit} bytes it may")
        self._received += size


class Meter:
    """The bytes of one connection, counted for it and in its session's budget."""

    def __init__(self, budget: Budget) -> None:
        self.limits = budget.limits
        self.sent_bytes = self.received_bytes = 0
        self._budget = budget

    def send(self, size: int) -> None:
        """Count bytes before they leave the sandbox; raises `OverBudget`."""
        self._budget.send(size)
        self.sent_bytes += size

    def receive(self, size: int) -> None:
        """Count bytes before they enter the sandbox; raises `OverBudget`."""
        self._budget.receive(size)
        self.received_bytes += size
