"""The way out of a pod: what a program sends to the guest's port comes to the service, over what it has lent."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from kernels.cancelling import cancel_all
from kernels.errors import SandboxFailed, SandboxGone
from kernels.guest.network.egress import EgressGateway
from kernels.guest.network.front import serve_front
from kernels.guest.network.lent import MOST_WAITING, Lender
from kernels.guest.network.pieces import PIECE_BYTES, Stream, join
from kernels.guest.options import Options
from kernels.kubernetes import certificates
from kernels.kubernetes.streams import Direct, open_stream
from kernels.kubernetes.ways_out import WAITING, WaysOut
from tests.doubles.server_process import free_port

NAME = "sandcell-of-this-test"
SANDBOX = "0bddc141-7f55-4b6c-8f0d-d70b7eb43059"
GUARD_SECONDS = 120


class Place:
    """A guest's ports and front; `ways` is the service's half, and `accept` what stands for its proxy."""

    def __init__(self, directory: Path) -> None:
        self.options = Options()
        self.options.transport, self.options.tls_keys = str(directory / "transport"), str(directory / "keys")
        self.options.network = "PUBLIC"
        keys = certificates.make(NAME)
        for each in ("keys", "transport"):
            (directory / each).mkdir()
        for file in certificates.GUEST_FILES:
            (directory / "keys" / file).write_bytes(keys[file])
        self._context = certificates.open_context(keys)
        self.ways = WaysOut(directory / "pods")
        self.ports: dict[str, int] = {}
        self.gone = False

    async def reach(self) -> Stream:
        if self.gone:
            raise SandboxGone("it is gone")
        return await open_stream(Direct(("127.0.0.1", self.options.tls_port)), NAME, self._context)

    async def listen(self, name: str = "http") -> socket.socket:
        return await self.ways.open(SANDBOX, name, self.reach)

    async def program(self, name: str = "http") -> Stream:
        return await asyncio.open_connection("127.0.0.1", self.ports[name])


@asynccontextmanager
async def place(directory: Path, **options: object) -> AsyncIterator[Place]:
    there = Place(directory)
    vars(there.options).update(options)
    there.options.tls_port = free_port()
    listeners = {name: socket.create_server(("127.0.0.1", 0)) for name in ("http", "s3")}
    for name, each in listeners.items():
        each.setblocking(False)
        there.ports[name] = each.getsockname()[1]
    lender = Lender(there.options)
    await lender.start()
    front = await serve_front(there.options, lender)

    async def answer_index(inside: socket.socket) -> None:
        raise AssertionError

    gateway = EgressGateway(there.options, {name: each.detach() for name, each in listeners.items()}, answer_index)
    try:
        async with asyncio.timeout(GUARD_SECONDS):
            yield there
    finally:
        await there.ways.aclose()
        await gateway.close()
        front.close()
        lender.close()


@asynccontextmanager
async def serving(
    listener: socket.socket, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> AsyncIterator[None]:
    """The service's end."""
    tasks: set[asyncio.Task[None]] = set()

    async def one(connection: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        with closing(writer):
            await serve(reader, writer)

    async def accept() -> None:
        while True:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            tasks.add(asyncio.create_task(one(connection)))

    tasks.add(asyncio.create_task(accept()))
    try:
        yield
    finally:
        await cancel_all(list(tasks))
        listener.close()


async def answer_at_the_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, says: bytes = b"") -> None:
    """Say everything twice, once all of it is here: the program has ended its way by then, and reads on."""
    writer.write(says + await reader.read() * 2)
    await writer.drain()


def test_each_way_ends_by_itself_and_more_programs_come_than_connections_wait(tmp_path: Path) -> None:
    async def ask(there: Place, number: int) -> bool:
        reader, writer = await there.program()
        sent = bytes([number]) * (PIECE_BYTES * 3 + 1)
        writer.write(sent)
        writer.write_eof()
        got = await reader.read()
        writer.close()
        return got == sent * 2

    async def run() -> None:
        async with place(tmp_path) as there, serving(await there.listen(), answer_at_the_end):
            assert all(await asyncio.gather(*(ask(there, number) for number in range(WAITING * 4))))
            assert await asyncio.to_thread(os.listdir, tmp_path / "pods") == []

    asyncio.run(run())


