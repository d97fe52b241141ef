"""The second kernel, for JavaScript and TypeScript: Deno's, started when it is first used.

It speaks TCP only. Its ports are of the sandbox's loopback, picked again for each start; `bridge` carries them to
sockets that the host can reach. Its life is otherwise a kernel's: a connection file with a key of its own, a process of
the user's, an end that is reported.
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


class DenoKernel(Kernel):
    """Tells the followers of the first kernel what becomes of it. Belongs to the loop."""

    name = "deno"
    handles_interrupts = False

    def __init__(self, options: Options, reaper: Reaper, subscribers: set[Callable[[Event], None]]) -> None:
        super().__init__(options, reaper)
        loop = asyncio.get_running_loop()
        self.subscribers = subscribers
        self.follow_output = lambda descriptor: loop.add_reader(descriptor, self.drain)
        self.leave_output = loop.remove_reader
        self._ports: tuple[int, ...] = ()
        self._bridge: Bridge | None = None

    def start_next(self) -> None:
        """Start one of the next generation, and carry its ports; the last one's bridge is closed. Raises OSError."""
        generation = self.generation + 1
        self.start(generation)
        place = f"{self._options.guest_directory}/deno-g{generation}"
        try:
            self._bridge = Bridge(place, self._ports[:BRIDGED], lambda: self.pid is not None)
        except OSError:
            self.kill()
            raise

    async def close_bridge(self) -> None:
        """Called before another kernel starts, and at the end."""
        if self._bridge is not None:
            bridge, self._bridge = self._bridge, None
            await bridge.close()

    def _prepare(self, generation: int, key: str) -> list[str]:
        self._ports = _free_ports(BRIDGED + 1)
        file = write_connection_file(
            self._options, f"deno-g{generation}", key, transport="tcp", ip="127.0.0.1", ports=self._ports
        )
        return [self._options.deno, "jupyter", "--kernel", "--conn", file]

    def _make_environment(self) -> dict[str, str]:
        return {**super()._make_environment(), **_variables(self._options)}


def _variables(options: Options) -> dict[str, str]:
    """No colours in what is shown, no question whether there is a newer Deno, and the image's authorities as well."""
    return {
        "NO_COLOR": "1",
        "DENO_NO_UPDATE_CHECK": "1",
        "DENO_DIR": f"{options.home}/.cache/deno",
        "DENO_TLS_CA_STORE": "system,mozilla",
    }


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
