"""One ZMTP connection to a kernel's Unix socket: opened once the kernel has bound it, read as fast as it is used."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Final, cast

from kernels.errors import SandboxFailed, SandboxGone
from kernels.wire import zmtp
from kernels.wire.connection import KernelConnection
from kernels.wire.dialing import PATIENCE_SECONDS, POLL_SECONDS

MAX_MESSAGE_BYTES: Final = 112 * 1024 * 1024
"""The largest message that is read from a kernel: a payload of 100 MB and what goes with it."""

READ_BYTES: Final = 64 * 1024
"""One read from a kernel's socket, after which others have their turn."""
UNREAD_BYTES: Final = 1024 * 1024
"""What waits for a kernel that does not read: beyond it, its pings stay unanswered."""
TURN_SECONDS: Final = 0.005
REST: Final = 2
"""How long a kernel rests after a turn longer than `TURN_SECONDS`, as a multiple of that turn."""
LONGEST_REST_SECONDS: Final = 0.5
"""A turn may be long because the machine stood still: a kernel that is not read must not pass for a silent one."""

_SOCKET_TYPES: Final = {"shell": "DEALER", "control": "DEALER", "stdin": "DEALER", "iopub": "SUB"}

Received = Callable[[list[bytes] | zmtp.Oversized], None]


class Pace:
    """One kernel's share of the loop, all its channels together: what it sends must not keep other kernels waiting."""

    def __init__(self) -> None:
        self._rested_at = 0.0

    def rest_after(self, began: float, ended: float) -> float:
        """Seconds that a channel whose turn lasted so long is not read; 0 for a short turn."""
        if ended - began < TURN_SECONDS:
            return 0
        rested_at = max(self._rested_at, ended) + REST * (ended - began)
        self._rested_at = min(rested_at, ended + LONGEST_REST_SECONDS)
        return self._rested_at - ended


class Channel(asyncio.BufferedProtocol):
    """`received` gets each message in order; `lost` is called once, with why, when the connection ends by itself."""

    _read = memoryview(bytearray(READ_BYTES))
    """What one turn reads; it is all taken before the next one."""

    def __init__(self, received: Received, lost: Callable[[str], None], pace: Pace) -> None:
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._received = received
        self._lost = lost
        self._pace = pace
        self._decoder = zmtp.Decoder(MAX_MESSAGE_BYTES)
        self._transport: asyncio.Transport | None = None
        self._why = "the kernel closed its connection"

    def send(self, frames: Sequence[bytes]) -> None:
        """Hand a message to the connection; nothing happens on one that is closed."""
        self.write(zmtp.encode(frames))

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    @property
    def unsent_bytes(self) -> int:
        """What has not been handed to the socket yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Drop the connection and what has not been sent."""
        self._lost = lambda _why: None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._read

    def buffer_updated(self, nbytes: int) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            self._take(bytes(self._read[:nbytes]))
        except zmtp.ProtocolError as error:
            self._why = f"the kernel's socket left the protocol: {error}"
            if self._transport is not None:
                self._transport.abort()
            return
        rest = self._pace.rest_after(began, loop.time())
        if rest and self._transport is not None:
            self._transport.pause_reading()
            loop.call_later(rest, self._read_on)

    def _take(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            self._received(message)
        if self._decoder.replies:
            if self._transport is not None and self._transport.get_write_buffer_size() < UNREAD_BYTES:
                self.write(self._decoder.replies)
            self._decoder.replies = b""
        if self._decoder.is_ready and not self.ready.done():
            self.ready.set_result(None)

    def _read_on(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if not self.ready.done():
            self.ready.set_exception(SandboxFailed(self._why))
        self._lost(self._why)


async def open_channel(
    connection: KernelConnection,
    name: str,
    received: Received,
    lost: Callable[[str], None],
    *,
    identity: bytes = b"",
    pace: Pace | None = None,
) -> Channel:
    """Connect once the kernel has bound the socket; waits as long as the caller's deadline lets it.

    Raises `SandboxFailed` when it closes the connection or does not speak ZMQ.
    """
    connected = await _connect(connection, name)
    try:
        _, channel = await asyncio.get_running_loop().create_connection(
            lambda: Channel(received, lost, pace or Pace()), sock=connected
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
        except SandboxFailed:  # nothing listens yet, or too many connections wait to be accepted
            await asyncio.sleep(POLL_SECONDS)
