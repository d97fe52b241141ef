"""One session's way out: takes connections from its sandbox and has a proxy serve each, until the session ends.

The sockets are Unix sockets that only the sandbox's guest reaches: `http` is served by the HTTP proxy, `s3` by the
signing proxy of the execution role, `packages` by that of the package index. They share one budget and one record.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from kernel_gateway.egress.budget import Budget, EgressLimits, EgressUsage
from kernel_gateway.egress.decision import Party, Record
from kernel_gateway.egress.packages.proxy import PackageIndexes
from kernel_gateway.egress.policy import OperatorRules
from kernel_gateway.egress.proxy import HttpProxy
from kernel_gateway.egress.resolver import Resolve, system_resolve
from kernel_gateway.egress.stream import PIECE_BYTES, Stream
from kernels.environment import ExecutionRole, NetworkPolicy, PackageIndex

MOST_REFUSED_AT_ONCE: Final = 8
"""Connections above the limit that are taken all the same, to tell them so; further ones wait."""
_PAUSE_SECONDS: Final = 0.2

Serve = Callable[[socket.socket], Awaitable[None]]


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
    """One session's way out: a task per socket that accepts, and one per connection."""

    def __init__(self, http: HttpProxy, others: Mapping[str, Proxy], budget: Budget) -> None:
        self._http = http
        self._ways: dict[str, Serve] = {"http": self._serve_http}
        for name, proxy in others.items():
            self._ways[name] = functools.partial(_serve_streams, proxy)
        self._budget = budget
        self._room = asyncio.Semaphore(budget.limits.connections + MOST_REFUSED_AT_ONCE)
        self._accepting: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()

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
        index: PackageIndex | None = None,
        indexes: PackageIndexes | None = None,
    ) -> SessionEgress:
        """Accept on the listening, non-blocking `sockets` (`http`, `s3`, `packages`), which are this object's from now.

        Missing sockets are ways that are not offered. `used` is what the session used before, in another sandbox.
        Raises what the signer raises, and has closed the sockets then.
        """
        budget = Budget(limits, used)
        with contextlib.ExitStack() as undo:
            for listener in sockets.values():
                undo.enter_context(listener)
            others: dict[str, Proxy] = {}
            if role and signer:
                others["s3"] = await signer.proxy(party, role, budget, record)
            if index and indexes:
                others["packages"] = indexes.proxy(party, index, budget, record)
            undo.pop_all()
        http = HttpProxy(party, network, budget, operator=operator, resolve=resolve, record=record)
        egress = cls(http, others, budget)
        egress._start(sockets)
        return egress

    @property
    def usage(self) -> EgressUsage:
        """What the session has used so far."""
        return self._budget.usage

    async def aclose(self) -> None:
        """End every connection at once, close the sockets; calling it again does nothing."""
        for task in (under_way := [*self._accepting, *self._serving]):
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._http.aclose()

    def _start(self, sockets: Mapping[str, socket.socket]) -> None:
        for name, listener in sockets.items():
            if name not in self._ways:
                listener.close()
                continue
            accepting = asyncio.create_task(self._accept(listener, self._ways[name]))
            accepting.add_done_callback(functools.partial(_close, listener))
            self._accepting.add(accepting)

    async def _accept(self, listener: socket.socket, serve: Serve) -> None:
        """Take connections while there is room; when descriptors run out, wait for some to be closed."""
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:
                self._room.release()
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._begin(connection, serve)

    def _begin(self, connection: socket.socket, serve: Serve) -> None:
        serving = asyncio.create_task(self._serve(connection, serve))
        self._serving.add(serving)
        self._budget.open()

        def over(_: object) -> None:
            self._serving.discard(serving)
            self._budget.close()
            self._room.release()
            connection.close()

        serving.add_done_callback(over)

    async def _serve(self, connection: socket.socket, serve: Serve) -> None:
        with contextlib.suppress(OSError):
            await serve(connection)

    async def _serve_http(self, connection: socket.socket) -> None:
        await self._http.serve(Stream(connection))


def _close(listener: socket.socket, _: object) -> None:
    listener.close()


async def _serve_streams(proxy: Proxy, connection: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=connection, limit=PIECE_BYTES)
    try:
        await proxy.serve(reader, writer)
    finally:
        writer.transport.abort()
