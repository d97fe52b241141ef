"""The inner half of the way out: what programs send to the guest's loopback ports goes, byte for byte, to the host.

The host decides; nothing is read here. In network mode SANDBOX the HTTP port leads nowhere: the guest answers itself,
so that programs say why and need not wait.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

from ..deadline import timeout
from ..options import NO_WAY_OUT, Options
from .loopback import HTTP, PACKAGES

MAX_CONNECTIONS = 128
"""At once and per port; further ones wait."""
PIECE_BYTES = 64 * 1024
MAX_HEAD_BYTES = 64 * 1024
HEAD_SECONDS = 10.0
LINGER_SECONDS = 2.0
HALF_OPEN_SECONDS = 30.0
"""How long a program may still send after the host has ended its side."""
PAUSE_SECONDS = 0.2
NOT_THERE = "the way out is not there at the moment, try again (no_proxy)"


class EgressGateway:
    """Serves the guest's loopback ports until closed; `answer_index` stands for a package index that is not there."""

    def __init__(
        self, options: Options, ports: dict[str, int], answer_index: Callable[[socket.socket], Awaitable[None]]
    ) -> None:
        self._options = options
        self._answer_index = answer_index
        self._connections: set[asyncio.Task[None]] = set()
        self._accepting = [asyncio.create_task(self._accept(name, listener)) for name, listener in ports.items()]

    async def close(self) -> None:
        """End everything."""
        for task in (under_way := [*self._accepting, *self._connections]):
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _accept(self, name: str, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(MAX_CONNECTIONS)
        with socket.socket(fileno=descriptor) as listener:
            while True:
                await room.acquire()
                try:
                    connection, _ = await loop.sock_accept(listener)
                except OSError:
                    room.release()
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                serving = loop.create_task(self._serve(name, connection))
                self._connections.add(serving)
                serving.add_done_callback(self._connections.discard)
                serving.add_done_callback(lambda _: room.release())

    async def _serve(self, name: str, inside: socket.socket) -> None:
        with inside, suppress(OSError):
            if name == HTTP and self._options.network == NO_WAY_OUT:
                await refuse(inside, 403, NO_WAY_OUT, "nothing may be reached from this environment (no_network)")
            elif name == PACKAGES and not self._options.index:
                await self._answer_index(inside)
            else:
                await self._forward(name, inside)

    async def _forward(self, name: str, inside: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as outside:
            outside.settimeout(0)
            try:
                outside.connect(self._options.egress_socket(name))
            except OSError:
                await refuse(inside, 503, self._options.network, NOT_THERE)
            else:
                await carry(inside, outside)


async def carry(inside: socket.socket, outside: socket.socket) -> None:
    """Both directions until both have ended or one fails. The deadlines are the host's. Raises OSError."""
    loop = asyncio.get_running_loop()
    async with timeout(None) as deadline:

        async def into() -> None:
            await pump(outside, inside)
            deadline.reschedule(loop.time() + HALF_OPEN_SECONDS)

        both = [loop.create_task(pump(inside, outside)), loop.create_task(into())]
        try:
            await asyncio.gather(*both)
        finally:
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)


async def pump(source: socket.socket, target: socket.socket) -> None:
    """One direction, a piece in memory at most, and its end; raises OSError."""
    loop = asyncio.get_running_loop()
    while piece := await read(source):
        await loop.sock_sendall(target, piece)
    target.shutdown(socket.SHUT_WR)


async def read(source: socket.socket) -> bytes:
    """The next piece, others having had their turn; empty at the end."""
    await asyncio.sleep(0)
    return await asyncio.get_running_loop().sock_recv(source, PIECE_BYTES)


async def refuse(inside: socket.socket, status: int, mode: str, why: str) -> None:
    """Answer whatever HTTP request comes, so that the program names the network mode in its error."""
    await read_head(inside)
    await asyncio.get_running_loop().sock_sendall(inside, refusal(status, mode, why))
    await linger(inside)


def refusal(status: int, mode: str, why: str) -> bytes:
    """That answer, which ends its connection."""
    phrase = f"Network mode {mode}: {why}"
    body = phrase + "\n"
    answer = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        f"Connection: close\r\n\r\n{body}"
    )
    return answer.encode()


async def read_head(inside: socket.socket) -> bytes:
    """The head of a request and whatever came with it, or as much of it as comes. Raises OSError, TimeoutError."""
    head = b""
    async with timeout(HEAD_SECONDS):
        while b"\n\r\n" not in head and b"\n\n" not in head and len(head) < MAX_HEAD_BYTES:
            piece = await read(inside)
            if not piece:
                break
            head += piece
    return head


async def linger(inside: socket.socket) -> None:
    """Take in what is still sent, for a moment: closing on unread bytes would take the answer from the program."""
    inside.shutdown(socket.SHUT_WR)
    async with timeout(LINGER_SECONDS):
        while await read(inside):
            pass
