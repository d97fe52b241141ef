"""Kernels next to the first one, which speak TCP: started when they are first used.

Their ports are of the sandbox's loopback, picked again for each start; `bridge` carries them to sockets that the host
can reach. Their life is otherwise a kernel's: a connection file with a key of its own, a process of the user's, an end
that is reported.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from ..network.bridge import Bridge
from ..options import Options
from .kernel import Event, Kernel, write_connection_file
from .reaper import Reaper

BRIDGED = 4
"""shell, iopub, stdin, control; the heartbeat is of no use to anybody."""


class BridgedKernel(Kernel):
    """Tells the followers of the first kernel what becomes of it. Belongs to the loop."""

    handles_interrupts = False
    file_prefix = ""
    """How the names of its connection file and its sockets begin."""

    def __init__(self, options: Options, reaper: Reaper, subscribers: set[Callable[[Event], None]]) -> None:
        super().__init__(options, reaper)
        loop = asyncio.get_running_loop()
        self.subscribers = subscribers
        self.follow_output = lambda descriptor: loop.add_reader(descriptor, self.drain)
        self.leave_output = loop.remove_reader
        self._ports: tuple[int, ...] = ()
        self._bridge: Bridge | None = None

    def start_generation(self, generation: int) -> None:
        """Start one of this generation, and carry its ports; the last one's bridge is closed. Raises OSError."""
        self.start(generation)
        place = f"{self._options.guest_directory}/{self.file_prefix}-g{generation}"
        try:
            self._bridge = Bridge(place, self._ports[:BRIDGED], lambda: self.pid is not None)
        except OSError:
            self.kill()
            raise

    def sockets(self) -> tuple[str, str]:
        """Those of the bridge."""
        return self._options.guest_directory, f"{self.file_prefix}-g{self.generation}"

    async def close_bridge(self) -> None:
        """Called before another kernel starts, and at the end."""
        if self._bridge is not None:
            bridge, self._bridge = self._bridge, None
            await bridge.close()

    def write_connection(self, generation: int, key: str, kernel: str) -> str:
        """Pick ports and write its connection file; returns the file's path. Raises OSError."""
        self._ports = _free_ports(BRIDGED + 1)
        name = f"{self.file_prefix}-g{generation}"
        return write_connection_file(
            self._options, name, key, transport="tcp", ip="127.0.0.1", ports=self._ports, kernel=kernel
        )


def _free_ports(count: int) -> tuple[int, ...]:
    """Ports of the loopback that are free now; when one is taken meanwhile, the kernel ends and another starts."""
    held = []
    try:
        for _ in range(count):
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            held.append(one)
            one.bind(("127.0.0.1", 0))
        return tuple(one.getsockname()[1] for one in held)
    finally:
        for one in held:
            one.close()
