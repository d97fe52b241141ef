"""Streams to a guest over TCP with mutual TLS: the guest's own front, and who may pass it."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kernels.cancelling import cancel_all
from kernels.errors import NotListening
from kernels.guest.network.front import serve_front
from kernels.guest.network.lent import Lender
from kernels.guest.options import Options
from kernels.kubernetes import certificates
from kernels.kubernetes.streams import Direct, End, Streams
from tests.doubles.server_process import free_port

NAME = "sandcell-of-this-test"
GUARD_SECONDS = 120


@dataclass
class Place:
    """A guest's front, and what stands for the guest behind it, which says everything twice."""

    port: int
    keys: dict[str, bytes]
    streams: Streams

    async def open(self, wanted: str, keys: dict[str, bytes] | None = None, name: str = NAME) -> socket.socket:
        context = certificates.open_context(keys or self.keys)
        return await self.streams.open(Direct(("127.0.0.1", self.port)), name, wanted, context)


@asynccontextmanager
async def place(directory: Path, now: datetime | None = None) -> AsyncIterator[Place]:
    keys = certificates.make(NAME, now)
    (directory / "keys").mkdir()
    for file in certificates.GUEST_FILES:
        (directory / "keys" / file).write_bytes(keys[file])
    options = Options()
    options.transport, options.tls_keys = str(directory), str(directory / "keys")
    options.tls_port = free_port()
    (directory / "guest").mkdir()
    serving: set[asyncio.Task[None] | None] = set()

    async def twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        with closing(writer):
            while piece := await reader.read(65536):
                writer.write(piece * 2)
                await writer.drain()

    behind = await asyncio.start_unix_server(twice, options.http_socket)
    front = await serve_front(options, Lender(options))
    streams = Streams()
    try:
        async with asyncio.timeout(GUARD_SECONDS):
            yield Place(options.tls_port, keys, streams)
    finally:
        await streams.aclose()
        front.close()
        behind.close()
        await cancel_all(serving)


def test_bytes_go_both_ways_until_an_end_closes(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            reader, writer = await asyncio.open_connection(sock=await there.open("guest"))
            sent = bytes(range(256)) * 4096
            writer.write(sent)
            assert len(await reader.readexactly(len(sent) * 2)) == len(sent) * 2
            writer.write(b"x")
            assert await reader.readexactly(2) == b"xx"
            writer.close()

    asyncio.run(run())


def test_what_is_under_way_with_a_guest_that_is_lost_ends_and_nothing_else(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            reader, writer = await asyncio.open_connection(sock=await there.open("guest"))
            there.streams.cut("sandcell-of-another")
            writer.write(b"x")
            assert await reader.readexactly(2) == b"xx"
            there.streams.cut(NAME)
            assert await reader.read() == b""
            writer.close()

    asyncio.run(run())


def test_what_is_being_opened_is_its_callers_to_end() -> None:
    """Who dials a guest that is given up says why in words of his own: see `KubernetesRuntime.dial`."""

    class Slow:
        async def connect(self, name: str, context: ssl.SSLContext, make: Callable[[], End]) -> End:
            return (await asyncio.get_running_loop().create_connection(make, sock=caller))[1]

    async def run() -> None:
        loop, streams = asyncio.get_running_loop(), Streams()
        opening = asyncio.create_task(streams.open(Slow(), NAME, "guest", ssl.create_default_context()))
        assert await loop.sock_recv(guest, 100) == b"guest\n"
        streams.cut(NAME)
        await loop.sock_sendall(guest, b"ok\n")
        (await opening).close()
        await streams.aclose()

    caller, guest = socket.socketpair()
    with guest:
        for each in (caller, guest):
            each.setblocking(False)
        asyncio.run(asyncio.wait_for(run(), GUARD_SECONDS))


def test_what_a_socket_says_first_comes_and_no_more_is_read_than_is_taken(tmp_path: Path) -> None:
    """As a kernel's sockets do. Each buffer on the way is bounded."""
    size = 64 << 20
    sent = 0

    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with closing(writer), suppress(OSError):
            while sent < size:
                writer.write(sent.to_bytes(8, "big") * 8192)
                sent += 65536
                await writer.drain()

    async def run() -> None:
        async with place(tmp_path) as there:
            (tmp_path / "kernel").mkdir()
            async with await asyncio.start_unix_server(say, tmp_path / "kernel/g1-1"):
                connected, before = await there.open("kernel/g1-1"), -1
                while before != sent:
                    before = sent
                    await asyncio.sleep(0.5)
                assert 0 < before < 16 << 20
                reader, writer = await asyncio.open_connection(sock=connected)
                for each in range(0, size, 65536):
                    assert await reader.readexactly(65536) == each.to_bytes(8, "big") * 8192
                assert await reader.read() == b""
                writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("wanted", ["relay", "kernel/g1-1", "kernel/../guest/http.sock", "http.sock", ""])
def test_what_nobody_listens_at_is_said_at_once(wanted: str, tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            with pytest.raises(NotListening):
                await there.open(wanted)

    asyncio.run(run())


def test_another_sandboxs_keys_pass_neither_way(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            others = certificates.make(NAME)
            mixed = {**others, "ca.crt": there.keys["ca.crt"]}  # it believes the guest, and the guest not it
            guests = {**there.keys, "gateway.crt": there.keys["guest.crt"], "gateway.key": there.keys["guest.key"]}
            for keys in (others, mixed, guests):
                with pytest.raises(NotListening):
                    await there.open("guest", keys)
            with pytest.raises(NotListening):
                await there.open("guest", name="sandcell-of-another")

    asyncio.run(run())


def test_who_has_no_certificate_hears_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            reader, writer = await asyncio.open_connection("127.0.0.1", there.port, ssl=context)
            writer.write(b"guest\n")
            with suppress(OSError):
                assert await reader.read(10) == b""
            writer.transport.abort()

    asyncio.run(run())


def test_keys_of_long_ago_are_none(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path, datetime.now(UTC) - timedelta(days=16)) as there:
            with pytest.raises(NotListening):
                await there.open("guest")

    asyncio.run(run())
