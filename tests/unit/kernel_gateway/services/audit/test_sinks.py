"""The audit log on its way out: to real servers on this host, which are away for a while, slow, or refuse."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kernel_gateway.errors import SettingInvalid
from kernel_gateway.services.audit import feed as audit_feed
from kernel_gateway.services.audit.feed import Feed
from kernel_gateway.services.audit.http_sink import HttpSink
from kernel_gateway.services.audit.line import Entry, link_row
from kernel_gateway.services.audit.syslog import message
from kernel_gateway.services.audit.verification import verify_lines
from kernel_gateway.settings import load
from kernel_gateway.storage import audit_chain
from kernel_gateway.storage.audit import AuditRow
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.states.gateways import Place
from tests.doubles.server_process import free_port
from tests.unit.kernel_gateway.services.audit.test_chain import Log

GUARD_SECONDS = 300
FRAME = re.compile(rb"<(\d+)>1 (\S+) (\S+) sandcell - (\S+) - (\{.*\})", re.DOTALL)


class HttpServer:
    """Keeps the lines of requests that it answers with 200."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.heads: list[bytes] = []
        self.statuses: list[int] = []
        self.most_lines = 10_000
        self.port = 0
        self._open: set[asyncio.StreamWriter] = set()

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for each in self._open:
                each.transport.abort()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                assert length is not None
                lines = (await reader.readexactly(int(length[1]))).splitlines()
                status = self.statuses.pop(0) if self.statuses else 200
                if status == 200 and len(lines) > self.most_lines:
                    status = 413
                if status == 200:
                    self.heads.append(head)
                    self.lines += lines
                writer.write(b"HTTP/1.1 %d x\r\nContent-Length: 4\r\n\r\ndone" % status)
                await writer.drain()


