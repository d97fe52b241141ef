"""Who follows events goes on after answers that are a proxy's own, which it gives while nothing is behind it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sandcell import Client, NotFound, ServiceUnavailable
from sandcell.nonblocking import AsyncClient

FIRST = 'id: 1\nevent: stream\ndata: {"text":"a"}\n\n'
HEARTBEAT = ": still here\n\n"
REST = "id: 2\nevent: ended\ndata: {}\n\n"


@contextmanager
def answers(*wanted: tuple[int, str]) -> Iterator[tuple[str, list[str | None]]]:
    """A server that gives these answers in turn, the last again and again, and the positions that it was asked from."""
    asked: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = wanted[min(len(asked), len(wanted) - 1)]
            asked.append(self.headers["Last-Event-ID"])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            serving.join()


def follow(url: str, *, waits: bool) -> list[int]:
    async def without_waiting() -> list[int]:
        async with AsyncClient(url, "token") as client:
            return [event.sequence async for event in client.events("s", "e")]

    if not waits:
        return asyncio.run(without_waiting())
    with Client(url, "token") as client:
        return [event.sequence for event in client.events("s", "e")]


@pytest.mark.parametrize("waits", [True, False])
def test_a_proxy_s_own_answer_is_no_end(*, waits: bool) -> None:
    with answers((200, FIRST), (502, "<html>"), (503, "<html>"), (200, REST)) as (url, asked):
        assert follow(url, waits=waits) == [1, 2]
    assert asked[1:] == ["1"] * 3


@pytest.mark.parametrize("waits", [True, False])
def test_connections_that_bring_heartbeats_alone_may_break_any_number_of_times(*, waits: bool) -> None:
    with answers(*[(200, HEARTBEAT)] * 6, (200, FIRST + REST)) as (url, asked):
        assert follow(url, waits=waits) == [1, 2]
    assert len(asked) == 7


def test_a_program_is_looked_for_as_long_as_its_follower_is_patient() -> None:
    with answers(*[(502, "<html>")] * 5, (200, FIRST + REST)) as (url, asked), Client(url, "token") as client:
        events = client.program_events("s", "p", patience_seconds=120)
        assert [event.sequence for event in events] == [1, 2]
    assert len(asked) == 6
    with answers((502, "<html>")) as (url, asked), Client(url, "token") as client, pytest.raises(ServiceUnavailable):
        next(client.program_events("s", "p", patience_seconds=0))
    assert len(asked) == 1


@pytest.mark.parametrize("waits", [True, False])
def test_what_stays_so_is_raised(*, waits: bool) -> None:
    with answers((502, "<html>")) as (url, asked), pytest.raises(ServiceUnavailable):
        follow(url, waits=waits)
    assert len(asked) > 1
    with answers((404, '{"error":{"code":"not_found","message":"no"}}')) as (url, asked), pytest.raises(NotFound):
        follow(url, waits=waits)
    assert len(asked) == 1
