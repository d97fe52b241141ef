"""Streams to a guest on another machine: TCP with mutual TLS, carried to one end of a socket pair for who dialled."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from typing import Final

from kernels.cancelling import cancel_all
from kernels.errors import NotListening

PIECE_BYTES: Final = 64 * 1024
CONNECT_SECONDS: Final = 5.0
_LONGEST_ANSWER: Final = 16
_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Streams:
    """All that this process carries. `open` returns the caller's end; the other one is closed with the guest's."""

    def __init__(self) -> None:
        self._carrying: set[asyncio.Task[None]] = set()

    async def open(self, address: tuple[str, int], name: str, wanted: str, context: ssl.SSLContext) -> socket.socket:
        """A stream to the socket `wanted` of the guest whose certificate is for `name`; raises NotListening."""
        far = await reach(address, name, context)
        try:
            await _ask(far, wanted)
            return await self._lead_here(far)
        except BaseException:
            far[1].transport.abort()
            raise

    async def _lead_here(self, far: _Stream) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            ours.setblocking(False)  # noqa: FBT003
            near = await asyncio.open_connection(sock=theirs, limit=PIECE_BYTES)
        except BaseException:
            ours.close()
            theirs.close()
            raise
        task = asyncio.create_task(_carry(near, far))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        return ours

    async def aclose(self) -> None:
        await cancel_all(list(self._carrying))


async def reach(address: tuple[str, int], name: str, context: ssl.SSLContext) -> _Stream:
    """A connection to the guest whose certificate is for `name`; raises NotListening."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(*address, ssl=context, server_hostname=name, limit=PIECE_BYTES)
    except (OSError, TimeoutError) as error:  # TLS's own are OSErrors
        raise NotListening(f"the guest is not reached at {address[0]}: {error or 'no answer'}") from None


async def _ask(far: _Stream, wanted: str) -> None:
    """Say which socket is meant; raises NotListening when nobody listens at it."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            far[1].write(f"{wanted}\n".encode())
            answer = (await far[0].readline())[:_LONGEST_ANSWER]
    except (OSError, ValueError, TimeoutError) as error:
        raise NotListening(f"the guest broke off: {error or 'no answer'}") from None
    if answer != b"ok\n":
        raise NotListening(f"nothing listens at {wanted} of the sandbox")


async def _carry(near: _Stream, far: _Stream) -> None:
    """Both ways, until one end closes. TLS has no half-closed streams here: what ends one way ends."""
    ways = [asyncio.create_task(_copy(near[0], far[1])), asyncio.create_task(_copy(far[0], near[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(ways)
        near[1].close()
        far[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
