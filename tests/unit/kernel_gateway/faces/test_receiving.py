"""How long a body is said to be, in every form that tornado takes, and how long one is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from kernel_gateway.errors import Forbidden, Unauthorized
from kernel_gateway.faces import receiving
from kernel_gateway.faces.body import SMALL_BODY
from kernel_gateway.faces.receiving import LENGTH_DIGITS, ReceivingHandler, read_length
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.settings import Settings


@pytest.mark.parametrize("announced", ["134000000", "0" * LENGTH_DIGITS + "134000000", "134000000,134000000"])
def test_every_form_of_a_length_is_that_length(announced: str) -> None:
    assert read_length(announced) == 134_000_000


def test_an_endless_length_is_a_large_one() -> None:
    assert read_length("9" * 5_000) == 10**LENGTH_DIGITS - 1


@pytest.mark.parametrize("announced", ["", "0", "0,0", "-5", "+5", "1_0", "0x10", "²", "many"])
def test_what_is_no_length_is_none(announced: str) -> None:
    assert read_length(announced) == 0


def services(**settings: float) -> Any:
    """What a handler needs of the services to take a body."""
    limits = replace(Settings(), **settings)  # type: ignore[arg-type]
    return SimpleNamespace(settings=limits, body_room=BodyRoom(limits, lambda _: None))


class Refusing(ReceivingHandler):
    """Takes no request."""

    async def admit(self) -> None:
        raise Forbidden("not for you")

    def translate_error(self, error: Exception) -> Exception:
        return error

    def write_refusal(self, error: Exception) -> None:
        self.set_status(403)
        self.write(str(error))

    def fail(self, error: Exception) -> None:
        self.write_refusal(error)
        self.finish()

    def audit(self) -> None:
        """No log here."""


@pytest.mark.parametrize("body", [b"", b"half"])
def test_a_refused_body_that_does_not_come_is_not_waited_for(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "LINGER_SECONDS", 0.01)

    async def scene() -> None:
        server = HTTPServer(Application([("/", Refusing, {"services": services()})]))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n" + body)
        async with asyncio.timeout(120):
            answer = await reader.read()
        writer.close()
        server.stop()
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert answer.endswith(b"not for you")

    asyncio.run(scene())


@asynccontextmanager
async def connected(
    handler: type[ReceivingHandler],
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server that has this handler at every address."""
    server = HTTPServer(Application([(".*", handler, {"services": services()})]))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
    try:
        async with asyncio.timeout(120):
            yield reader, writer
    finally:
        writer.close()
        server.stop()
        await server.close_all_connections()


def test_an_early_refusal_ends_the_connection_also_when_the_body_comes_whole() -> None:
    async def scene() -> None:
        async with connected(Refusing) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n" % (SMALL_BODY + 1))
            assert b"\r\nConnection: close\r\n" in await reader.readuntil(b"not for you")
            writer.write(b"x" * (SMALL_BODY + 1))
            writer.write(b"GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
            with suppress(ConnectionError):
                assert b"HTTP/1.1" not in await reader.read()

    asyncio.run(scene())


@pytest.mark.parametrize("length", [10, SMALL_BODY + 1])
def test_a_client_that_asks_before_it_sends_a_body_hears_at_once_that_it_is_refused(length: int) -> None:
    async def scene() -> None:
        async with connected(Refusing) as (reader, writer):
            head = b"POST / HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
            writer.write(head % length)
            assert (await reader.read()).startswith(b"HTTP/1.1 403 ")

    asyncio.run(scene())


class Taking(Refusing):
    """Takes a body of any size."""

    async def admit(self) -> None:
        self.most_bytes = 10**9

    def write_refusal(self, error: Exception) -> None:
        self.set_status(getattr(error, "status", 500))
        self.write(str(error))

    async def respond(self) -> None:
        self.finish(str(len(await self.body.whole("one"))))


def test_a_client_that_keeps_to_the_least_rate_is_waited_for_and_no_other() -> None:
    async def send(address: Any, piece: int) -> bytes:
        """Sends so many bytes again and again, with rests in between, until an answer comes or all is sent.

        Of an early answer the head is read: the connection of who sends on after it may be reset.
        """
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 40000\r\n\r\n")
        answering = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        left = 40_000
        while left and not answering.done():
            await asyncio.sleep(0.01)
            writer.write(b"x" * min(piece, left))
            left -= min(piece, left)
        answer = await answering
        if not left:
            answer += await reader.read()
        writer.close()
        return answer

    async def scene() -> None:
        limits = services(body_silence_seconds=2.0, body_bytes_per_second=4_000)
        server = HTTPServer(Application([("/", Taking, {"services": limits})]))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        address = sockets[0].getsockname()
        async with asyncio.timeout(120):
            steady, trickling = await asyncio.gather(send(address, 4_000), send(address, 4))
        server.stop()
        assert steady.endswith(b"\r\n\r\n40000")
        assert trickling.startswith(b"HTTP/1.1 408 ")

    asyncio.run(scene())


def test_a_body_that_was_asked_for_and_is_refused_while_it_comes_is_read_on_for_a_while() -> None:
    received = 0

    class Bounded(Taking):
        """Takes a body of ten bytes, and counts what comes."""

        async def admit(self) -> None:
            self.most_bytes = 10

        async def data_received(self, chunk: bytes) -> None:
            nonlocal received
            received += len(chunk)
            await super().data_received(chunk)

    async def scene() -> None:
        async with connected(Bounded) as (reader, writer):
            head = b"POST / HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head)
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
            writer.write(b"b\r\n" + b"x" * 11 + b"\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 413 ")
            writer.write(b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n")
            await reader.read()

    asyncio.run(scene())
    assert received == 22


class Doubting(Taking):
    """Believes nobody, before the body or after it."""

    async def admit(self) -> None:
        if self.request.path == "/":
            raise Unauthorized

    async def respond(self) -> None:
        raise Forbidden("not for you") if self.request.path == "/forbidden" else Unauthorized


def test_what_is_nobodys_is_answered_after_a_pause_that_its_address_has_earned() -> None:
    asked: list[str] = []

    def pause(address: str) -> float:
        asked.append(address)
        return 0.0

    async def scene() -> None:
        given = services()
        given.limits = SimpleNamespace(pause_after_failure=pause)
        server = HTTPServer(Application([(".*", Doubting, {"services": given})]))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        async with asyncio.timeout(120):
            for path in (b"/", b"/later", b"/forbidden"):
                reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
                writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 403 " if b"for" in path else b"HTTP/1.1 401 ")
                writer.close()
        server.stop()

    asyncio.run(scene())
    assert asked == ["127.0.0.1"] * 2
