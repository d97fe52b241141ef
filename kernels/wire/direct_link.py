"""The way to a kernel by its own sockets, one connection a channel: for kernels whose guest has no relay."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

from kernels.errors import KernelsError
from kernels.wire import zmtp
from kernels.wire.channel import Channel, Pace, open_channel
from kernels.wire.connection import CHANNELS, KernelConnection
from kernels.wire.relay_link import Run


class DirectLink:
    """Ends with the first of its connections that ends."""

    def __init__(
        self,
        connection: KernelConnection,
        received: Callable[[str, list[bytes] | zmtp.Oversized], None],
        lost: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._received = received
        self._lost = lost
        self._channels: dict[str, Channel] = {}
        self._pace = Pace()

    async def open(self) -> None:
        """Connect all of them; raises KernelsError."""
        identity = os.urandom(16)
        try:
            async with asyncio.TaskGroup() as group:
                for name in CHANNELS:
                    group.create_task(self._open_one(name, identity))
        except* KernelsError as errors:
            raise errors.exceptions[0] from None

    def send(self, channel: str, message: Sequence[bytes], run: Run | None = None) -> None:
        """A request to the kernel; nobody remembers which run it carries out."""
        self._channels[channel].send(message)

    def unsent_bytes(self, channel: str) -> int:
        """What has not been handed to the socket yet."""
        return self._channels[channel].unsent_bytes

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    async def _open_one(self, name: str, identity: bytes) -> None:
        channel = await open_channel(
            self._connection, name, partial(self._received, name), self._lost, identity=identity, pace=self._pace
        )
        self._channels[name] = channel
