"""The transport to a guest, over real sockets: a connection that is closed under a call ends the call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from kernels.guest_client import transport as transport_module
from kernels.guest_client.transport import CutOff, GuestTransport

PIECE = b"x" * 4_000_000
"""More than the buffers of a socket hold."""


def test_an_upload_under_which_the_connection_is_closed_fails_as_one_that_was_cut_off() -> None:
    asyncio.run(close_under_an_upload())


async def close_under_an_upload() -> None:
    ours, guest = socket.socketpair()
    ours.setblocking(False)
    guest.setblocking(False)

    async def dial(name: str, *, patience_seconds: float = 0) -> socket.socket:
        return ours

    async def pieces() -> AsyncIterator[bytes]:
        yield PIECE
        yield PIECE

    transport = GuestTransport(dial)
    call = asyncio.create_task(transport.call("PUT", "/file", pieces()))
    while not has_begun(guest):
        await asyncio.sleep(0)  # the call's turn
    await transport.aclose()
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(guest, 1_000_000):  # what had been written goes out, then the connection is at its end
        pass
    with pytest.raises(CutOff):
        await call
    guest.close()


class PlainGuest:
    """Answers each request with `{}`, but what goes on for long with a line and no end; knows what is open."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.dialled = 0
        # All of them: what waits for a connection to say something is otherwise held by nothing, and collected.
        self.tasks: list[asyncio.Task[None]] = []

    async def dial(self, name: str, *, patience_seconds: float = 0) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self.dialled += 1
        reader, writer = await asyncio.open_connection(sock=theirs)
        self.tasks.append(asyncio.create_task(self._serve(reader, writer, f"{self.dialled}")))
        return ours

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> None:
        self.open.append(name)
        with suppress(asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"/events" in head:
                    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{}\n\r\n")
                else:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        self.open.remove(name)
        writer.close()


async def ask(transport: GuestTransport) -> None:
    answer = await transport.call("GET", "/v1/status")
    assert b"".join([piece async for piece in answer.pieces()]) == b"{}"
    await answer.aclose()


async def follow_and_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "IDLE_SECONDS", 0.05)
    guest = PlainGuest()
    transport = GuestTransport(guest.dial)
    await ask(transport)
    events = await transport.call("GET", "/v1/events", lasting=True)
    pieces = events.pieces()
    assert await anext(pieces) == b"{}\n"
    assert guest.dialled == 1, "what was open is used again"
    for dialled in (2, 3):
        await ask(transport)
        await ask(transport)
        assert guest.open == ["1", f"{dialled}"], "one stays open for the next call"
        async with asyncio.timeout(120):
            while guest.open != ["1"]:
                await asyncio.sleep(0.01)
    await pieces.aclose()
    await events.aclose()
    await transport.aclose()
    async with asyncio.timeout(120):
        while guest.open:
            await asyncio.sleep(0.01)


def test_of_a_guest_that_nobody_calls_only_what_follows_it_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(follow_and_call(monkeypatch))


async def call_after_two_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "IDLE_SECONDS", 0.05)
    guest = PlainGuest()
    transport = GuestTransport(guest.dial)
    events = await transport.call("GET", "/v1/events", lasting=True)
    await ask(transport)
    await events.aclose()  # two have ended, with nothing under way after either
    under_way = await transport.call("GET", "/v1/events")
    pieces = under_way.pieces()
    assert await anext(pieces) == b"{}\n"
    after = guest.open[-1]
    await asyncio.sleep(0.3)
    assert after in guest.open, "the end of an earlier call cut it off"
    await pieces.aclose()
    await under_way.aclose()
    await transport.aclose()
    async with asyncio.timeout(120):
        while guest.open:
            await asyncio.sleep(0.01)


def test_a_call_is_not_cut_off_by_the_ends_of_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    asyncio.run(call_after_two_ends(monkeypatch))


def has_begun(guest: socket.socket) -> bool:
    """Whether a part of the first piece has come, so that the rest of it waits."""
    try:
        return len(guest.recv(1_000_000, socket.MSG_PEEK)) > 1000
    except BlockingIOError:
        return False
