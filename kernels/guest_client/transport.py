"""HTTP over a socket that is dialled: how a guest is called which only the runtime can reach.

What is kept for a guest that nobody calls is one connection, on which its events come: there may be a thousand.
"""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpcore

from kernels.cancelling import cancel_all
from kernels.errors import SandboxFailed
from kernels.wire.dialing import GUEST, Dial

if importlib.util.find_spec("sniffio") is None:
    # httpcore imports it several times for each request. Said here, the answer is known without a search on the disk.
    sys.modules["sniffio"] = None  # type: ignore[assignment]

MOST_CONNECTIONS = 80
"""To one guest: one for each of the 32 programs, 16 commands and 16 watches that it has at most, which hold theirs
until they end, and 16 for all else. With httpcore's ten a few waiting commands would keep everything else of the
session waiting."""
MOST_IDLE = 10
"""Of these, such as stay open for the next call."""
IDLE_SECONDS = 10.0
"""How long they do so when no call is under way."""
Content = bytes | AsyncIterator[bytes] | None


class CutOff(Exception):
    """No connection could be made, or it broke before all had been said."""


class Answer:
    """What the guest answers: its status, its headers in lower case, then its body; to be closed."""

    def __init__(self, answer: httpcore.Response, end: Callable[[], Any]) -> None:
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.headers}
        self._stream: Any = answer.stream
        self._end: Callable[[], Any] | None = end

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes; raises `CutOff`."""
        with _translated():
            async for piece in self._stream:
                yield piece

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            end, self._end = self._end, None
            if end is not None:
                end()


class GuestTransport:
    """Connections to one guest, for one call each at a time. `take` has a connection used before another is dialled."""

    def __init__(self, dial: Dial, sending_bytes: int = 0) -> None:
        """With `sending_bytes` a connection takes so much before the guest has read it, as far as the host allows."""
        self.closed = False
        self._backend = _Dialled(dial, sending_bytes)
        self._pool: httpcore.AsyncConnectionPool | None = None
        self._former: list[httpcore.AsyncConnectionPool] = []
        self._calls = 0
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    def take(self, connected: socket.socket) -> None:
        """Use this connection for the next request that needs one."""
        self._backend.connected.append(connected)

    def forget(self) -> None:
        """Begin with new connections; those that are idle are closed at the next request."""
        if self._pool is not None:
            self._former.append(self._pool)
            self._pool = None

    async def call(self, method: str, path: str, content: Content = None, *, lasting: bool = False) -> Answer:
        """Send a request; raises `CutOff`. A `lasting` answer goes on for as long as the guest is followed."""
        await self._close_former()
        self._stop_idling()
        pool = self._pool = self._pool or httpcore.AsyncConnectionPool(
            max_connections=MOST_CONNECTIONS, max_keepalive_connections=MOST_IDLE, network_backend=self._backend
        )
        if lasting and not self._calls:
            self._pool = None  # its connection is not closed with those that are idle
        else:
            lasting = False
        self._calls += not lasting
        try:
            with _translated():
                answer = await pool.handle_async_request(_build_request(method, path, content))
        except BaseException:
            self._end(pool, lasting=lasting)
            raise
        return Answer(answer, lambda: self._end(pool, lasting=lasting))

    async def aclose(self) -> None:
        self.closed = True
        for one in self._backend.connected:
            one.close()
        self._backend.connected.clear()
        self._let_go()
        await cancel_all([self._closing])
        await self._close_former()

    def _end(self, pool: httpcore.AsyncConnectionPool, *, lasting: bool) -> None:
        """A call is over: what is left open without any is closed, in a while."""
        if lasting:
            self._former.append(pool)
        else:
            self._calls -= 1
        if not self._calls and not self.closed:
            self._stop_idling()
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._let_go)

    def _stop_idling(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _let_go(self) -> None:
        self._stop_idling()
        if self._calls and not self.closed:  # one began meanwhile: its end has a while of its own
            return
        self.forget()
        if not self.closed:
            self._closing = asyncio.create_task(self._close_former())

    async def _close_former(self) -> None:
        while self._former:
            await self._former.pop().aclose()


def _build_request(method: str, path: str, content: Content) -> httpcore.Request:
    headers = [("Host", "guest")]
    if isinstance(content, bytes):
        headers.append(("Content-Length", str(len(content))))
    elif content is not None:
        headers.append(("Transfer-Encoding", "chunked"))
    elif method in ("POST", "PUT"):
        headers.append(("Content-Length", "0"))
    url = httpcore.URL(scheme=b"http", host=b"guest", port=None, target=path.encode("ascii"))
    return httpcore.Request(method, url, headers=headers, content=content)


class _Dialled(httpcore.AsyncNetworkBackend):
    def __init__(self, dial: Dial, sending_bytes: int) -> None:
        self._dial = dial
        self._sending_bytes = sending_bytes
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
            if self._sending_bytes:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._sending_bytes)
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


class _translated:  # noqa: N801 - used like a function
    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, httpcore.NetworkError | httpcore.ProtocolError | httpcore.TimeoutException):
            raise CutOff(str(error) or type(error).__name__) from error
