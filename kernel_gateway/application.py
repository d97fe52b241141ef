"""The composition root: settings, then services, then faces, then one HTTP server; and the life of the process.

`serve` refuses to start on a host that cannot enforce what a sandbox needs. SIGTERM and SIGINT drain: no new work, what
runs may finish, workspaces are flushed, sessions end (or stay, when the settings say so).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import tornado.web
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets

from kernel_gateway import doctor, sandboxes, welcome
from kernel_gateway.errors import SettingInvalid
from kernel_gateway.faces import rest
from kernel_gateway.logs import configure_logs
from kernel_gateway.services.composition import Services
from kernel_gateway.settings import Settings
from kernels.oci import host
from workspace_sync import open_store

_MAX_HEADER_BYTES = 64 * 1024
_IDLE_CONNECTION_SECONDS = 3600


def serve(settings: Settings) -> None:
    """Run the service until SIGTERM or SIGINT; raises our errors when it cannot start."""
    configure_logs(settings)
    with _only_one(Path(settings.data_dir)):
        asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    stop = _stop_signal()
    sockets = _bound(settings)
    async with _services(settings) as services:
        server = _server(application(services), settings)
        server.add_sockets(sockets)
        port = sockets[0].getsockname()[1]
        welcome.greet(settings, port, services.first_token)
        await _warn_of_store(settings)
        await stop.wait()
        welcome.say("draining: running executions may finish, workspaces are flushed")
        server.stop()
    await server.close_all_connections()
    welcome.say("stopped")


async def _warn_of_store(settings: Settings) -> None:
    """A store that is away stops no start: it may come back, and sessions wait for it. But it is said."""
    finding = await asyncio.to_thread(doctor.store, settings)
    if not finding.ok:
        welcome.say(f"The store is away: {finding.detail}; {finding.remedy}")


def _bound(settings: Settings) -> list[socket.socket]:
    """Take the address first: a start that cannot have it leaves everything else alone."""
    try:
        return bind_sockets(settings.port, settings.host)
    except OSError as error:
        raise SettingInvalid(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; choose another host or port"
        ) from None


def application(services: Services) -> tornado.web.Application:
    """The routes of every face over one set of services."""
    return rest.application(services)


@contextlib.asynccontextmanager
async def _services(settings: Settings) -> AsyncIterator[Services]:
    """Everything behind the faces, open; closed in reverse order whatever happens."""
    runtime = sandboxes.runtime(settings)
    try:
        host.require(await runtime.check())
        installed = sandboxes.catalogue(settings)
        if not installed():
            raise SettingInvalid(
                f"no environment is built in {settings.environments_path}; run: sandcell environments build python"
            )
        store = open_store(settings.store_url)
        services = await Services.open(settings, runtime=runtime, store=store, installed=installed)
        try:
            yield services
        finally:
            await services.aclose()
    finally:
        await runtime.aclose()


def _server(application: tornado.web.Application, settings: Settings) -> HTTPServer:
    return HTTPServer(
        application,
        max_header_size=_MAX_HEADER_BYTES,
        # Each route bounds its own body, before reading it; this only keeps tornado from refusing earlier.
        max_body_size=2**53,
        idle_connection_timeout=_IDLE_CONNECTION_SECONDS,
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


@contextlib.contextmanager
def _only_one(data_dir: Path) -> Iterator[None]:
    """Two services on one data directory would remove each other's sandboxes."""
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (data_dir / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingInvalid(f"another service runs on {data_dir}; stop it, or choose another data_dir") from None
        yield
