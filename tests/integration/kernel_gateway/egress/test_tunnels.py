"""Tunnels and where they lead: bytes both ways, their ends, their deadlines, budgets, and the address decided on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kernel_gateway.egress.session_egress import SessionEgress
from kernels.environment import Endpoint, NetworkMode

from .conftest import OK, Test, Way, answering, echo

Runner = Callable[[Test], None]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def dig(way: Way, authority: str, early: bytes = b"") -> Streams:
    """An established tunnel."""
    reader, writer = await way.connect()
    writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode() + early)
    async with asyncio.timeout(120):
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    return reader, writer


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():
            await asyncio.sleep(0.01)


def test_bytes_go_both_ways_and_are_counted(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(echo)
        egress = await way.open()
        much = os.urandom(5_000_000)

        async def through() -> bytes:
            reader, writer = await dig(way, f"127.0.0.1:{port}", early=much[:10])
            sending = asyncio.create_task(write(writer, much[10:]))
            back = await reader.read(-1)
            await sending
            return back

        assert await asyncio.gather(through(), through()) == [much, much]
        await until(lambda: egress.usage.connections_open == 0)
        assert (egress.usage.sent_bytes, egress.usage.received_bytes) == (10_000_000, 10_000_000)
        ends = [one for one in way.decisions if one.ended]
        assert [(one.kind, one.method, one.sent_bytes, one.allowed) for one in ends] == [
            ("connect", "CONNECT", 5_000_000, True)
        ] * 2

    with_way(test)


async def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    writer.write_eof()
    await writer.drain()


def test_either_side_may_end_first(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        async def last_word(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"bye")
            writer.write_eof()
            heard.append(await reader.read())
            writer.close()

        heard: list[bytes] = []
        port = await way.serve(last_word)
        await way.open()
        reader, writer = await dig(way, f"127.0.0.1:{port}")
        assert await reader.read() == b"bye"
        await write(writer, b"still here")
        await until(lambda: bool(heard))
        assert heard == [b"still here"]

    with_way(test)


def test_a_tunnel_ends_with_its_session(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        gone: list[bytes] = []

        async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            gone.append(await reader.read())
            writer.close()

        port = await way.serve(hold)
        egress = await way.open()
        reader, _ = await dig(way, f"127.0.0.1:{port}")
        await until(lambda: egress.usage.connections_open == 1)
        await egress.aclose()
        async with asyncio.timeout(120):
            assert await reader.read() == b""
            await until(lambda: gone == [b""])
        assert egress.usage.connections_open == 0
        assert way.decisions[-1].reason == "cut: the session's way out was closed"
        with pytest.raises(OSError, match="refused"):
            await way.connect()
        await egress.aclose()

    with_way(test)


def test_a_silent_tunnel_is_given_up_and_a_talking_one_is_not(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(echo)
        await way.open(idle_seconds=4)
        reader, writer = await dig(way, f"127.0.0.1:{port}")
        for _ in range(25):
            await asyncio.sleep(0.2)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        assert await reader.read() == b""
        assert way.decisions[-1].reason.startswith("idle: ")

    with_way(test)


def test_a_reader_that_does_not_read_holds_up_nobody_else_and_fills_no_memory(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        written = 0

        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal written
            try:
                while True:
                    writer.write(bytes(65536))
                    await writer.drain()
                    written += 65536
            except ConnectionError:
                writer.close()

        port, other = await way.serve(pour), await way.serve(answering(OK))
        egress = await way.open()
        reader, writer = await dig(way, f"127.0.0.1:{port}")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        before = -1
        async with asyncio.timeout(120):
            while not written or written != before:
                before = written
                await asyncio.sleep(0.3)
        assert egress.usage.received_bytes < 3_000_000
        assert b"200 OK" in await way.get(f"http://127.0.0.1:{other}/")
        del reader

    with_way(test)


def test_a_transfer_leaves_the_loop_to_others(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(bytes(30_000_000))
            writer.write_eof()
            await reader.read()
            writer.close()

        port = await way.serve(pour)
        egress = await way.open()
        reader, writer = await dig(way, f"127.0.0.1:{port}")
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        while await reader.read(1 << 20):
            pass
        counting.cancel()
        writer.close()
        assert turns > egress.usage.received_bytes / 65536

    with_way(test)


async def refused_with(way: Way, authority: str, status: int, word: str) -> None:
    head = (await way.tunnel(authority)).decode()
    assert head.startswith(f"HTTP/1.1 {status} Network mode "), head
    assert f"X-Sandcell-Refusal: {word}\r\n" in head, head


def test_budgets_are_answers(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(echo)
        egress = await way.open(requests=4, connections=2)
        tunnels = [await dig(way, f"127.0.0.1:{port}") for _ in range(2)]
        await refused_with(way, f"127.0.0.1:{port}", 429, "connections")
        for _, writer in tunnels:
            writer.close()
        await until(lambda: egress.usage.connections_open == 0)
        await dig(way, f"127.0.0.1:{port}")
        for _ in range(3):
            await refused_with(way, f"127.0.0.1:{port}", 429, "requests")
        assert way.words().count("requests") == 1
        assert egress.usage.requests == 4
        assert egress.usage.refused == 4

    with_way(test)


def test_bytes_are_cut_at_their_limit(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        heard: list[bytes] = []

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while piece := await reader.read(65536):
                heard.append(piece)
            writer.close()

        port = await way.serve(hear)
        egress = await way.open(sent_bytes=100_000, idle_seconds=5)  # nobody answers what still goes through
        reader, writer = await dig(way, f"127.0.0.1:{port}")
        writer.write(bytes(1_000_000))
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        await until(lambda: egress.usage.connections_open == 0)
        assert sum(map(len, heard)) <= 100_000
        assert way.decisions[-1].reason == "sent_bytes: the session has sent the 100000 bytes it may"
        last = [await way.get(f"http://127.0.0.1:{port}/?{'x' * 30_000}") for _ in range(2)]
        assert b" 429 Network mode PUBLIC: the session has sent" in last[1]

    with_way(test)


def test_received_bytes_are_cut_in_plain_http_too(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + bytes(1_000_000)))
        egress = await way.open(received_bytes=200_000)
        answer = await way.get(f"http://127.0.0.1:{port}/")
        assert len(answer) <= 200_000
        assert egress.usage.received_bytes <= 200_000
        assert way.decisions[-1].reason.startswith("received_bytes: ")

    with_way(test)


NOWHERE = {
    "127.0.0.1:1": "loopback_address",
    "[::1]:1": "loopback_address",
    "[::ffff:127.0.0.1]:1": "loopback_address",
    "[64:ff9b::127.0.0.1]:1": "loopback_address",
    "0.0.0.0:1": "unspecified_address",
    "[::]:1": "unspecified_address",
    "10.0.0.1:1": "private_address",
    "192.168.0.1:1": "private_address",
    "[fd00::1]:1": "private_address",
    "100.64.0.1:1": "shared_address",
    "169.254.1.1:1": "link_local_address",
    "[fe80::1]:1": "link_local_address",
    "169.254.169.254:80": "metadata_address",
    "[::ffff:a9fe:a9fe]:80": "metadata_address",
    "[fd00:ec2::254]:80": "metadata_address",
    "168.63.129.16:80": "metadata_address",
    "224.0.0.1:1": "multicast_address",
    "[ff02::1]:1": "multicast_address",
    "255.255.255.255:1": "reserved_address",
    "[2002:7f00:1::]:1": "transition_address",
    "0x7f.1:1": "odd_address",
    "017700000001:1": "odd_address",
    "2130706433:1": "odd_address",
    "127.1:1": "odd_address",
    "[fe80::1%lo]:1": "odd_address",
    "localhost:1": "loopback_address",
    "metadata.example:80": "metadata_address",
    "mixed.example:1": "private_address",
    "mapped.example:1": "loopback_address",
    "scoped.example:1": "link_local_address",
    "unknown.example:1": "not_resolved",
    "nonsense.example:1": "not_resolved",
}
NAMES = {
    "localhost": ["127.0.0.1", "::1"],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["10.0.0.1", "127.0.0.1", "fd00::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "scoped.example": ["fe80::1%eth0"],
    "nonsense.example": ["nonsense"],
}


@pytest.mark.parametrize("mode", ["PUBLIC", "ALLOWLIST"])
def test_what_is_not_public_is_reached_in_no_mode_by_no_notation(with_way: Runner, mode: str) -> None:
    async def test(way: Way) -> None:
        way.names = {name: [answer] for name, answer in NAMES.items()}
        hosts = [one.rpartition(":") for one in NOWHERE]
        allow = [Endpoint(host.lower(), int(port)) for host, _, port in hosts] if mode == "ALLOWLIST" else []
        allow += [
            Endpoint("127.0.0.1", 1),
            Endpoint("10.0.0.1", 1),
            Endpoint("::1", 1),
            Endpoint("169.254.169.254", 80),
        ]
        await way.open(NetworkMode(mode), *allow)
        for authority, word in NOWHERE.items():
            head = (await way.tunnel(authority)).decode()
            said = head.partition("X-Sandcell-Refusal: ")[2].partition("\r\n")[0]
            assert said in {word, "not_declared" if mode == "ALLOWLIST" else word}, (authority, head)
        assert not any(one.allowed for one in way.decisions if "not_resolved" not in one.reason)
        assert len(way.decisions) == len(NOWHERE)
        assert all(name.endswith(".") for name in way.asked)

    with_way(test)


def test_the_address_that_was_decided_on_is_connected_to_and_no_other_is_asked_for(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        reached: list[str] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reached.append(writer.get_extra_info("sockname")[0])
            await answering(OK)(reader, writer)

        port = await way.serve(serve)
        way.names["rebinding.example"] = [["127.0.0.1"], ["127.0.0.2"]]  # only the first of them is declared
        await way.open()
        assert b"200 OK" in await way.get(f"http://rebinding.example:{port}/")
        assert (reached, len(way.asked)) == (["127.0.0.1"], 1)
        assert b"(loopback_address)" in await way.get(f"http://rebinding.example:{port}/")
        assert (reached, len(way.asked)) == (["127.0.0.1"], 2)
        assert [one.address for one in way.decisions if not one.ended] == ["127.0.0.1", "127.0.0.2"]

    with_way(test)


def test_of_several_addresses_only_those_that_may_be_are_tried(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(OK))
        way.names["several.example"] = [["10.0.0.1", "127.0.0.2", "127.0.0.1"]]
        await way.open()
        assert b"200 OK" in await way.get(f"http://several.example:{port}/")
        assert way.decisions[0].address == "127.0.0.1"

    with_way(test)


def test_a_name_that_is_not_declared_is_never_looked_up(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        await way.open(NetworkMode.ALLOWLIST, Endpoint("pypi.org"))
        for name in ("secret-in-a-name.evil.example", "pypi.org.evil.example"):
            await refused_with(way, f"{name}:443", 403, "not_declared")
        await refused_with(way, "pypi.org:443", 502, "not_resolved")
        assert way.asked == ["pypi.org."]

    with_way(test)


def test_in_sandbox_the_host_refuses_what_a_guest_lets_through(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(OK))
        await way.open(NetworkMode.SANDBOX)
        await refused_with(way, "pypi.org:443", 403, "no_network")
        answer = await way.get(f"http://127.0.0.1:{port}/")
        assert answer.startswith(b"HTTP/1.1 403 Network mode SANDBOX: nothing may be reached")
        assert way.asked == []

    with_way(test)


def test_a_port_where_nothing_listens_and_a_name_server_that_says_nothing(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(echo)
        way.declared.append(Endpoint("127.0.0.1", 1))

        async def never(host: str, port: int) -> list[str]:
            await asyncio.Event().wait()
            return []

        await way.open()
        await refused_with(way, "127.0.0.1:1", 502, "unreachable")
        assert way.decisions[0].allowed
        way.resolve = never  # type: ignore[method-assign]
        egress = await way.open(connect_seconds=2)
        answers = await asyncio.gather(*(way.tunnel("silent.example:443") for _ in range(8)))
        assert all(b" 504 Network mode PUBLIC: no name server answered for silent.example" in one for one in answers)
        await dig(way, f"127.0.0.1:{port}")
        await egress.aclose()

    with_way(test)


def test_an_address_that_says_nothing_leaves_time_for_the_next(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(answering(OK))
        with socket.create_server(("127.0.0.3", port), backlog=0) as full:
            waiting = [socket.socket() for _ in range(4)]
            for one in waiting:  # a queue that is full, so that nothing answers
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            way.declared.append(Endpoint("127.0.0.3", port))
            way.names["several.example"] = [["127.0.0.3", "127.0.0.1"]]
            await way.open(connect_seconds=6)
            assert b"200 OK" in await way.get(f"http://several.example:{port}/")
            assert way.decisions[0].address == "127.0.0.1"
            for one in waiting:
                one.close()

    with_way(test)


def test_a_session_that_ends_leaves_no_descriptor(with_way: Runner) -> None:
    async def test(way: Way) -> None:
        port = await way.serve(echo)

        def open_sockets() -> int:
            links = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
            return sum("socket:" in str(one.readlink()) for one in links)

        before = open_sockets()
        egress: SessionEgress = await way.open()
        tunnels = [await dig(way, f"127.0.0.1:{port}") for _ in range(10)]
        await way.tunnel("10.0.0.1:1")
        await egress.aclose()
        for reader, writer in tunnels:
            assert await reader.read() == b""
            writer.close()
        await until(lambda: open_sockets() <= before)

    with_way(test)
