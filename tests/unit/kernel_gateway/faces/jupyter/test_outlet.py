"""Frames on their way to a client: in order, together, and not more than its share when it does not read."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tornado.iostream import IOStream
from tornado.websocket import WebSocketClosedError

from kernel_gateway.faces.jupyter.frame_writer import BINARY, TOGETHER_BYTES, FrameWriter, make_header

BUFFER = 65_536


class Protocol:
    """What the outlet asks of tornado's."""

    def __init__(self) -> None:
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing


def opened() -> tuple[FrameWriter, Any, IOStream, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
    theirs.setblocking(False)
    protocol: Any = Protocol()
    stream = IOStream(ours)
    return FrameWriter(protocol, stream, binary=True), protocol, stream, theirs


async def put_ten(outlet: FrameWriter) -> None:
    for _ in range(10):
        await outlet.put([b"x" * 1_000_000])


async def read(theirs: socket.socket, size: int) -> bytes:
    loop, found = asyncio.get_running_loop(), b""
    async with asyncio.timeout(120):
        while len(found) < size:
            found += await loop.sock_recv(theirs, size - len(found))
    return found


def payloads(data: bytes) -> list[bytes]:
    found = []
    while data:
        assert data[0] == 0x80 | BINARY
        length, start = data[1], 2
        if length == 126:
            (length,), start = struct.unpack_from("!H", data, 2), 4
        elif length == 127:
            (length,), start = struct.unpack_from("!Q", data, 2), 10
        found.append(data[start : start + length])
        data = data[start + length :]
    return found


@settings(max_examples=20)
@given(st.lists(st.sampled_from([0, 1, 125, 126, 65_535, 65_536, 200_000]), max_size=8))
def test_what_is_put_arrives_in_order(sizes: list[int]) -> None:
    async def test() -> None:
        outlet, _, stream, theirs = opened()
        messages = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
        reading = asyncio.create_task(
            read(theirs, sum(len(each) + len(make_header(BINARY, len(each))) for each in messages))
        )
        for each in messages:
            await outlet.put([each[:1], each[1:70_000], each[70_000:]])
        await outlet.drain()
        assert payloads(await reading) == messages
        stream.close()
        theirs.close()

    asyncio.run(test())


@pytest.mark.parametrize("size", [10, 3_000])
def test_a_client_that_does_not_read_gets_no_more_than_its_share(size: int) -> None:
    """However the messages come: each in a round of the loop of its own, as a kernel that prints now and then."""

    async def test() -> None:
        outlet, _, stream, theirs = opened()
        put = 0

        async def fill() -> None:
            nonlocal put
            while True:
                await outlet.put([b"x" * size])
                put += 1
                await asyncio.sleep(0)

        filling = asyncio.create_task(fill())
        before = -1
        while put > before:
            before = put
            await asyncio.sleep(0.2)
        assert put * size < 4 * BUFFER + TOGETHER_BYTES
        await read(theirs, 2 * TOGETHER_BYTES)
        async with asyncio.timeout(120):
            while put == before:
                await asyncio.sleep(0.01)
        filling.cancel()
        stream.close()
        theirs.close()

    asyncio.run(test())


def test_what_waits_goes_out_when_the_client_reads_again() -> None:
    async def test() -> None:
        outlet, _, stream, theirs = opened()
        filling = asyncio.create_task(outlet.put([b"x" * 1_000_000]))
        await asyncio.sleep(0)
        assert not filling.done()
        await read(theirs, 1_000_000 + 10)
        await filling
        await outlet.put([b"la", b"st"])
        assert await read(theirs, 6) == make_header(BINARY, 4) + b"last"
        stream.close()
        theirs.close()

    asyncio.run(test())


@pytest.mark.parametrize("how", ["closing", "closed", "gone"])
def test_nothing_is_put_on_a_closed_connection(how: str) -> None:
    async def test() -> None:
        outlet, protocol, stream, theirs = opened()
        protocol.closing = how == "closing"
        if how == "closed":
            stream.close()
        if how == "gone":
            theirs.close()
        with pytest.raises(WebSocketClosedError):
            await put_ten(outlet)
        stream.close()
        theirs.close()

    asyncio.run(test())
