"""The inner half of the way out: ports taken at the start, bytes carried to the host's socket, refusals without one."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.integration.kernels.guest.conftest import Guests, RunningGuest, Test

Runner = Callable[[Test], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(guest: RunningGuest, name: str, serve: Serve) -> asyncio.Server:
    """The host's side: a socket where the launcher makes it."""
    place = Path(guest.directory, "t/egress")
    place.mkdir(exist_ok=True)
    return await asyncio.start_unix_server(serve, place / f"{name}.sock", backlog=200)


async def say(port: int, request: bytes) -> bytes:
    """Send it, end, and read to the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(120):
        answer = await reader.read()
    writer.close()
    return answer


async def write_on(writer: asyncio.StreamWriter) -> None:
    """Write until that is refused."""
    while True:
        writer.write(bytes(1000))
        await writer.drain()
        await asyncio.sleep(0.01)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say what came once all of it has."""
    writer.write(b"heard: " + await reader.read())
    await writer.drain()
    writer.close()


@pytest.mark.parametrize(
    "request_",
    [b"CONNECT pypi.org:443 HTTP/1.1\r\nHost: pypi.org\r\n\r\n", b"GET http://x/ HTTP/1.1\r\n\r\n", b"\x16\x03"],
)
def test_without_a_network_the_guest_itself_says_so(with_guests: Runner, request_: bytes) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        answer = await say(guest.ports[0], request_)
        assert answer.startswith(b"HTTP/1.1 403 Network mode SANDBOX: nothing may be reached")
        assert b"no_network" in answer

    with_guests(test)


def test_without_a_network_nothing_reaches_the_host_s_socket(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start()
        reached: list[object] = []

        async def serve(*streams: object) -> None:
            reached.append(streams)

        async with await listen(guest, "http", serve):
            assert b"403" in await say(guest.ports[0], b"GET http://x/ HTTP/1.1\r\n\r\n")
        assert not reached

    with_guests(test)


def test_with_a_network_bytes_go_both_ways_and_so_do_their_ends(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--network", "PUBLIC")
        async with await listen(guest, "http", echo):
            assert await say(guest.ports[0], b"anything\n\0") == b"heard: anything\n\0"
            much = os.urandom(3_000_000)
            answers = await asyncio.gather(*(say(guest.ports[0], much) for _ in range(4)))
            assert answers == [b"heard: " + much] * 4

    with_guests(test)


def test_a_role_has_a_port_of_its_own_in_every_mode(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--role", "s3://bucket/prefix/")
        async with await listen(guest, "s3", echo):
            assert await say(guest.ports[1], b"GET /") == b"heard: GET /"
            assert b"403 Network mode SANDBOX" in await say(guest.ports[0], b"GET http://x/ HTTP/1.1\r\n\r\n")

    with_guests(test)


def test_without_a_role_there_is_no_such_port(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--network", "PUBLIC")
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", guest.ports[1])

    with_guests(test)


def test_while_the_service_is_away_programs_are_told_to_try_again(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--network", "ALLOWLIST")
        answer = await say(guest.ports[0], b"CONNECT x:443 HTTP/1.1\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 Network mode ALLOWLIST: the way out is not there")
        async with await listen(guest, "http", echo):
            assert await say(guest.ports[0], b"x") == b"heard: x"

    with_guests(test)


def test_a_connection_that_the_host_drops_is_dropped_inside(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--network", "PUBLIC")

        async def drop(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"half")
            await writer.drain()
            writer.close()

        async with await listen(guest, "http", drop):
            reader, writer = await asyncio.open_connection("127.0.0.1", guest.ports[0])
            async with asyncio.timeout(120):
                assert await reader.read() == b"half"
                with pytest.raises(ConnectionError):
                    await write_on(writer)
            writer.close()

    with_guests(test)


def test_more_connections_than_there_may_be_wait_and_the_guest_goes_on(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--network", "PUBLIC")
        release = asyncio.Event()

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await release.wait()
            await echo(reader, writer)

        async with await listen(guest, "http", hold):
            waiting = [asyncio.create_task(say(guest.ports[0], b"x")) for _ in range(200)]
            await asyncio.sleep(0.3)
            assert len(list(Path(f"/proc/{guest.pid}/fd").iterdir())) < 2 * 128 + 50
            told = await guest.client.run_command("echo here", timeout_seconds=120, output_bytes=99)
            assert told.stdout == "here\n"
            release.set()
            assert await asyncio.gather(*waiting) == [b"heard: x"] * 200

    with_guests(test)


def test_user_code_inherits_none_of_the_ports(with_guests: Runner) -> None:
    async def test(guests: Guests) -> None:
        guest = await guests.start("--network", "PUBLIC", "--role", "s3://bucket/")
        shown = await guest.client.run_command("ls -l /proc/self/fd", timeout_seconds=10, output_bytes=2000)
        assert "socket:" not in shown.stdout
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", guest.ports[0]))

    with_guests(test)