def test_ways_lead_each_to_its_own_socket_and_the_last_one_of_a_name_counts(tmp_path: Path) -> None:
    async def hear(there: Place, name: str) -> bytes:
        reader, writer = await there.program(name)
        writer.write_eof()
        heard = await reader.read()
        writer.close()
        return heard

    async def run() -> None:
        async with place(tmp_path, role="s3://bucket/prefix") as there:
            serve = functools.partial
            async with (
                serving(await there.listen("http"), serve(answer_at_the_end, says=b"http")),
                serving(await there.listen("s3"), serve(answer_at_the_end, says=b"s3")),
            ):
                assert [await hear(there, name) for name in ("http", "s3")] == [b"http", b"s3"]
                async with serving(await there.listen("http"), serve(answer_at_the_end, says=b"another")):
                    assert await hear(there, "http") == b"another"

    asyncio.run(run())


def test_a_service_that_is_gone_is_followed_by_another(tmp_path: Path) -> None:
    """Its connections still wait in the guest, or have just been closed: none is taken for one that leads on."""

    async def run() -> None:
        async with place(tmp_path) as there:
            first = there.ways
            (await there.listen()).close()  # nothing accepts there any more, as of a service that was killed
            there.ways = WaysOut(tmp_path / "pods")
            try:
                async with serving(await there.listen(), answer_at_the_end):
                    for _ in range(WAITING + 2):
                        reader, writer = await there.program()
                        writer.write(b"x")
                        writer.write_eof()
                        assert await reader.read() == b"xx"
                        writer.close()
            finally:
                await first.aclose()
                await there.ways.aclose()

    asyncio.run(run())


def test_without_a_connection_programs_hear_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.guest.network.lent.LEND_SECONDS", 0.1)

    async def run() -> None:
        async with place(tmp_path) as there:
            reader, writer = await there.program()
            writer.write(b"GET http://example.org/ HTTP/1.1\r\n\r\n")
            assert b"503" in await reader.readline()
            assert b"no_proxy" in await reader.read()
            writer.close()

    asyncio.run(run())


def test_a_guest_keeps_as_many_connections_as_it_may_and_none_for_what_it_has_not(tmp_path: Path) -> None:
    async def offer(there: Place, name: str) -> Stream:
        stream = await there.reach()
        stream[1].write(f"egress/{name}\n".encode())
        return stream

    async def run() -> None:
        async with place(tmp_path) as there:
            for name in ("s3", "packages", "guest", "", "../guest/http"):
                reader, writer = await offer(there, name)
                assert await reader.readline() == b"absent\n", name
                writer.close()
            kept = [await offer(there, "http") for _ in range(MOST_WAITING + 1)]
            answers = [asyncio.create_task(reader.readline()) for reader, _ in kept]
            done, waiting = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [b"absent\n"]
            assert len(waiting) == MOST_WAITING
            await cancel_all(answers)
            for _, writer in kept:
                writer.close()

    asyncio.run(run())


def test_a_way_of_a_sandbox_that_is_gone_ends_and_no_others_are_opened(tmp_path: Path) -> None:
    async def run() -> None:
        async with place(tmp_path) as there:
            there.gone = True
            with await there.listen():
                await there.ways.close(SANDBOX)
            with pytest.raises(SandboxFailed, match="no way out 'ssh'"):
                await there.listen("ssh")

    asyncio.run(run())


@pytest.mark.parametrize("came", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x09cut", b"\x00\x01\x00\x01", b""])
def test_what_is_no_piece_cuts_the_connection(came: bytes) -> None:
    async def run() -> None:
        (plain, ours), (pieces, theirs) = socket.socketpair(), socket.socketpair()
        ends = [await asyncio.open_connection(sock=each) for each in (plain, pieces, theirs, ours)]
        ends[2][1].write(came)
        ends[2][1].write_eof()
        async with asyncio.timeout(GUARD_SECONDS):
            with pytest.raises((ValueError, EOFError)):
                await join(ends[0], ends[1])
        for _, writer in ends:
            writer.close()

    asyncio.run(run())
