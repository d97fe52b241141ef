"""The transport to a guest, over real sockets: a connection that is closed under a call ends the call."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from kernels.guest_client.transport import GuestTransport

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
    request = httpx.Request("PUT", "http://guest/file", content=pieces())
    call = asyncio.create_task(transport.handle_async_request(request))
    while not has_begun(guest):
        await asyncio.sleep(0)  # the call's turn
    await transport.aclose()
    loop = asyncio.get_running_loop()
    while await loop.sock_recv(guest, 1_000_000):  # what had been written goes out, then the connection is at its end
        pass
    with pytest.raises(httpx.TransportError):
        await call
    guest.close()


def has_begun(guest: socket.socket) -> bool:
    """Whether a part of the first piece has come, so that the rest of it waits."""
    try:
        return len(guest.recv(1_000_000, socket.MSG_PEEK)) > 1000
    except BlockingIOError:
        return False
