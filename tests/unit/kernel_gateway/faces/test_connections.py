"""Connections are bounded in number, in time without a request, and in the size of a request's head."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler, stream_request_body
from tornado.websocket import WebSocketHandler

from kernel_gateway.faces.connections import MOST_HEAD_BYTES, Server, find_network
from kernel_gateway.settings import Settings

PLAIN = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
UPGRADE = (
    b"GET /socket HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class Echo(RequestHandler):
    """Says how much came."""

    def get(self) -> None:
        self.write("here")

    def post(self) -> None:
        self.write(str(len(self.request.body)))


@stream_request_body
class Hasty(RequestHandler):
    """Begins to answer before the body is there."""

    async def prepare(self) -> None:
        self.write("begun")
        await self.flush()

    def data_received(self, chunk: bytes) -> None:
        """Not looked at."""

    def post(self) -> None:
        """Nothing more is said."""


class Socket(WebSocketHandler):
    """Stays open."""


@dataclass
class Peer:
    """One connection to the server."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await self.reader.readuntil(b"\r\n\r\n")

    async def rest(self) -> bytes:
        """All that comes until the server closes the connection."""
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


Connect = Callable[..., Awaitable[Peer]]


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Connect]:
    server = Server(Application([("/", Echo), ("/hasty", Hasty), ("/socket", Socket)]), replace(Settings(), **settings))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    peers: list[Peer] = []

    async def connect(source: str = "127.0.0.1") -> Peer:
        address, port = sockets[0].getsockname()
        peers.append(Peer(*await asyncio.open_connection(address, port, local_addr=(source, 0))))
        return peers[-1]

    try:
        async with asyncio.timeout(120):
            yield connect
    finally:
        for each in peers:
            await each.close()
        server.stop()
        await server.close_all_connections()


def run(scene: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(scene())  # type: ignore[arg-type]


def error_of(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Connection: close" in head
    return int(head.split()[1]), json.loads(body)["error"]["code"]


def test_a_head_that_does_not_end_is_answered_and_let_go_of() -> None:
    async def scene() -> None:
        async with serving(head_seconds=0.1, keep_alive_seconds=3600) as connect:
            silent, slow = await connect(), await connect()
            await slow.send(PLAIN[:-2])
            assert await silent.rest() == b""
            assert error_of(await slow.rest()) == (408, "head_too_slow")
            again = await connect()  # a connection that has been served has no more time for a head
            await again.send(PLAIN)
            assert (await again.head()).startswith(b"HTTP/1.1 200 ")
            await again.send(PLAIN[:-2])
            assert error_of((await again.rest()).removeprefix(b"here")) == (408, "head_too_slow")

    run(scene)


def test_a_connection_that_rests_is_closed_without_a_word() -> None:
    async def scene() -> None:
        async with serving(head_seconds=3600, keep_alive_seconds=0.1) as connect:
            peer = await connect()
            await peer.send(PLAIN)
            assert (await peer.rest()).endswith(b"\r\n\r\nhere")

    run(scene)


@pytest.mark.parametrize(
    "head",
    [b"x" * MOST_HEAD_BYTES + b"\r\n\r\n", b"x" * MOST_HEAD_BYTES * 3 + b"\r\n\r\n", b"x" * MOST_HEAD_BYTES * 60],
)
def test_a_head_that_is_too_large_is_refused_with_the_reason(head: bytes) -> None:
    async def scene() -> None:
        async with serving() as connect:
            peer = await connect()
            with suppress(ConnectionError):
                await peer.send(b"GET / HTTP/1.1\r\nHost: here\r\nX: " + head)
            assert error_of(await peer.head() + await peer.reader.readuntil(b"}}")) == (431, "head_too_large")

    run(scene)


@pytest.mark.parametrize(
    "malformed",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/3\r\nHost: here\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\nHost: there\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: here\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1, 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n",
    ],
)
def test_what_is_no_request_is_refused_with_the_reason(malformed: bytes) -> None:
    async def scene() -> None:
        async with serving() as connect:
            peer = await connect()
            await peer.send(PLAIN)
            await peer.reader.readuntil(b"here")
            await peer.send(malformed)
            assert error_of(await peer.head() + await peer.reader.readuntil(b"}}")) == (400, "invalid_request")

    run(scene)


def test_an_answer_that_has_begun_is_not_followed_by_another() -> None:
    async def scene() -> None:
        async with serving() as connect:
            peer = await connect()
            await peer.send(b"POST /hasty HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n")
            await peer.reader.readuntil(b"begun")
            await peer.send(b"many\r\n")
            peer.writer.write_eof()
            assert b"400" not in await peer.rest()

    run(scene)


def test_a_large_head_with_a_large_body_behind_it_is_taken() -> None:
    async def scene() -> None:
        async with serving() as connect:
            peer, filler, body = await connect(), b"x" * (MOST_HEAD_BYTES - 200), b"y" * 3_000_000
            head = b"POST / HTTP/1.1\r\nHost: here\r\nX: %b\r\nContent-Length: %d\r\n\r\n" % (filler, len(body))
            for _ in range(3):
                await peer.send(head + body)
                assert (await peer.head()).startswith(b"HTTP/1.1 200 ")
                assert await peer.reader.readexactly(7) == b"3000000"
            await peer.send(PLAIN * 5)  # one after another, as they came
            for _ in range(5):
                assert (await peer.head()).startswith(b"HTTP/1.1 200 ")
                assert await peer.reader.readexactly(4) == b"here"

    run(scene)


@pytest.mark.parametrize("request_sent", [b"", PLAIN, UPGRADE])
def test_there_are_only_so_many_connections_from_one_address_and_in_all(request_sent: bytes) -> None:
    async def scene() -> None:
        async with serving(connections=3, connections_per_address=2) as connect:
            open_ones = [await connect() for _ in range(2)]
            for each in open_ones:
                await each.send(request_sent)
                if request_sent:
                    await each.head()
            refused = await connect()
            assert error_of(await refused.rest()) == (503, "too_many_connections")
            elsewhere = await connect("127.0.0.2")
            await elsewhere.send(PLAIN)
            assert (await elsewhere.head()).startswith(b"HTTP/1.1 200 ")
            assert error_of(await (await connect("127.0.0.3")).rest()) == (503, "too_many_connections")
            await open_ones.pop().close()
            await served(connect)

    run(scene)


async def served(connect: Connect) -> None:
    """Until there is a place again: that a connection is closed comes to be known on the other side a moment later."""
    while True:
        peer = await connect()
        try:
            await peer.send(PLAIN)
            head = await peer.head()
        except (asyncio.IncompleteReadError, ConnectionError):
            continue
        if head.startswith(b"HTTP/1.1 200 "):
            return


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("no address", "no address"),
    ],
)
def test_what_an_address_counts_as(address: str, network: str) -> None:
    assert find_network(address) == network
