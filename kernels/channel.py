"""One ZMTP connection to a kernel's Unix socket: opened once the kernel has bound it, read as fast as it is used."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, cast

from kernels import zmtp
from kernels.connection import KernelConnection
from kernels.dialing import PATIENCE_SECONDS, POLL_SECONDS
from kernels.errors import SandboxFailed, SandboxGone

MAX_MESSAGE_BYTES: Final = 112 * 1024 * 1024
"""The largest message that is read from a kernel: a payload of 100 MB and what goes with it."""

_SOCKET_TYPES: Final = {"shell": "DEALER", "control": "DEALER", "stdin": "DEALER", "iopub": "SUB"}

Received = Callable[[list[bytes] | zmtp.Oversized], None]


class Channel(asyncio.Protocol):
    """`received` gets each message in order; `lost` is called once, with why, when the connection ends by itself."""

    def __init__(self, received: Received, lost: Callable[[str], None]) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = received
        self._lost = lost
        self._decoder = zmtp.Decoder(MAX_MESSAGE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._why = "the kernel closed its connection"

    def send(self, frames: Sequence[bytes]) -> None:
        """Hand a message to the connection; nothing happens on one that is closed."""
        self.write(zmtp.encode(frames))

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Drop the connection and what has not been sent."""
        self._lost = lambda _why: None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._decoder.feed(data):
                self._received(message)
        except zmtp.ProtocolError as error:
            self._why = f"the kernel's socket left the protocol: {error}"
            if self._transport is not None:
                self._transport.abort()
            return
        if self._decoder.replies:
            self.write(self._decoder.replies)
            self._decoder.replies = b""
        if self._decoder.is_ready and not self.ready.done():
            self.ready.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self.ready.done():
            self.ready.set_exception(SandboxFailed(self._why))
        self._lost(self._why)


async def open_channel(
    connection: KernelConnection, name: str, received: Received, lost: Callable[[str], None], identity: bytes = b""
) -> Channel:
    """Connect once the kernel has bound the socket; waits as long as the caller's deadline lets it.

    Raises `SandboxFailed` when it closes the connection or does not speak ZMQ.
    """
    connected = await _connect(connection, name)
    try:
        _, channel = await asyncio.get_running_loop().create_unix_connection(
            lambda: Channel(received, lost), sock=connected
        )
    except BaseException:
        connected.close()
        raise
    channel.write(zmtp.GREETING + zmtp.ready(_SOCKET_TYPES[name], identity))
    try:
        await channel.ready
    except BaseException:
        channel.close()
        raise
    if name == "iopub":
        channel.write(zmtp.SUBSCRIBE_ALL)
    return channel


async def _connect(connection: KernelConnection, name: str) -> socket.socket:
    while True:
        try:
            return await connection.connect(name, patience_seconds=PATIENCE_SECONDS)
        except SandboxGone:
            raise
        except SandboxFailed:  # nobody listens yet, or too many others wait to be accepted
            await asyncio.sleep(POLL_SECONDS)
