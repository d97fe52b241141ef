"""Where the host comes in: the guest's HTTP socket, the relay's, and the loopback ports that lead out.

gVisor saves no sandbox that listens on a socket of the host, or waits at a TCP port. So before it is saved all of them
are closed, and opened again once the host says that the sandbox goes on: in the restored one, or in this one, when it
was not saved.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket

from ..network.egress import EgressGateway
from ..options import Options
from ..processes.unsavable import find_unsavable
from ..refusal import Refusal
from .control import Control

POLL_SECONDS = 0.02
ANSWER_SECONDS = 0.05
"""For the answer to the request to go out."""
NEVER_SAVED_SECONDS = 90.0
"""On the sandbox's own clock: it was not saved, and nobody has said so."""


class Doors:
    """Open from `open` to `close`; `stand_by` closes them for a while."""

    def __init__(
        self, options: Options, control: Control, make_server: Callable[[], HTTPServer], ports: dict[str, int]
    ) -> None:
        """`make_server` is called each time they are opened: a server that was stopped once cannot be again."""
        self._options, self._control, self._make_server = options, control, make_server
        self._server: HTTPServer | None = None
        self._ports = ports
        self._relays: asyncio.Server | None = None
        self._egress_gateway: EgressGateway | None = None
        self._standing_by: asyncio.Task[None] | None = None
        control.stand_by = self.stand_by

    async def open(self) -> None:
        """Listen everywhere."""
        options, loop = self._options, asyncio.get_running_loop()
        self._server = self._make_server()
        self._server.add_socket(bind_unix_socket(options.http_socket, mode=0o600))
        relay = bind_unix_socket(options.relay_socket, mode=0o600)
        self._relays = await loop.create_unix_server(self._control.accept_gateway, sock=relay)
        ports = {name: os.dup(listener) for name, listener in self._ports.items()}
        self._egress_gateway = EgressGateway(options, ports, self._control.missing_index.answer)

    async def close(self) -> None:
        """Listen nowhere; what is on its way out is cut off."""
        await self._stop_listening()
        self._remove_files()

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.stop()
        if self._relays is not None:
            self._relays.close()
        if self._egress_gateway is not None:
            await self._egress_gateway.close()

    def _remove_files(self) -> None:
        for path in (self._options.http_socket, self._options.relay_socket):
            with suppress(FileNotFoundError):
                os.unlink(path)

    def stand_by(self) -> None:
        """Close everything a moment from now, and open it again when the host has put its mark there.

        Raises Refusal where that would not be enough for the sandbox to be saved.
        """
        options = self._options
        own_ports = {options.http_port, options.s3_port, options.packages_port}
        own_sockets = {options.http_socket, options.relay_socket}
        why = find_unsavable(own_ports, own_sockets, options.kernel_directory)
        if why is not None:
            raise Refusal(409, "unsavable", f"the sandbox could not be saved: {why}")
        self._control.require_at_rest()
        if self._standing_by is not None:
            raise Refusal(409, "busy", "the sandbox is about to be saved already")
        with suppress(FileNotFoundError):  # of a time before
            os.unlink(self._options.awake_mark)
        self._standing_by = asyncio.get_running_loop().create_task(self._stand_by())

    async def _stand_by(self) -> None:
        try:
            await asyncio.sleep(ANSWER_SECONDS)
            self._control.drop_gateways()
            await self._stop_listening()
            if self._server is not None:
                await self._server.close_all_connections()
            self._remove_files()  # last: once they are gone, the host begins to save the sandbox
            await self._wait_awake()
            await self.open()
        finally:
            self._standing_by = None

    async def _wait_awake(self) -> None:
        loop = asyncio.get_running_loop()
        give_up = loop.time() + NEVER_SAVED_SECONDS
        while not os.path.lexists(self._options.awake_mark) and loop.time() < give_up:  # noqa: ASYNC110 - of the host
            await asyncio.sleep(POLL_SECONDS)
        with suppress(FileNotFoundError):
            os.unlink(self._options.awake_mark)
