"""Streams to a guest on another machine: with mutual TLS, carried to one end of a socket pair for who dialled."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass
from typing import Final, Protocol

from kernels.cancelling import cancel_all
from kernels.errors import NotListening

PIECE_BYTES: Final = 64 * 1024
CONNECT_SECONDS: Final = 5.0
_LONGEST_ANSWER: Final = 16
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Way(Protocol):
    """How the port of one guest is reached."""

    async def connect(self, name: str, context: ssl.SSLContext) -> Stream:
        """A connection to the guest whose certificate is for `name`; raises NotListening, NotReached."""


@dataclass(frozen=True)
class Direct:
    """By its address, over the network of pods."""

    address: tuple[str, int]

    async def connect(self, name: str, context: ssl.SSLContext) -> Stream:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(
                    *self.address, ssl=context, server_hostname=name, limit=PIECE_BYTES
                )
        except (OSError, TimeoutError) as error:  # TLS's own are OSErrors
            raise NotListening(f"the guest is not reached at {self.address[0]}: {error or 'no answer'}") from None


class Streams:
    """All that this process carries. `open` returns the caller's end; the other one is closed with the guest's."""

    def __init__(self) -> None:
        self._carrying: dict[asyncio.Task[None], str] = {}
        """By the names of their guests."""

    async def open(self, way: Way, name: str, wanted: str, context: ssl.SSLContext) -> socket.socket:
        """A stream to the socket `wanted` of the guest whose certificate is for `name`; raises as `Way` does."""
        far = await way.connect(name, context)
        try:
            await _ask(far, wanted)
            return await self._lead_here(far, name)
        except BaseException:
            far[1].transport.abort()
            raise

    async def _lead_here(self, far: Stream, name: str) -> socket.socket:
        ours, near = await make_pair()
        task = asyncio.create_task(_carry(near, far))
        self._carrying[task] = name

        def end(task: asyncio.Task[None]) -> None:
            """Here, since one that is cancelled may not have begun."""
            del self._carrying[task]
            near[1].close()
            far[1].close()

        task.add_done_callback(end)
        return ours

    def cut(self, name: str) -> None:
        """End all streams to this guest: nothing comes from it any more."""
        for task, guest in self._carrying.items():
            if guest == name:
                task.cancel()

    async def aclose(self) -> None:
        await cancel_all(list(self._carrying))


async def make_pair() -> tuple[socket.socket, Stream]:
    """Two ends of one stream of bytes: a non-blocking socket, and what reads and writes the other."""
    ours, theirs = socket.socketpair()
    try:
        ours.setblocking(False)  # noqa: FBT003
        return ours, await asyncio.open_connection(sock=theirs, limit=PIECE_BYTES)
    except BaseException:
        ours.close()
        theirs.close()
        raise


async def _ask(far: Stream, wanted: str) -> None:
    """Say which socket is meant; raises NotListening when nobody listens at it."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            far[1].write(f"{wanted}\n".encode())
            answer = (await far[0].readline())[:_LONGEST_ANSWER]
    except (OSError, ValueError, TimeoutError) as error:
        raise NotListening(f"the guest broke off: {error or 'no answer'}") from None
    if answer != b"ok\n":
        raise NotListening(f"nothing listens at {wanted} of the sandbox")


async def _carry(near: Stream, far: Stream) -> None:
    """Both ways, until one end closes. TLS has no half-closed streams here: what ends one way ends."""
    ways = [asyncio.create_task(_copy(near[0], far[1])), asyncio.create_task(_copy(far[0], near[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(ways)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
