"""The relays of a sandbox: one for each kernel that a gateway has come for, until another takes its place.

What a kernel has said that was replaced is kept as long as a gateway is not done with what ran in it: the outcome of
that may not be durable yet.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from ..options import Options
from ..processes.kernel import Kernel
from .channels import Reach, reach_ipc
from .relay import Relay
from .runs import Runs
from .serving import Connection, Unavailable

SPILL_DIRECTORY = "/tmp"  # noqa: S108 - the sandbox's own, on its disk; what is made there has no name


class KernelSource:
    """One generation of a kernel, as long as it lives."""

    def __init__(self, name: str, kernel: Kernel) -> None:
        self.name, self.generation, self.key = name, kernel.generation, kernel.key
        self._kernel = kernel

    def alive(self) -> bool:
        return self._kernel.generation == self.generation and self._kernel.pid is not None

    def interrupt(self) -> None:
        """One that heeds no signal might die of it, as Deno's does; it is killed a moment later."""
        if self.alive() and self._kernel.heeds_signals:
            self._kernel.interrupt()

    def kill(self) -> None:
        if self.alive():
            self._kernel.kill()


class Relays:
    """`find` gives the present kernel of a name, alive or not."""

    def __init__(self, options: Options, find: Callable[[str], Kernel | None]) -> None:
        self._options = options
        self._find = find
        self._relays: dict[str, Relay] = {}
        self._former: dict[str, Relay] = {}
        self._runs = Runs(self._drop_former)

    def accept(self) -> Connection:
        """The protocol of a gateway's connection."""
        return Connection(self.of)

    def of(self, name: str, generation: int) -> Relay:
        """The relay of a kernel; raises Unavailable when there is none, and it is too late for one."""
        kernel, relay = self._find(name), self._relays.get(name)
        if relay is not None and relay.source.generation == generation:
            return relay
        former = self._former.get(name)
        if former is not None and former.source.generation == generation:
            return former
        if kernel is None or kernel.generation != generation or kernel.pid is None:
            raise Unavailable(f"no kernel {name} of generation {generation} is running")
        if relay is not None:
            self._retire(relay)
        made = Relay(KernelSource(name, kernel), self._reach(kernel), self._runs, open_unnamed)
        self._relays[name] = made
        return made

    def drop_gateways(self) -> None:
        """End every gateway's connection; what kernels say is kept until one comes again."""
        for relay in (*self._relays.values(), *self._former.values()):
            if relay.listener is not None:
                relay.listener.drop()

    def renumber(self, name: str, generation: int) -> None:
        """A kernel in which nothing has run is of another generation from now on: its relay goes on as that one's."""
        relay = self._relays.get(name)
        if relay is not None:
            relay.source.generation = generation

    def _retire(self, relay: Relay) -> None:
        name = relay.source.name
        if name in self._former:
            self._former.pop(name).close()
        if self._runs.remembers(name, relay.source.generation):
            relay.retire()
            self._former[name] = relay
        else:
            relay.close()

    def _drop_former(self) -> None:
        for name, each in tuple(self._former.items()):
            if not self._runs.remembers(name, each.source.generation):
                self._former.pop(name).close()

    def find(self, name: str) -> Relay | None:
        """The relay of a kernel that lives; None where no gateway has come for it."""
        kernel, relay = self._find(name), self._relays.get(name)
        if kernel is None or relay is None or relay.source.generation != kernel.generation:
            return None
        return relay

    def _reach(self, kernel: Kernel) -> Reach:
        directory, prefix = kernel.sockets()

        async def reach(number: int) -> socket.socket:
            return await reach_ipc(directory, f"{prefix}-{number}")

        return reach


def open_unnamed() -> int:
    """A file on the sandbox's disk that nobody else can open; raises OSError."""
    path = f"{SPILL_DIRECTORY}/.{os.urandom(16).hex()}"
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return file
