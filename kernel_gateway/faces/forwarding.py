"""Requests for what is at another gateway, passed on to it as they came: bodies, streams and sockets, both ways.

What a request is for (`named`) is read before any face has it, and looked up in the database; the address of the
gateway is what that has said of itself, never a client's word. The caller's own credentials go along, so the other
gateway decides as if it had been asked itself. A request is passed on once: who gets one that is marked and does not
have its session says so.

The connection is given away with it: bytes go to and fro until the other gateway closes its side, which it does after
one answer, or a client is gone. Deadlines of requests and answers are those of the gateway that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import structlog
from tornado.httputil import HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest, RequestStartLine, ResponseStartLine
from tornado.iostream import IOStream, StreamClosedError
from tornado.tcpclient import TCPClient

from kernel_gateway.client_address import MARK, make_marked_headers
from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.named import Named, find_in_body, find_named, is_chunked, may_name
from kernel_gateway.faces.receiving import read_length
from kernel_gateway.faces.signs import Signs
from kernel_gateway.storage.states.gateways import Home

if TYPE_CHECKING:
    from kernel_gateway.services.gateways import Gateways

log = structlog.get_logger(__name__)
PIECE_BYTES: Final = 64 * 1024
MOST_LOOKUPS: Final = 64
"""Requests at once whose place is being looked up, before it is known who asks."""
LOOKUP_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 2.0
BODY_SECONDS: Final = 20.0
"""How long a short body may take that is looked at."""
AGAIN_SECONDS: Final = 0.2
"""Between two looks at where something is whose gateway did not answer."""
STALL_SECONDS: Final = 60.0
"""How long either side may leave what it was sent unread."""
LONGEST_LINE_BYTES: Final = 4_096
"""Of those that say how long a piece of a body is."""
_CHUNK: Final = re.compile(rb"([0-9a-fA-F]{1,6})[;\r]")
_BROKEN: Final = re.compile(r"[\r\n\0]")


def make_head(request: HTTPServerRequest, gateway_id: str) -> bytes:
    """The head of the same request for the other gateway, which is to answer it and close."""
    last = "Upgrade" if request.headers.get("Upgrade", "").lower() == "websocket" else "close"
    headers = [*make_marked_headers(request, gateway_id), ("Connection", last)]
    lines = [f"{request.method} {request.uri} {request.version}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


class Forwards:
    """All that one gateway passes on; without other gateways nothing."""

    def __init__(self, gateways: Gateways, signs: Signs) -> None:
        self._gateways = gateways
        self._signs = signs
        self._client = TCPClient()
        self._lookups = asyncio.Semaphore(MOST_LOOKUPS)
        self._tls: ssl.SSLContext | None = None
        self._open: dict[str, set[IOStream]] = {}
        gateways.on_change(self._end_dead)

    def wrap(self, request: HTTPServerRequest, here: HTTPMessageDelegate | None) -> HTTPMessageDelegate | None:
        """What is to read this request: the face that it is for, or first what finds out where that is."""
        if here is None or self._gateways.lease is None or MARK in request.headers:
            return here
        if any(_BROKEN.search(value) for _, value in request.headers.get_all()):  # a token out of an address
            return here
        named = find_named(request.path, request.query, request.headers)
        if named is None:
            return _Undecided(self, request, None, here) if may_name(request) else here
        return here if self._is_here(named) else _Undecided(self, request, named, here)

    def _is_here(self, named: Named) -> bool:
        return named.kind == "session" and self._gateways.lives_here(named.name)

    async def find(self, named: Named, request: HTTPServerRequest) -> Home | None:
        if named.kind == "signature":  # has a bound of its own: a wrong one holds up no other request
            async with asyncio.timeout(LOOKUP_SECONDS):
                named = Named("session", await self._signs.find_signed(request))
        if not named.name:
            return None
        async with asyncio.timeout(LOOKUP_SECONDS), self._lookups:
            if named.kind == "conversation":
                named = Named("workspace", await self._signs.find_conversation(request, named.name))
            elif named.kind == "template":
                named = Named("session", await self._signs.find_snapshot(request, named.name))
            home = await self._gateways.find(named.kind, named.name) if named.name else None
        if home is None or not self._gateways.is_self(home):
            return home
        if home.live:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await self._gateways.wait_arrived(home)
        return None

    async def connect(self, named: Named, request: HTTPServerRequest) -> tuple[Home, IOStream] | None:
        """A connection to where it is; None once it is here, or at none, or cannot be had: then a face says so.

        While its gateway does not answer it may be taken over: nothing was sent yet, so the request waits for that.
        """
        lease = self._gateways.lease
        patience = 0.0 if lease is None else 2 * lease.place.lease_seconds + CONNECT_SECONDS
        give_up = asyncio.get_running_loop().time() + patience
        while True:
            try:
                home = await self.find(named, request)
                return None if home is None else (home, await self._dial(home.address))
            except (GatewayError, OSError, StreamClosedError, TimeoutError) as error:
                if asyncio.get_running_loop().time() > give_up:
                    name = "" if named.kind in {"signature", "conversation", "template"} else named.name
                    log.warning("gateway_not_reached", of=named.kind, name=name, error=str(error))
                    return None
            await asyncio.sleep(AGAIN_SECONDS)

    async def _dial(self, address: str) -> IOStream:
        parts = urlsplit(address)
        if parts.scheme == "https" and self._tls is None:
            self._tls = ssl.create_default_context()
        async with asyncio.timeout(CONNECT_SECONDS):
            stream = await self._client.connect(
                parts.hostname or "", parts.port or 0, ssl_options=self._tls if parts.scheme == "https" else None
            )
        stream.set_nodelay(True)
        # A host that is gone without a word is noticed within half a minute, whatever its lease says.
        for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
            stream.socket.setsockopt(socket.IPPROTO_TCP, option, value)
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return stream

    async def connect_by_body(self, request: HTTPServerRequest, body: bytes) -> tuple[Home, IOStream] | None:
        """The same by a body that has been read; what is here is asked of this gateway's own address.

        For such a body cannot be put back on its connection. None: not even that can be reached.
        """
        named = find_in_body(request.path, body)
        found = None if named is None or self._is_here(named) else await self.connect(named, request)
        lease = self._gateways.lease
        if found is not None or lease is None:
            return found
        own = Home(lease.place.gateway_id, lease.place.address, alive=True, live=True)
        try:
            return own, await self._dial(own.address)
        except (OSError, StreamClosedError, TimeoutError) as error:
            log.error("own_address_not_reached", address=own.address, error=str(error))
            return None

    async def pass_on(self, home: Home, client: IOStream, peer: IOStream, head: bytes) -> None:
        """To and fro until one side is over."""
        others = self._open.setdefault(home.gateway_id, set())
        others.add(peer)
        try:
            await _write(peer, head)
            asking = asyncio.create_task(_pump(client, peer))
            answering = asyncio.create_task(_pump(peer, client))
            # What is still being sent when the answer is over is thrown away by who answered, for as long as it likes.
            await asyncio.wait([asking, answering], return_when=asyncio.FIRST_COMPLETED)
            for each in (asking, answering):
                each.cancel()
            await asyncio.gather(asking, answering, return_exceptions=True)
        except (OSError, StreamClosedError, TimeoutError):
            pass  # the client sees that the connection is over
        finally:
            others.discard(peer)
            peer.close()
            client.close()

    def make_head(self, request: HTTPServerRequest) -> bytes:
        lease = self._gateways.lease
        return make_head(request, "" if lease is None else lease.place.gateway_id)

    def _end_dead(self, alive: frozenset[str]) -> None:
        """A gateway whose lease is over answers nothing any more, also where its connections still stand."""
        for gateway_id in [each for each in self._open if each not in alive]:
            for stream in list(self._open.pop(gateway_id)):
                stream.close()


class _Undecided(HTTPMessageDelegate):
    """A request until it is known where its answer comes from: a face, or elsewhere, with its connection."""

    def __init__(
        self, forwards: Forwards, request: HTTPServerRequest, named: Named | None, here: HTTPMessageDelegate
    ) -> None:
        self._forwards = forwards
        self._request = request
        self._named = named
        self._here = here
        self._decided = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None]:
        """Called by tornado, which reads no body until it has been awaited."""
        return self._decide(start_line, headers)

    async def _decide(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        connection: Any = self._request.connection
        body = b""
        if self._named is not None:
            found = await self._forwards.connect(self._named, self._request)
        else:
            body, content = await self._read(connection, headers)
            found = await self._forwards.connect_by_body(self._request, content) if body else None
            if found is None:
                connection.detach().close()
                return
        if found is None:
            self._decided = True
            answer = self._here.headers_received(start_line, headers)
            if answer is not None:
                await answer
            return
        home, peer = found
        if connection.stream is None or connection.stream.closed():
            peer.close()
            return
        head = self._forwards.make_head(self._request)
        await self._forwards.pass_on(home, connection.detach(), peer, head + body)

    async def _read(self, connection: Any, headers: HTTPHeaders) -> tuple[bytes, bytes]:
        """A body as it was sent, and what is in it; nothing when it does not come."""
        with contextlib.suppress(StreamClosedError, TimeoutError):
            async with asyncio.timeout(BODY_SECONDS):
                if is_chunked(headers):
                    return await _read_chunks(connection.stream)
                body = await connection.stream.read_bytes(read_length(headers.get("Content-Length", "")))
                return body, body
        return b"", b""

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._here.data_received(chunk) if self._decided else None

    def finish(self) -> None:
        if self._decided:
            self._here.finish()

    def on_connection_close(self) -> None:
        if self._decided:
            self._here.on_connection_close()


async def _read_chunks(stream: IOStream) -> tuple[bytes, bytes]:
    """A body that comes in pieces, to its end, or as much of it as is short and makes sense: the rest follows it."""
    sent, content = bytearray(), bytearray()
    while True:
        line = await stream.read_until(b"\r\n", LONGEST_LINE_BYTES)
        sent += line
        size = _CHUNK.match(line)
        if size is None or len(sent) + int(size[1], 16) > SMALL_BODY:
            return bytes(sent), b""
        if int(size[1], 16) == 0:
            break
        piece = await stream.read_bytes(int(size[1], 16) + 2)
        sent += piece
        content += piece[:-2]
    while line != b"\r\n" and len(sent) <= SMALL_BODY:  # trailers
        line = await stream.read_until(b"\r\n", LONGEST_LINE_BYTES)
        sent += line
    return bytes(sent), bytes(content)


async def _pump(source: IOStream, target: IOStream) -> None:
    """Until one of them is closed."""
    with contextlib.suppress(StreamClosedError, TimeoutError):
        while True:
            await _write(target, await source.read_bytes(PIECE_BYTES, partial=True))


async def _write(target: IOStream, data: bytes) -> None:
    async with asyncio.timeout(STALL_SECONDS):
        await target.write(data)
