"""Connections before a face sees a request: how many there are, and how long and large the head of a request may be.

Tornado has one timeout for a head, for a connection that rests between requests, and for one that has said nothing
yet; it closes without a word when a head is too large, refuses what is malformed without a body, and counts no
connections. So `Server` puts a `Head` before each connection, which reads the heads of its requests. Bodies are
`faces.receiving`'s affair.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import sys
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final

import structlog
from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPInputError
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import Application

from kernel_gateway.errors import GatewayError, InvalidRequest
from kernel_gateway.faces.errors import HeadTooLarge, HeadTooSlow, TooManyConnections
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.settings import Settings

MOST_HEAD_BYTES: Final = 64 * 1024
_MOST_UNREAD_BYTES: Final = 256 * 1024
"""What comes before a head is found to have ended may be a part of the body: tornado looks for the end when what it has
has doubled, and reads as much again at a time."""
_TORNADOS_BYTES: Final = 512 * 1024
"""Never reached: tornado would close the connection without a word."""
_LINGER_SECONDS: Final = 5.0
"""How long what a refused client still sends is thrown away, so that it gets to see the answer."""
_SAID_AGAIN_SECONDS: Final = 60.0
_MOST_REASON_CHARACTERS: Final = 200
"""Of tornado's words for what is malformed, which may repeat a header."""
log = structlog.get_logger(__name__)


class Server(HTTPServer):
    """Tornado's server with bounds on connections."""

    def initialize(self, application: Application, settings: Settings, **more: Any) -> None:  # type: ignore[override]
        """Called by tornado with what the server is made with; the rest are its own arguments."""
        # Each route bounds its own body, before reading it; this only keeps tornado from refusing earlier.
        super().initialize(application, max_header_size=_TORNADOS_BYTES, max_body_size=2**53, **more)
        self.conn_params.header_timeout = None  # `Head` keeps the time
        self._settings = settings
        self._open: Counter[str] = Counter()
        self._said = 0.0

    def handle_stream(self, stream: IOStream, address: Any) -> None:
        """Called by tornado with each new connection."""
        source = find_network(address[0]) if isinstance(address, tuple) else ""
        most, most_each = self._settings.connections, self._settings.connections_per_address
        if self._open.total() >= most or self._open[source] >= most_each:
            self._turn_away(stream, source)
            return
        self._open[source] += 1
        Head(stream, self._settings, lambda: self._note_closed(source))
        super().handle_stream(stream, address)

    def _turn_away(self, stream: IOStream, source: str) -> None:
        """Say why, if that goes out at once: nothing is kept for a connection that is one too many."""
        _say(stream.write, TooManyConnections("too many connections are open: close some, or try again later"))
        stream.close()
        now = asyncio.get_running_loop().time()
        if now - self._said > _SAID_AGAIN_SECONDS or not self._said:
            self._said = now
            log.warning("connections_refused", address=source, open=self._open.total(), of_it=self._open[source])

    def _note_closed(self, source: str) -> None:
        self._open[source] -= 1
        if not self._open[source]:
            del self._open[source]


