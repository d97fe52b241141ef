"""The way in from another machine: one port with mutual TLS, behind it the guest's and the kernels' Unix sockets.

Only a sandbox whose gateway is not on its host has it (`--tls-port`). Who connects shows the gateway's certificate of
this sandbox alone, and says in one line which socket it wants; from `ok` on bytes go both ways until an end closes.
A connection for a way out is kept for a program (`lent`).
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import cast

from ..deadline import timeout
from ..options import Options
from .lent import PREFIX, Lender

MOST_CONNECTIONS = 200
HELLO_SECONDS = 10.0
LONGEST_NAME = 80
PIECE_BYTES = 64 * 1024
_KERNEL = re.compile(r"kernel/(g[1-9][0-9]{0,7}-[1-5])")
_SECOND = re.compile(r"kernel/((?:deno|spec)-g[1-9][0-9]{0,7}-[1-4])")


async def serve_front(options: Options, lender: Lender) -> asyncio.AbstractServer:
    """Listen on all addresses of the sandbox; raises OSError when the keys or the port cannot be had."""
    front = _Front(options, lender)
    return await asyncio.start_server(
        front.take, port=options.tls_port, ssl=make_context(options.tls_keys), limit=PIECE_BYTES
    )


def make_context(keys: str) -> ssl.SSLContext:
    """Ours is `guest.crt`; who comes has a certificate of the same authority, `ca.crt`, which made none for others."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(f"{keys}/guest.crt", f"{keys}/guest.key")
    context.load_verify_locations(f"{keys}/ca.crt")
    return context


def find_socket(options: Options, name: str) -> str:
    """The path of the socket of this name, empty when there is none of such a name (pure)."""
    if name == "guest":
        return options.http_socket
    if name == "relay":
        return options.relay_socket
    if found := _KERNEL.fullmatch(name):
        return f"{options.kernel_directory}/{found[1]}"
    if found := _SECOND.fullmatch(name):
        return f"{options.guest_directory}/{found[1]}"
    return ""


class _Front:
    def __init__(self, options: Options, lender: Lender) -> None:
        self._options = options
        self._lender = lender
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, whose other end has shown its certificate."""
        try:
            async with self._room:
                async with timeout(HELLO_SECONDS):
                    name = (await reader.readline())[:LONGEST_NAME].decode("ascii").strip()
                if not name.startswith(PREFIX):
                    return await self._carry(name, writer)
            # Outside of that room: programs that have their way out keep no gateway from reaching the guest.
            await self._lender.lend(name[len(PREFIX) :], (reader, writer))
        except (OSError, ValueError, asyncio.TimeoutError):
            pass
        finally:
            writer.close()

    async def _carry(self, name: str, writer: asyncio.StreamWriter) -> None:
        far, near = _End(), _End()
        try:
            path = find_socket(self._options, name)
            if not path:
                raise FileNotFoundError(name)
            await asyncio.get_running_loop().create_unix_connection(lambda: near, path)
        except OSError:
            writer.write(b"absent\n")
            await writer.drain()
            return
        writer.write(b"ok\n")  # the other end waits for this: nothing has come behind the name
        writer.transport.set_protocol(far)
        far.connection_made(writer.transport)
        far.other, near.other = near, far
        if writer.transport.is_closing():
            near.transport.close()
        far.transport.resume_reading()
        near.transport.resume_reading()
        await near.lost


class _End(asyncio.Protocol):
    """What comes to it is written to the other end at once, and read no faster than that one takes it.

    It reads from `resume_reading` on, when it has another end.
    """

    other: _End
    transport: asyncio.Transport

    def __init__(self) -> None:
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(PIECE_BYTES)
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.other.transport.write(data)

    def pause_writing(self) -> None:
        self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """What ends one way ends, once what came before has gone out."""
        self.other.transport.close()
        self.lost.set_result(None)
