"""An API server that forwards ports to one listener of this machine, and refuses, hangs or breaks off on demand.

What a kubelet and its container engine answer here was seen from those of 1.20.
"""

from __future__ import annotations

import asyncio
import http
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import trustme
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

TOKENS = """#!/bin/sh
echo x >> {asked}
printf '{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status":'
printf '{{"token": "token-%s", "expirationTimestamp": "2001-01-01T00:00:00Z"}}}}' $(wc -l < {asked})
"""
"""A program as a kubeconfig names for tokens; each is of one use."""


class ForwardingServer:
    def __init__(self, port: int) -> None:
        self.port = port
        """Where pods are forwarded to."""
        self.refusal: tuple[int, str] | None = None
        self.hanging = False
        self.breaking = False
        """Whether a connection breaks once the pod has said something."""
        self.asked: list[str] = []
        self.tokens: list[str | None] = []
        self.open: set[ServerConnection] = set()
        self.sent_bytes = 0
        self.url = ""

    async def process(self, connection: ServerConnection, request: Request) -> Response | None:
        self.asked.append(request.path)
        self.tokens.append(request.headers.get("Authorization"))
        if self.hanging:
            await asyncio.Event().wait()
        if self.refusal is None:
            return None
        status, message = self.refusal
        return connection.respond(http.HTTPStatus(status), json.dumps({"kind": "Status", "message": message}))

    async def forward(self, connection: ServerConnection) -> None:
        self.open.add(connection)
        port = self.port.to_bytes(2, "little")
        try:
            for channel in (b"\0", b"\1"):
                await connection.send(channel + port)
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                return await connection.send(b"\1failed to connect to localhost:7443 inside namespace")
            try:
                await self._carry(connection, reader, writer)
            finally:
                writer.close()
        except ConnectionClosed:
            return None
        finally:
            self.open.discard(connection)

    async def _carry(
        self, connection: ServerConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        async def down() -> None:
            while piece := await reader.read(32 * 1024):
                if self.breaking:
                    connection.transport.abort()
                await connection.send(b"\0" + piece)
                self.sent_bytes += len(piece)

        async def up() -> None:
            async for message in connection:
                assert isinstance(message, bytes)
                assert message[0] == 0
                writer.write(message[1:])
                await writer.drain()

        ways = [asyncio.create_task(each) for each in (down(), up())]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for each in ways:
            each.cancel()
            with suppress(asyncio.CancelledError, ConnectionClosed, OSError):
                await each


@asynccontextmanager
async def forwarding_server(directory: Path, port: int) -> AsyncIterator[tuple[ForwardingServer, Path]]:
    """It, and the kubeconfig of an account whose tokens a program gives out."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    trusted = directory / "api-ca.crt"
    authority.cert_pem.write_to_path(str(trusted))
    program = directory / "token"
    program.write_text(TOKENS.format(asked=directory / "asked"))
    program.chmod(0o700)
    server = ForwardingServer(port)
    serving = serve(
        server.forward,
        "127.0.0.1",
        0,
        ssl=context,
        subprotocols=[Subprotocol("v4.channel.k8s.io")],
        compression=None,
        process_request=server.process,
        close_timeout=1,
    )
    async with serving as listening:
        server.url = f"https://127.0.0.1:{next(iter(listening.sockets)).getsockname()[1]}"
        ran = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": {"server": server.url, "certificate-authority": str(trusted)}}],
            "users": [{"name": "it", "user": {"exec": ran}}],
        }
        place = directory / "kubeconfig"
        place.write_text(json.dumps(config))
        yield server, place
