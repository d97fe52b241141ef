"""HTTP over a socket that is dialled: what lets httpx talk to a guest which only the runtime can reach."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpcore
import httpx

from kernels.errors import SandboxFailed
from kernels.wire.dialing import GUEST, Dial

MOST_CONNECTIONS = 80
"""To one guest: one for each of the 32 programs, 16 commands and 16 watches that it has at most, which hold theirs
until they end, and 16 for all else. With httpcore's ten a few waiting commands would keep everything else of the
session waiting."""
MOST_IDLE = 10
"""Of these, such as stay open for the next call."""


class GuestTransport(httpx.AsyncBaseTransport):
    """Every connection goes to the guest, whatever the URL says. `connected` is used up before another is dialled."""

    def __init__(self, dial: Dial) -> None:
        self._backend = _Dialled(dial)
        self._pool = self._make_pool()
        self._former: list[httpcore.AsyncConnectionPool] = []

    def _make_pool(self) -> httpcore.AsyncConnectionPool:
        return httpcore.AsyncConnectionPool(
            max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE, network_backend=self._backend
        )

    def take(self, connected: socket.socket) -> None:
        """Use this connection for the next request that needs one."""
        self._backend.connected.append(connected)

    def forget(self) -> None:
        """Begin with new connections; those that are idle are closed at the next request."""
        self._former.append(self._pool)
        self._pool = self._make_pool()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; httpcore's errors become `httpx.TransportError`."""
        await self._close_former()
        url = request.url
        sent = httpcore.Request(
            request.method,
            httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        with _translated():
            answer = await self._pool.handle_async_request(sent)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        for one in self._backend.connected:
            one.close()
        self._backend.connected.clear()
        await self._close_former()
        await self._pool.aclose()

    async def _close_former(self) -> None:
        while self._former:
            await self._former.pop().aclose()


class _Dialled(httpcore.AsyncNetworkBackend):
    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self.connected: list[socket.socket] = []

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        try:
            client = self.connected.pop() if self.connected else await self._dial(GUEST)
        except SandboxFailed as error:
            raise httpcore.ConnectError(str(error)) from error
        try:
            return _Stream(*await asyncio.open_connection(sock=client))
        except BaseException:
            client.close()
            raise


class _Stream(httpcore.AsyncNetworkStream):
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return await self._reader.read(max_bytes)
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # The sandbox may be given up between two pieces of a body: asyncio's transport, closed while it still had bytes
        # to send and then done with them, fails with an AttributeError at the next.
        if self._writer.is_closing():
            raise httpcore.WriteError("the connection was closed under the call")
        try:
            self._writer.write(buffer)
            await self._writer.drain()
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        self._writer.close()

    def get_extra_info(self, info: str) -> Any:
        """httpcore asks whether an idle connection has something to read: its end, for one."""
        return self._reader.at_eof() if info == "is_readable" else None


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _translated():
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


class _translated:  # noqa: N801 - used like a function
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpcore.NetworkError | httpcore.ProtocolError | httpcore.TimeoutException):
            raise httpx.TransportError(str(error) or type(error).__name__) from error
