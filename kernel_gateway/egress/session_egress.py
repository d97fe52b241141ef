"""One session's way out: takes connections from its sandbox and has a proxy serve each, until the session ends.

The sockets are Unix sockets that only the sandbox's guest reaches: `http` is served by the HTTP proxy, `s3` by the
signing proxy of the execution role. Both share one budget and one record.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Protocol

from kernel_gateway.egress.budget import Budget, EgressLimits, EgressUsage
from kernel_gateway.egress.decision import Party, Record
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.resolver import Resolve, system_resolve
from kernels.environment import ExecutionRole, NetworkPolicy


class Proxy(Protocol):
    """Serves connections of one session; it belongs to that session."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end; the caller counts it as open and closes the writer.

        The proxy asks the budget for each request (also for more connections than there may be: those get their
        refusal as an answer) and counts bytes before it moves them. Cancelled, it leaves at once.
        """


class S3Backends(Protocol):
    """Makes the signing proxy of a session: `kernel_gateway.egress.s3` has the real one. Holds the credentials."""

    async def proxy(self, party: Party, role: ExecutionRole, budget: Budget, record: Record) -> Proxy:
        """The proxy of one session; raises when the role cannot be served (no credentials, no such profile)."""


class SessionEgress:
    """One session's way out."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    @classmethod
    async def open(
        cls,
        party: Party,
        network: NetworkPolicy,
        role: ExecutionRole | None,
        sockets: Mapping[str, socket.socket],
        *,
        limits: EgressLimits,
        operator: OperatorRules,
        record: Record,
        resolve: Resolve = system_resolve,
        signer: S3Backends | None = None,
        used: EgressUsage | None = None,
    ) -> SessionEgress:
        """Accept on the listening, non-blocking `sockets` ("http", "s3"), which belong to this object from now on.

        Missing sockets are ways that are not offered. `used` is what the session used before, in another sandbox.
        """
        return cls(Budget(limits, used))

    @property
    def usage(self) -> EgressUsage:
        """What the session has used so far."""
        return self._budget.usage

    async def aclose(self) -> None:
        """End every connection at once, close the sockets; calling it again does nothing."""
