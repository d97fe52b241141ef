"""Gateways on one host that are killed: another has their sandboxes, with all that runs in them, and their clients."""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from sandcell import Client
from sandcell.events import Output
from tests.gateways import Gateways, in_turn
from tests.integration.kernel_gateway.faces.jupyter.wire import reply_of, result_of, text_of, wire
from tests.integration.kernel_gateway.faces.rest.resources.test_programs import (
    events,
    read_all,
    read_until,
    start,
    type_in,
)
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest
from tests.integration.kernel_gateway.server.test_running_executions import follow

LINES = 400
STREAM = f"""
import hashlib, time
digest = hashlib.sha256()
for n in range({LINES}):
    line = f"{{n}} {{'x' * 200}}"
    digest.update(line.encode())
    print(line, flush=True)
    time.sleep(0.03)
print(digest.hexdigest())
"""


def make_lines() -> list[str]:
    lines = [f"{n} {'x' * 200}" for n in range(LINES)]
    return [*lines, hashlib.sha256("".join(lines).encode()).hexdigest()]


@pytest.mark.sample("kills")
def test_what_runs_goes_on_at_another_gateway_of_the_host(gateways: Gateways, tmp_path: Path) -> None:
    one, other = gateways.start_two()
    with Rest(one) as rest:
        session = rest.session(name="kept")
        session.run("x = 41; open('kept', 'w').write('unflushed')")
        runs = session.submit(STREAM)
        waits = session.submit("print(x + 1, open('kept').read())")
        seen = [each["text"] for _, kind, each in follow(session, runs, 0, most=20) if kind == "stream"]
    one.kill()
    with Rest(other) as rest:
        there = LiveSession(rest, rest.get(session.path))
        assert there.outcome(runs["id"])["stdout"].splitlines() == make_lines()
        followed = follow(there, runs, 0)
        shown = "".join(each["text"] for _, kind, each in followed if kind == "stream")
        assert shown.splitlines() == make_lines()
        assert shown.startswith("".join(seen))
        assert there.outcome(waits["id"])["stdout"] == "42 unflushed\n"
        assert there.show()["generation"] == 1
        # One that comes back has none of it, and leaves it alone; then it takes what it had made.
        one.start()
        eventually(lambda: there.run("print(x)")["stdout"] == "41\n")
        other.kill()
    with Rest(one) as rest:
        back = LiveSession(rest, rest.get(session.path))
        assert back.run("print(x)")["stdout"] == "41\n"
        assert back.show()["generation"] == 1
        other.start()
        back.stop()
    for each in (one, other):
        each.stop()


COUNT = f"n=0; while [ $n -lt {LINES} ]; do echo $n; n=$((n+1)); sleep 0.03; done"
COUNTED = "".join(f"{n}\n" for n in range(LINES)).encode()