class Head:
    """Reads the heads of one connection's requests, in bounded time and memory; calls `closed` at its end.

    It stands in for five methods of the stream: what tornado reads a head with, what it writes with, how soon that goes
    out, and the two that a stream has for what is below it. So it works for a connection under TLS too, and after
    tornado has given it to a WebSocket.
    """

    def __init__(self, stream: IOStream, settings: Settings, closed: Callable[[], None]) -> None:
        self._stream = stream
        self._settings = settings
        self._deadline: asyncio.Timeout | None = None
        self._received = 0
        self._served = False
        self._discarding = False
        self._answering = False
        read_head, receive, close = stream.read_until_regex, stream.read_from_fd, stream.close_fd
        self._read_head, self._receive, self._write = read_head, receive, stream.write
        stream.read_until_regex = self.read  # type: ignore[method-assign]
        stream.write = self.write  # type: ignore[method-assign]
        stream.read_from_fd = self.receive  # type: ignore[method-assign]
        # Once, and not off and on again around each answer, as tornado does: what is written is meant to go out.
        stream.set_nodelay(True)
        stream.set_nodelay = _leave_nodelay  # type: ignore[method-assign]

        def close_fd() -> None:
            close()
            closed()

        # Of all ways in which a stream ends this alone is on each, and is called once: connections are counted by it.
        stream.close_fd = close_fd  # type: ignore[method-assign]

    def receive(self, buf: bytearray | memoryview) -> int | None:
        """Called by the stream for what has come: the number of bytes, 0 at the end, None when there is nothing."""
        size = self._receive(buf)
        if size and self._deadline is not None and not self._discarding:
            self._count(size, self._deadline)
        # "Nothing there" for what is thrown away, so that the stream keeps none of it; the end of it is still told.
        return None if size and self._discarding else size

    def _count(self, size: int, deadline: asyncio.Timeout) -> None:
        """From its first byte on a head has its own time, and its bound."""
        loop = asyncio.get_running_loop()
        if not self._received:
            deadline.reschedule(loop.time() + self._settings.head_seconds)
        self._received += size
        if self._received > _MOST_UNREAD_BYTES:
            self._discarding = True
            loop.call_soon(self._say, _too_large())  # not now: the stream is in the middle of reading
            deadline.reschedule(loop.time() + _LINGER_SECONDS)

    async def read(self, regex: bytes, max_bytes: int | None = None) -> bytes:
        """Called by tornado for each head, the first time as soon as the connection is there."""
        self._received = 0
        self._answering = False
        seconds = self._settings.keep_alive_seconds if self._served else self._settings.head_seconds
        try:
            async with asyncio.timeout(seconds) as self._deadline:
                head = await self._read_head(regex, max_bytes)
        except TimeoutError:
            if self._received and not self._discarding:
                self._say(HeadTooSlow("the head of the request did not arrive in time"))
            self._stream.close()
            raise StreamClosedError from None
        finally:
            self._deadline = None
        self._served = True
        if len(head) > MOST_HEAD_BYTES:
            await self._refuse(_too_large())
        return head

    def write(self, data: bytes | memoryview) -> asyncio.Future[None]:
        """Called by tornado for all that goes out."""
        malformed = sys.exc_info()[1]
        # Tornado has no hook for what it says itself of a malformed request, but it says it while it handles the error.
        if isinstance(malformed, HTTPInputError):
            reason = str(malformed).encode("ascii", "backslashreplace").decode()[:_MOST_REASON_CHARACTERS]
            # A face that has the request already finds it here when tornado says that the connection is over.
            self._stream.error = error = InvalidRequest(f"the request is malformed: {reason}")
            return asyncio.ensure_future(self._refuse(error))
        if self._discarding:
            data = b""  # the client has its answer
        elif data[:13] != b"HTTP/1.1 100 ":  # "go on and send the body" is no answer: a refusal may still follow it
            self._answering = True
        return self._write(data)

    async def _refuse(self, error: GatewayError) -> None:
        """Answer, let the client take the answer, close; raises StreamClosedError."""
        self._discarding = True
        if not self._answering:  # else this would be read as a part of that answer
            self._say(error)
        with contextlib.suppress(TimeoutError, StreamClosedError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._stream.read_until_close()
        self._stream.close()
        raise StreamClosedError

    def _say(self, error: GatewayError) -> None:
        _say(self._write, error)


def _leave_nodelay(value: bool) -> None:  # noqa: FBT001 - tornado's own
    """In place of a stream's method: it stays as it is."""


def find_refusal(stream: IOStream) -> GatewayError | None:
    """What was said of a request on this stream that turned out to be malformed after its face had taken it."""
    return stream.error if isinstance(stream.error, GatewayError) else None


def find_network(address: str) -> str:
    """What an address counts as: itself, or for IPv6 the network of 64 bits that one customer has at least."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))


def _too_large() -> HeadTooLarge:
    return HeadTooLarge(
        f"the head of the request is larger than {MOST_HEAD_BYTES:,} bytes", limit_bytes=MOST_HEAD_BYTES
    )


def _say(write: Callable[[bytes], asyncio.Future[None]], error: GatewayError) -> None:
    """Write an answer without a face, which no request has reached yet."""
    body = encode(error.body())
    head = (
        f"HTTP/1.1 {error.status} {HTTPStatus(error.status).phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    with contextlib.suppress(StreamClosedError):
        write(head.encode() + body).add_done_callback(_look)


def _look(written: asyncio.Future[None]) -> None:
    """The client may be gone before it has the answer."""
    if not written.cancelled():
        written.exception()
