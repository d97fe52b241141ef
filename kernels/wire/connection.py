"""Where a kernel listens: its sockets in the sandbox, reached by dialling, and the key that it signs with."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kernels.wire.dialing import PATIENCE_SECONDS, RELAY, Dial, kernel_socket

Made = TypeVar("Made", bound=asyncio.BaseProtocol)

CHANNELS: Final = {"shell": 1, "iopub": 2, "stdin": 3, "control": 4}
"""Channels the hub opens, with the number that ends their address (5 is the heartbeat, which is not needed here)."""


@dataclass(frozen=True)
class KernelConnection:
    """One generation of a kernel; `name` names its sockets by generation and number."""

    dial: Dial
    generation: int
    key: bytes = field(repr=False)
    name: Callable[[int, int], str] = kernel_socket
    relay: str = ""
    """What the guest's relay calls it; empty where the guest has none, and the sockets are the kernel's own."""

    async def open_relay(self, make: Callable[[], Made]) -> Made:
        """A connection to the guest's relay, for a protocol of asyncio's; raises as `Dial` does."""
        connected = await self.dial(RELAY, patience_seconds=PATIENCE_SECONDS)
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(make, sock=connected)
        except BaseException:
            connected.close()
            raise
        return protocol

    async def connect(self, channel: str, *, patience_seconds: float = 0) -> socket.socket:
        """A connection to the socket of a channel; raises as `Dial` does."""
        return await self.dial(self.name(self.generation, CHANNELS[channel]), patience_seconds=patience_seconds)