class SyslogServer:
    """Keeps the messages of TCP connections, counted octets each."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.port = 0
        self.connections = 0
        self._open: set[asyncio.StreamWriter] = set()

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            for each in self._open:
                each.transport.abort()
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length = int(await reader.readuntil(b" "))
                self.messages.append(await reader.readexactly(length))


def on(directory: Path, test: Callable[[Log], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def run() -> None:
        log = Log(directory, audit_files=0, **settings)
        await log.open()
        try:
            async with asyncio.timeout(GUARD_SECONDS):
                await test(log)
        finally:
            await log.close()

    asyncio.run(run())


@contextlib.asynccontextmanager
async def running(log: Log) -> AsyncIterator[None]:
    task = asyncio.create_task(log.audit.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


async def delivered(log: Log, records: int) -> None:
    """Until the service has stored that the HTTP server has them: a record is sent again when it ends before that."""
    while await log.database.run(lambda c: audit_chain.position(c, "http")) != records:
        await asyncio.sleep(0.01)


def targets(lines: list[bytes]) -> list[str]:
    return [json.loads(each)["chain"]["target"] for each in lines]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_feed, "RETRY_SECONDS", 0.02)
    monkeypatch.setattr(audit_feed, "LONGEST_PAUSE_SECONDS", 0.1)


def test_an_http_server_gets_every_record_once_whatever_it_does_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "MOST_AT_ONCE", 4)
    monkeypatch.setattr(audit_feed, "MOST_REMEMBERED", 6)
    monkeypatch.setattr(audit_feed, "SAVE_SECONDS", 0.0)  # so that `delivered` sees it
    server = HttpServer()
    server.port = free_port()

    async def check(log: Log) -> None:
        async with running(log):
            await log.write(*"abc")  # nobody listens yet
            async with server.listen():
                await delivered(log, 3)
                server.statuses = [503, 401, 302, 500]
                await log.write("d")
                await delivered(log, 4)
            await log.write(*(str(number) for number in range(20)))  # more than memory holds
            async with server.listen():
                await delivered(log, 24)
                server.most_lines = 1
                await log.write("e", "f", "g")
                await delivered(log, 27)
                await log.restart()
                await log.write("h")
                await log.audit.close()
        assert targets(server.lines) == [*"abcd", *(str(number) for number in range(20)), *"efgh"]
        assert verify_lines(server.lines, log.key).whole
        assert all(b"Authorization: Bearer a-word\r\n" in each for each in server.heads)
        assert all(b"Content-Type: application/x-ndjson\r\n" in each for each in server.heads)

    on(tmp_path, check, audit_http_url=f"http://127.0.0.1:{server.port}/audit?from=here", audit_http_token="a-word")


def test_a_sink_that_is_silent_delays_nobody_and_ends_with_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_feed, "CLOSE_SECONDS", 0.05)
    silent = socket.create_server(("127.0.0.1", 0))

    async def check(log: Log) -> None:
        async with running(log):
            await log.write("a")
            await log.write("b")
            assert log.verify().records == 2
        await log.restart()
        assert await log.database.run(lambda c: audit_chain.position(c, "http")) == 0

    with silent:
        on(tmp_path, check, audit_http_url=f"http://127.0.0.1:{silent.getsockname()[1]}/")


def test_a_syslog_server_over_tcp_gets_every_record_across_its_restarts(tmp_path: Path) -> None:
    server = SyslogServer()
    server.port = free_port()

    async def check(log: Log) -> None:
        async with running(log):
            await log.write("a")
            async with server.listen():
                await until(lambda: len(server.messages) == 1)
                await log.write("b", "é")
                await until(lambda: len(server.messages) == 3)
            await log.write("c")
            async with server.listen():
                await until(lambda: len(server.messages) >= 4)
        found = [FRAME.fullmatch(each) for each in server.messages]
        lines = [each[5] for each in found if each is not None]
        assert list(dict.fromkeys(targets(lines))) == ["a", "b", "é", "c"]
        assert verify_lines(lines, log.key).whole
        assert server.connections == 2
        assert found[0] is not None
        assert (found[0][1], found[0][4]) == (b"110", b"connect")

    on(tmp_path, check, audit_syslog=f"tcp://127.0.0.1:{server.port}")


@pytest.mark.parametrize("kind", ["udp", "unix"])
def test_datagrams_carry_a_record_each(tmp_path: Path, kind: str) -> None:
    family = socket.AF_INET if kind == "udp" else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0) if kind == "udp" else str(tmp_path / "log"))
        server.setblocking(False)
        url = f"udp://127.0.0.1:{server.getsockname()[1]}" if kind == "udp" else f"unix://{tmp_path}/log"

        async def check(log: Log) -> None:
            async with running(log):
                await log.write("a", "b")
                loop = asyncio.get_running_loop()
                found = [FRAME.fullmatch(await loop.sock_recv(server, 100_000)) for _ in range(2)]
            assert targets([each[5] for each in found if each is not None]) == ["a", "b"]

        on(tmp_path, check, audit_syslog=url)


def test_a_unix_socket_whose_server_comes_later_gets_what_it_missed(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        async with running(log):
            await log.write("a", "b")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
                server.bind(str(tmp_path / "log"))
                server.setblocking(False)
                loop = asyncio.get_running_loop()
                found = [FRAME.fullmatch(await loop.sock_recv(server, 100_000)) for _ in range(2)]
            assert targets([each[5] for each in found if each is not None]) == ["a", "b"]

    on(tmp_path, check, audit_syslog=f"unix://{tmp_path}/log")


def test_a_message_is_of_rfc_5424_whatever_the_record_is_called() -> None:
    row = AuditRow(1.5, "egress", "né w\n]" + "x" * 99, allowed=False, detail=b"{}")
    entry = link_row(row, 1, "0" * 64)
    found = FRAME.fullmatch(message(entry, "host"))
    assert found is not None
    assert found[1] == b"109"
    assert found[2] == b"1970-01-01T00:00:01.500000Z"
    assert found[4] == b"nw]" + b"x" * 29
    assert found[5] == entry.line[:-1]


class InMemory:
    """A sink that cannot be away."""

    name = "kept"

    def __init__(self, *, of_host: bool = True) -> None:
        self.of_host = of_host
        self.entries: list[Entry] = []

    async def open(self) -> None: ...

    async def deliver(self, entries: Any) -> None:
        self.entries += entries

    async def close(self) -> None: ...


class OneOfSeveral:
    """A database whose service says that it is one of several gateways, which SQLite has none of."""

    def __init__(self, database: Database, gateway_id: str) -> None:
        self.lease = SimpleNamespace(place=Place(gateway_id, "", 1.0))
        self.run = database.run


def test_one_of_several_gateways_delivers_what_all_have_written_and_the_next_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_gateway.services.audit.feed.SETTLE_SECONDS", 0.0)

    async def check(log: Log) -> None:
        sinks = {name: InMemory(of_host=False) for name in "ab"}
        feeds = {name: Feed(cast("Any", OneOfSeveral(log.database, name)), sinks[name]) for name in "ab"}
        for feed in feeds.values():
            await feed.open()
        for targets, alive in (("cd", "ab"), ("ef", "b"), ("gh", "ab")):
            await log.write(*targets)
            for _ in range(2):  # who delivers no longer says first how far it has come
                for name in reversed(alive):
                    feeds[name].note_alive(frozenset(alive))
                    await feeds[name].deliver()
            if alive == "ab":  # the first ends in order, and comes back later
                await feeds["a"].close()
                feeds["a"] = Feed(cast("Any", OneOfSeveral(log.database, "a")), sinks["a"])
        delivered = {name: "".join(each.row.target for each in sink.entries) for name, sink in sinks.items()}
        assert delivered == {"a": "cdgh", "b": "ef"}

    on(tmp_path, check)


def test_a_sink_of_all_gateways_begins_where_the_last_was_that_had_one_of_its_own(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b", "c", "d")
        rows = {"kept of a": 3, "kept of b": 2, "kept": 1, "kept of": 0, "other of a": 0}
        for name, number in rows.items():
            await log.database.run(lambda c, name=name, number=number: audit_chain.put_position(c, name, number))  # type: ignore[misc]
        sink = InMemory(of_host=False)
        feed = Feed(cast("Any", OneOfSeveral(log.database, "a")), sink)
        await feed.open()
        feed._delivers = True
        await log.database.run(lambda c: audit_chain.put_position(c, "kept of b", 1))  # by one of the version before
        await feed.deliver()
        assert "".join(each.row.target for each in sink.entries) == "cd"
        await feed.close()
        found = {name: await log.database.run(lambda c, name=name: audit_chain.position(c, name)) for name in rows}  # type: ignore[misc]
        assert found == {"kept of a": None, "kept of b": None, "kept": 4, "kept of": 0, "other of a": 0}
        again = Feed(cast("Any", OneOfSeveral(log.database, "b")), sink)
        await again.open()
        assert again.lag(4) == 0

    on(tmp_path, check)


def test_what_was_delivered_is_said_at_the_end_and_a_new_sink_begins_now(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a")
        first = Feed(log.database, InMemory())
        await first.open()
        await log.write("b", "c")
        await first.close()
        sink = InMemory()
        second = Feed(log.database, sink)
        await second.open()
        await log.write("d")
        await second.close()
        assert [each.row.target for each in sink.entries] == ["d"]
        assert verify_lines([each.line[:-1] for each in sink.entries], log.key).whole

    on(tmp_path, check)


def test_a_batch_that_stays_too_large_is_an_error_that_names_the_status() -> None:
    async def check() -> None:
        server = HttpServer()
        server.most_lines = 0
        entry = link_row(AuditRow(1.5, "egress", "http", allowed=True), 1, "0" * 64)
        async with server.listen():
            sink = HttpSink(f"http://127.0.0.1:{server.port}/", "")
            with pytest.raises(OSError, match="answered with 413"):
                await sink.deliver([entry])
            await sink.close()

    asyncio.run(check())


@pytest.mark.parametrize("name", ["audit_syslog", "audit_http_url"])
@pytest.mark.parametrize("value", ["host:514", "ftp://host/", "tcp://", "http://user:word@host/", "unix://host/x"])
def test_an_address_that_is_none_stops_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match=name):
        load({name: value}, environ={})