@pytest.mark.sample("kills")
def test_programs_and_commands_go_on_through_a_proxy(gateways: Gateways, tmp_path: Path) -> None:
    one, other = gateways.start_two()
    with in_turn((one, other), tmp_path) as url, Rest(one) as rest:
        session = rest.session(name="programs")
        headers = {"Authorization": f"Bearer {one.token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=180) as http:
            task = http.post(f"{session.path}/commands", json={"command": COUNT, "background": True}).json()
            program = start(http, session.id, command=["sh", "-c", f"{COUNT}; read word; echo $word"])
            number, seen = read_until(events(http, program), b"20\n")
            one.kill()
            # Each request comes to either; what had been told is not told again, and nothing is left out.
            again = events(http, program, number)
            number, rest_of_it = read_until(again, COUNTED[-4:])
            assert seen + rest_of_it == COUNTED
            assert number == len(COUNTED), "an event's id is how much came before it ended"
            type_in(http, program, "over\n")
            shown, ended = read_all(again)
            assert (shown, ended["exit_code"]) == ({"stdout": b"over\n"}, 0)
            assert read_all(events(http, program, number)) == (shown, ended)
            eventually(lambda: http.get(f"{session.path}/tasks/{task['id']}").json()["status"] != "running")
            done = http.get(f"{session.path}/tasks/{task['id']}").json()
            assert (done["exit_code"], done["stdout"].encode()) == (0, COUNTED)
            assert http.get(f"{session.path}/programs").json()["items"] == []
            assert http.get(session.path).json()["generation"] == 1
            assert http.delete(session.path).is_success
    other.stop()
    one.start()
    one.stop()


def make_slow_body(begun: threading.Event, killed: threading.Event, content: bytes) -> Iterator[bytes]:
    """The second half comes once the gateway that takes it has been killed."""
    yield content[: len(content) // 2]
    begun.set()
    assert killed.wait(120)
    yield content[len(content) // 2 :]


def call_tool(url: str, token: str, began: threading.Event, session: str, code: str) -> dict[str, Any]:
    """What a tool of an MCP session answers; the session is begun where the proxy has it."""
    headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    with httpx.Client(base_url=url, headers=headers, timeout=180) as client:

        def ask(method: str, params: dict[str, Any]) -> httpx.Response:
            return client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

        client.headers["Mcp-Session-Id"] = ask("initialize", hello).headers["Mcp-Session-Id"]
        began.set()
        arguments = {"name": "run_python", "arguments": {"session": session, "code": code}}
        answer = ask("tools/call", arguments)
    assert answer.is_success, answer.text
    line = next(each for each in reversed(answer.text.splitlines()) if each.startswith(("{", "data: {")))
    found: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return found


@pytest.mark.sample("kills")
def test_what_clients_had_under_way_goes_on_through_a_proxy(gateways: Gateways, tmp_path: Path) -> None:
    one, other = gateways.start_two()
    content, text = bytes(range(256)) * 20_000, "\n".join(make_lines()) + "\n"
    begun, killed = threading.Event(), threading.Event()
    with in_turn((one, other), tmp_path) as url, Rest(one) as rest, ThreadPoolExecutor(4) as threads:
        attached, followed, filled, tooled = (
            rest.session(name=name) for name in ("attached", "followed", "files", "tools")
        )
        with Client(url, one.token) as client, wire(url, attached.id, one.token, session="hers") as socket:
            cell = socket.execute(STREAM)
            seen = text_of(socket.until_shown("3 x"))
            shown: list[Output] = []
            running = threads.submit(client.attach(followed.id).run, STREAM, on_output=shown.append)
            put = f"{url}{filled.path}/files/large.bin"
            headers = {"Authorization": f"Bearer {one.token}"}
            body = make_slow_body(begun, killed, content)
            sending = threads.submit(httpx.put, put, content=body, headers=headers, timeout=180)
            asked = threading.Event()
            tool = threads.submit(call_tool, other.url, one.token, asked, tooled.id, STREAM)
            assert begun.wait(120)
            assert asked.wait(120)
            eventually(lambda: len(shown) > 3)
            eventually(lambda: rest.get(f"{tooled.path}/executions")["items"] != [])
            one.kill()
            killed.set()
            with contextlib.suppress(ConnectionClosed):
                while True:
                    seen += text_of([socket.receive()])
            # A real client of REST follows on by itself, with what it has seen so far.
            outcome = running.result(180)
            assert outcome.stdout == text
            assert "".join(each.text for each in shown) == text
        with wire(url, attached.id, one.token, session="hers") as socket:
            rest_of_it = socket.finished(cell)
            assert reply_of(rest_of_it)["content"]["status"] == "ok"
            assert text.endswith(text_of(rest_of_it))
            assert len(seen) + len(text_of(rest_of_it)) <= len(text), "what the client had is not sent again"
            assert result_of(socket.run("n")) == str(LINES - 1)
        # An upload that was cut off is sent again by its caller; nothing of the first is left.
        with pytest.raises((httpx.TransportError, AssertionError)):
            assert sending.result(180).is_success
        assert httpx.put(put, content=content, headers=headers, timeout=180).is_success
        assert httpx.get(put, headers=headers, timeout=180).content == content
        assert make_lines()[-1] in str(tool.result(180))
        with Client(url, one.token) as client:
            for session in (attached, followed, tooled):
                (ran, *others) = client.list_executions(session.id).items
                assert not [each for each in others if "hashlib" in each.code]
                assert client.get_execution(session.id, ran.id).stdout == text
            for session in (attached, followed, filled, tooled):
                client.stop_session(session.id)
    other.stop()
    one.start()
    one.stop()
