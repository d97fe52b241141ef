"""Unix sockets for a kernel's clients on this host, each connection carried byte for byte into the sandbox.

Clients of ZMQ connect by a path, and follow whatever lies there. So what they connect to is made here, in a directory
that only this user may enter; the way on into the sandbox's own directory, which is hostile, is `Dial`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kernels.cancelling import cancel_all
from kernels.errors import NotListening, SandboxFailed
from kernels.wire.dialing import PATIENCE_SECONDS, Dial, kernel_socket

CHANNELS: Final = (1, 2, 3, 4, 5)
"""The numbers that end the addresses: shell, iopub, stdin, control, heartbeat."""
MAX_CONNECTIONS: Final = 32
"""At once and per channel; further ones are closed."""
BUFFER_BYTES: Final = 256 * 1024
"""Carried and not yet taken, per connection and direction."""
_START_SECONDS: Final = 60.0


class Bridge:
    """Carries what connects to `<directory>/k-<number>` to the kernel of the `generation` that there is now."""

    def __init__(self, directory: Path, dial: Dial) -> None:
        self.generation = 0
        self._directory = directory
        self._dial = dial
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def sockets(self) -> str:
        """What the addresses of the channels begin with, as a connection file has it under `ip`."""
        return str(self._directory / "k")

    async def open(self, generation: int) -> None:
        """Listen for the clients of a new kernel; those of the one before are let go, and come again by themselves."""
        await self.close()
        self.generation = generation
        self._directory.mkdir(mode=0o700, exist_ok=True)
        for number in CHANNELS:
            place = f"{self.sockets}-{number}"
            self._servers.append(await asyncio.start_unix_server(self._serving(number), place, limit=BUFFER_BYTES))

    async def close(self) -> None:
        """End every connection; nothing is left of the sockets."""
        for server in self._servers:
            server.close()
        self._servers.clear()
        await cancel_all(self._connections)
        for number in CHANNELS:
            Path(f"{self.sockets}-{number}").unlink(missing_ok=True)

    def _serving(self, number: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        room = [MAX_CONNECTIONS]

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not room[0]:
                writer.transport.abort()
                return
            room[0] -= 1
            serving = asyncio.create_task(self._serve(number, reader, writer))
            self._connections.add(serving)
            serving.add_done_callback(lambda done: self._leave(done, room))

        return accept

    def _leave(self, done: asyncio.Task[None], room: list[int]) -> None:
        room[0] += 1
        self._connections.discard(done)

    async def _serve(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(SandboxFailed, OSError, TimeoutError):
                inside = await self._reach(number)
                theirs, ours = await asyncio.open_connection(sock=inside, limit=BUFFER_BYTES)
                try:
                    await _carry_both(reader, writer, theirs, ours)
                finally:
                    ours.transport.abort()
        finally:
            writer.transport.abort()

    async def _reach(self, number: int) -> socket.socket:
        """A connection to the kernel, as soon as it listens; raises TimeoutError when it never does."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with contextlib.suppress(NotListening):
                    return await self._dial(kernel_socket(self.generation, number), patience_seconds=PATIENCE_SECONDS)


async def _carry_both(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, theirs: asyncio.StreamReader, ours: asyncio.StreamWriter
) -> None:
    """Carry both ways until either side ends; ZMQ closes nothing by halves."""
    ways = [asyncio.create_task(_carry(reader, ours)), asyncio.create_task(_carry(theirs, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_all(ways)


async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(BUFFER_BYTES):
        target.write(data)
        await target.drain()
