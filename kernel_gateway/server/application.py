"""The composition root: settings, then services, then faces, then one HTTP server; and the life of the service.

SIGTERM and SIGINT drain: no new work, what runs may finish, workspaces are flushed, sessions end (or stay, when the
settings say so). Nothing here is privileged: what needs root is asked of the launcher (`starting` says how both begin).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator

import structlog
import tornado.web

from kernel_gateway import tracing
from kernel_gateway.errors import StartRefused
from kernel_gateway.faces import agent_engine, agentcore, console, e2b, jupyter, librechat, mcp, rest
from kernel_gateway.faces.connections import Server
from kernel_gateway.faces.misdirected import OwnHosts
from kernel_gateway.hosts import Hosts
from kernel_gateway.server import doctor, sandboxes, store_claim, welcome
from kernel_gateway.server.tls import Certificate
from kernel_gateway.server.welcome import Starter
from kernel_gateway.services.composition import Services
from kernel_gateway.settings import Settings
from kernels.launcher.client import LauncherRuntime
from kernels.sandbox import Finding, SandboxRuntime
from workspace_sync import ObjectStore
from workspace_sync.stores.claimed import ClaimedStore

log = structlog.get_logger(__name__)
FACES = (agentcore, agent_engine, console, e2b, jupyter, librechat, mcp)
"""The faces before REST, which answers what none of them takes."""
_STORE_SECONDS = 10.0
"""How long the start waits to hear from the store before it goes on."""


async def run(
    settings: Settings, environments: str, runtime: LauncherRuntime, sockets: list[socket.socket], starter: Starter
) -> None:
    """Serve on these sockets until SIGTERM or SIGINT; raises our errors when it cannot start.

    `environments` is the environments file's text, read when the launcher started: a restart of this process alone
    changes nothing that the launcher has agreed to.
    """
    stop = _stop_signal()
    tracing.start(settings)
    store = store_claim.open_claimed(settings)
    looking = await _require_store(settings, store, runtime)
    async with store_claim.held(store), _services(settings, environments, runtime, store) as services:
        server = _make_server(build_application(services), services, settings)
        server.add_sockets(sockets)
        port = sockets[0].getsockname()[1]
        await welcome.greet(settings, port, services.first_token, starter, runtime)
        telling = asyncio.create_task(_tell_of_store(looking))
        await _wait(stop, runtime)
        telling.cancel()
        welcome.say("draining: running executions may finish, workspaces are flushed")
        server.stop()
    await server.close_all_connections()
    await asyncio.to_thread(tracing.stop)
    welcome.say("stopped")


async def _wait(stop: asyncio.Event, runtime: LauncherRuntime) -> None:
    """Wait for the signal. Without the launcher nothing can be ended in order: this process just goes."""
    waits = [asyncio.create_task(each.wait()) for each in (stop, runtime.gone)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if runtime.gone.is_set():
        log.error("launcher_gone")
        os._exit(1)
    for each in waits:
        each.cancel()


async def _require_store(settings: Settings, store: ClaimedStore, runtime: SandboxRuntime) -> asyncio.Task[Finding]:
    """Refuse a store that no session could use; where the answer takes long, go on and give what looks.

    Sandboxes that an earlier process left are taken up all the same: what they write waits here for the store.
    """
    looking = asyncio.create_task(asyncio.to_thread(doctor.store, settings, store.renew))
    await asyncio.wait([looking], timeout=_STORE_SECONDS)
    if looking.done():
        finding = looking.result()
        if finding.required and not finding.ok and not await runtime.list():
            raise StartRefused(f"the store cannot be used. {finding.detail}")
    return looking


async def _tell_of_store(looking: asyncio.Task[Finding]) -> None:
    """A store that is away stops no start: it may come back, and sessions wait for it. The operator is warned."""
    finding = await looking
    if finding.ok and finding.remedy:
        welcome.say(f"The store works less well than it could: {finding.remedy}")
    if not finding.ok:
        what = "cannot be used" if finding.required else "is away"
        welcome.say(f"The store {what}: {finding.detail}; {finding.remedy}")


def build_application(services: Services) -> tornado.web.Application:
    """The routes of every face over one set of services."""
    return rest.application(services, [*(rule for face in FACES for rule in face.make_rules(services))])


@contextlib.asynccontextmanager
async def _services(
    settings: Settings, environments: str, runtime: LauncherRuntime, store: ObjectStore
) -> AsyncIterator[Services]:
    """Everything behind the faces, open; closed whatever happens."""
    installed = sandboxes.Catalogue(settings, environments)
    roles = sandboxes.read_roles(settings, environments)
    services = await Services.open(
        settings, runtime=runtime, store=store, installed=installed, roles=roles, view=runtime.view, layering=runtime
    )
    try:
        yield services
    finally:
        await services.aclose()


def _make_server(application: tornado.web.Application, services: Services, settings: Settings) -> Server:
    return Server(
        OwnHosts(application, services, Hosts.of_setting(settings.allowed_hosts, settings.host)),
        settings,
        ssl_options=Certificate(settings.tls_cert, settings.tls_key).context if settings.tls_cert else None,
    )


def _stop_signal() -> asyncio.Event:
    """Set once by SIGTERM or SIGINT; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask, number)
    return stop
