"""A real kernel with a relay of its own, in this process, on a Unix socket or on TCP with mutual TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme

from kernels.execution.execution import Event, Outcome, OutputCaps, execute
from kernels.execution.hub import Hub
from kernels.execution.runs import Durable
from kernels.guest.relay.channels import reach_ipc
from kernels.guest.relay.kernels import open_unnamed
from kernels.guest.relay.relay import Relay
from kernels.guest.relay.runs import Runs
from kernels.guest.relay.serving import Connection
from kernels.wire.connection import KernelConnection, Made
from tests.integration.kernels.execution.running_kernel import RunningKernel


class Source:
    """The kernel as the relay sees it."""

    name, generation, key = "python", 1, ""

    def __init__(self, kernel: RunningKernel) -> None:
        self._kernel = kernel
        self.signals: list[str] = []

    def alive(self) -> bool:
        return self._kernel.process.poll() is None

    def interrupt(self) -> None:
        self.signals.append("interrupt")
        self._kernel.process.send_signal(2)

    def kill(self) -> None:
        self.signals.append("kill")
        self._kernel.process.kill()


@dataclass(frozen=True)
class OverTls(KernelConnection):
    """Reaches the relay over TCP, both sides with a certificate."""

    port: int = 0
    tls: ssl.SSLContext | None = field(default=None)

    async def open_relay(self, make: Callable[[], Made]) -> Made:
        _, protocol = await asyncio.get_running_loop().create_connection(
            make, "127.0.0.1", self.port, ssl=self.tls, server_hostname="guest.test"
        )
        return protocol


@dataclass
class Guest:
    """A kernel's relay, and the gateways that come to it."""

    kernel: RunningKernel
    relay: Relay
    source: Source
    connection: KernelConnection
    hubs: list[Hub] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    async def come(self, heard: int | None = None) -> Hub:
        """A gateway; with `heard` one that takes up what another left."""
        known = {} if heard is None else {self.hubs[-1].stream: Durable(heard)}
        hub = Hub(self.connection, heard=known)
        self.hubs.append(hub)
        await hub.open(120)
        return hub

    async def run(
        self, hub: Hub, code: str, name: str, *, timeout: float = 120, elapsed: float = 0.0, grace: float = 5
    ) -> Outcome:
        self.events.clear()
        return await execute(
            hub,
            code,
            timeout_seconds=timeout,
            interrupt_grace_seconds=grace,
            caps=OutputCaps(),
            interrupt=self.kernel.interrupt,
            emit=self.events.append,
            execution_id=name,
            elapsed_seconds=elapsed,
        )

    async def leave(self, running: asyncio.Task[Outcome] | None = None) -> None:
        """The gateway is killed, as far as its guest can see."""
        if running is not None:
            running.cancel()
        await self.hubs[-1].aclose()


Scenario = Callable[[Guest], Awaitable[Any]]


@pytest.fixture(params=["unix", "tls"])
def on_guest(request: pytest.FixtureRequest, short_directory: Path) -> Iterator[Callable[[Scenario], None]]:
    kernel = RunningKernel()

    async def run(scenario: Scenario) -> None:
        source = Source(kernel)
        relay = Relay(source, lambda n: reach_ipc(f"{kernel.directory}/kernel", f"g1-{n}"), Runs(), open_unnamed)
        server, connection = await _serve(request.param, kernel, lambda: Connection(lambda _name, _generation: relay))
        guest = Guest(kernel, relay, source, connection)
        try:
            await scenario(guest)
        finally:
            for each in guest.hubs:
                await each.aclose()
            relay.close()
            server.close()

    yield lambda scenario: asyncio.run(run(scenario))
    kernel.stop()


async def _serve(
    transport: str, kernel: RunningKernel, make: Callable[[], Connection]
) -> tuple[asyncio.Server, KernelConnection]:
    loop, of = asyncio.get_running_loop(), kernel.connection
    if transport == "unix":
        Path(kernel.directory, "guest").mkdir(exist_ok=True)
        server = await loop.create_unix_server(make, f"{kernel.directory}/guest/relay.sock")
        return server, KernelConnection(of.dial, 1, of.key, relay="python")
    authority = trustme.CA()
    inside, outside = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), ssl.create_default_context()
    authority.issue_cert("guest.test").configure_cert(inside)
    authority.issue_cert("gateway.test").configure_cert(outside)
    for each in (inside, outside):
        authority.configure_trust(each)
    inside.verify_mode = ssl.CERT_REQUIRED
    server = await loop.create_server(make, "127.0.0.1", 0, ssl=inside)
    port = server.sockets[0].getsockname()[1]
    return server, OverTls(of.dial, 1, of.key, relay="python", port=port, tls=outside)
