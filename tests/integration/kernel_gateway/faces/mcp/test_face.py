"""The transport at /mcp as its messages go over the wire: who is let in, sessions and their bounds, answers."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import MakeService
from tests.integration.kernel_gateway.faces.rest.test_bad_input import exchanged
from tests.running_service import RunningService

BOTH = "application/json, text/event-stream"
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
GUARD_SECONDS = 120


class Peer:
    """A client that says what it is told to."""

    def __init__(self, service: RunningService, token: str | None = None) -> None:
        self.http = httpx.Client(base_url=service.url, timeout=GUARD_SECONDS, trust_env=False)
        self.headers = {"Authorization": f"Bearer {token or service.token}", "Accept": BOTH}
        self.number = 0

    def post(self, message: Any, **headers: str) -> httpx.Response:
        return self.http.post("/mcp", json=message, headers={**self.headers, **headers})

    def ask(self, method: str, params: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        self.number += 1
        return self.post({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params or {}}, **headers)

    def begin(self) -> str:
        answer = self.ask("initialize", HELLO)
        assert answer.status_code == 200, answer.text
        self.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        return self.headers["Mcp-Session-Id"]

    def call(self, tool: str, **arguments: Any) -> str:
        result = read(self.ask("tools/call", {"name": tool, "arguments": arguments}))[-1]["result"]
        return "\n".join(each["text"] for each in result["content"])

    def end(self) -> None:
        assert self.http.delete("/mcp", headers=self.headers).status_code == 204
        self.http.close()


def read(answer: httpx.Response) -> list[Any]:
    """The messages of an answer, of either form."""
    assert answer.status_code == 200, answer.text
    if answer.headers["Content-Type"] == "application/json":
        return [answer.json()]
    assert answer.headers["Content-Type"] == "text/event-stream"
    return [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]


@pytest.fixture
def peer(service: RunningService) -> Iterator[Peer]:
    one = Peer(service)
    one.begin()
    yield one
    one.end()


def test_who_is_let_in(service: RunningService) -> None:
    with httpx.Client(base_url=service.url, timeout=GUARD_SECONDS, trust_env=False) as http:
        refused = http.post("/mcp", json={})
        assert refused.status_code == 401
        assert refused.json()["error"]["data"] == {"code": "unauthorized"}
        place = refused.headers["WWW-Authenticate"].removeprefix('Bearer resource_metadata="').removesuffix('"')
        for address in (place, f"{service.url}/.well-known/oauth-protected-resource"):
            about = http.get(address).json()
            assert about["resource"] == f"{service.url}/mcp"
            assert about["bearer_methods_supported"] == ["header"]
            assert "authorization_servers" not in about
        good = {"Authorization": f"Bearer {service.token}"}
        assert http.post("/mcp", json={}, headers={**good, "Origin": "https://evil.example"}).status_code == 403
        assert http.post("/mcp", json={}, headers={**good, "Origin": service.url}).status_code == 400
        assert http.get("/mcp", headers=good).status_code == 405
        assert http.get("/mcp", headers=good).headers["Allow"] == "DELETE, POST"


def test_a_session_is_its_principals_alone(service: RunningService, peer: Peer) -> None:
    with service.client() as admin:
        other = Peer(service, admin.create_token("mcp-stranger", "other").token)
        looks = Peer(service, admin.create_token("admin", "looks", scope="read").token)
    session = peer.headers["Mcp-Session-Id"]
    assert len(session) >= 43, "256 bits, so that nobody guesses one"
    again = Peer(service)
    assert session != again.begin()
    again.end()
    for headers in ({"Mcp-Session-Id": session}, {"Mcp-Session-Id": "guessed"}):
        assert other.ask("tools/list", **headers).status_code == 404
        assert other.http.delete("/mcp", headers={**other.headers, **headers}).status_code == 404
    assert peer.ask("tools/list").status_code == 200
    looks.headers["Mcp-Session-Id"] = session
    assert looks.ask("tools/list").status_code == 200
    refused = looks.ask("tools/call", {"name": "list_files", "arguments": {}})
    assert (refused.status_code, refused.json()["error"]["data"]["code"]) == (403, "scope_missing")
    for each in (other, looks):
        each.http.close()


def test_messages_that_are_none(peer: Peer, service: RunningService) -> None:
    assert peer.ask("tools/list", **{"Mcp-Session-Id": ""}).status_code == 400
    assert read(peer.ask("no/such"))[0]["error"]["code"] == -32601
    assert read(peer.ask("tools/call", {"name": "no_such"}))[0]["error"]["code"] == -32602
    assert read(peer.ask("tools/call", {"name": 1}))[0]["error"]["code"] == -32602
    assert read(peer.ask("resources/read", {"uri": "sandcell://nothing"}))[0]["error"]["code"] == -32002
    assert "unknown field" in peer.call("run_python", cod="1")
    for body, code in ((b"{", -32700), (b"[]", -32600), (b"{}", -32600), (b'{"jsonrpc":"2.0","id":1}', -32600)):
        answer = peer.http.post("/mcp", content=body, headers=peer.headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    newer = peer.ask("server/discover", **{"MCP-Protocol-Version": "2026-07-28"})
    assert (newer.status_code, newer.json()["error"]["code"]) == (400, -32022)
    assert "2025-11-25" in newer.json()["error"]["data"]["supported"]
    assert peer.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202
    fresh = Peer(service)
    assert fresh.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).status_code == 400
    fresh.http.close()


def test_a_warning_that_memory_runs_short_names_the_largest_variables(peer: Peer) -> None:
    fill = "import time, numpy\ntable = {}\nfor n in range(18): table[n] = numpy.ones(10**8, 'u1')"
    code = f"{fill}\nfor _ in range(20): time.sleep(0.1)\nlen(table)"
    params = {"name": "run_python", "arguments": {"code": code}, "_meta": {"progressToken": "mine"}}
    *notes, answer = read(peer.ask("tools/call", params))
    said = [each["params"].get("message", "") for each in notes]
    warned = next((each for each in said if "MB of memory" in each), "")
    assert re.search(r"of its 2,048 MB of memory. Largest: table \(dict, 1,[67]\d\d\.\d MB\)", warned), (said, answer)
    assert warned.strip() in answer["result"]["content"][-1]["text"]
    peer.call("run_python", code="del table")


def test_a_short_call_is_answered_with_json_and_progress_with_a_stream(peer: Peer, service: RunningService) -> None:
    assert peer.call("run_python", code="1") == "1"  # a start may take long
    short = peer.ask("tools/list")
    assert short.headers["Content-Type"] == "application/json"
    params = {
        "name": "run_python",
        "arguments": {"code": "import time\nfor n in range(4): print('tick', n, flush=True); time.sleep(0.5)"},
        "_meta": {"progressToken": "mine"},
    }
    *notes, answer = read(peer.ask("tools/call", params))
    assert answer["result"]["content"][0]["text"].count("tick") == 4
    assert {(each["method"], each["params"]["progressToken"]) for each in notes} == {("notifications/progress", "mine")}
    assert notes[0]["params"]["message"].startswith("tick")
    plain = peer.ask("tools/call", params, Accept="application/json")
    assert plain.headers["Content-Type"] == "application/json"
    with service.client() as client:
        sessions = client.list_sessions(status="READY").items
        own = next(each for each in sessions if each.labels.get("mcp"))
        cell = json.loads(client.notebook(own.id))["cells"][-1]
    assert cell["metadata"]["sandcell"]["face"] == "mcp"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_python", {"code": "import time; open('begun', 'w').close(); time.sleep(600)"}),
        ("run_shell", {"command": "touch begun; sleep 600"}),
    ],
)
def test_a_cancelled_call_stops_what_it_runs(peer: Peer, tool: str, arguments: dict[str, Any]) -> None:
    answers: list[httpx.Response] = []
    message = {"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    running = threading.Thread(target=lambda: answers.append(peer.post(message)))
    running.start()
    until = time.monotonic() + GUARD_SECONDS
    while "begun" not in peer.call("list_files"):
        assert time.monotonic() < until
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}}
    assert peer.post(cancel).status_code == 202
    running.join(GUARD_SECONDS)
    assert read(answers[0])[-1]["error"]["code"] == -32800
    assert peer.call("run_python", code="'free'") == "'free'"
    while "sleep" in peer.call("run_shell", command="cat /proc/*/comm"):
        assert time.monotonic() < until, "the command goes on"


def test_what_a_cancelled_call_ran_is_found_by_the_callers_key(peer: Peer, service: RunningService) -> None:
    code = "print('tick', flush=True); open('begun', 'a').write('x'); import time; time.sleep(600)"
    call = {"name": "run_python", "arguments": {"code": code}, "_meta": {"sandcell/idempotency-key": "the caller's"}}
    message = {"jsonrpc": "2.0", "id": "first", "method": "tools/call", "params": call}
    running = threading.Thread(target=lambda: peer.post(message))
    running.start()
    until = time.monotonic() + GUARD_SECONDS
    while "begun" not in peer.call("list_files"):
        assert time.monotonic() < until
    peer.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "first"}})
    running.join(GUARD_SECONDS)
    found = read(peer.ask("tools/call", call))[-1]["result"]
    assert found["isError"] is True
    assert found["content"][0]["text"] == "tick"
    assert "KeyboardInterrupt" in found["content"][1]["text"]
    assert peer.call("run_python", code="open('begun').read()") == "'x'", "it ran twice"
    _, _, _, session_id, _, execution_id = found["_meta"]["sandcell/execution"].split("/")
    with service.client() as client:
        assert client.get_execution(session_id, execution_id).status == "interrupted"
    other = call | {"arguments": {"code": "1"}}
    assert "was used with another submission" in read(peer.ask("tools/call", other))[-1]["result"]["content"][0]["text"]
    shell = call | {"name": "run_shell", "arguments": {"command": "true"}}
    assert read(peer.ask("tools/call", shell))[-1]["result"]["isError"] is True
    for key in ("", 1, "é", "x" * 201):
        wrong = call | {"_meta": {"sandcell/idempotency-key": key}}
        assert read(peer.ask("tools/call", wrong))[-1]["error"]["code"] == -32602


def test_a_client_that_leaves_cancels_nothing(peer: Peer) -> None:
    message = {"name": "run_python", "arguments": {"code": "import time; time.sleep(1); left = 'done'"}}
    with pytest.raises(httpx.ReadTimeout):
        peer.http.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": "gone", "method": "tools/call", "params": message},
            headers=peer.headers,
            timeout=httpx.Timeout(0.5),
        )
    assert peer.call("run_python", code="left") == "'done'"


def test_a_session_that_ended_is_followed_by_one_with_its_files(peer: Peer, service: RunningService) -> None:
    assert peer.call("run_python", code="x = 1; open('kept', 'w').close()") == "(no output)"
    with service.client() as client:
        own = next(each for each in client.list_sessions(status="READY").items if each.labels.get("mcp"))
        client.stop_session(own.id)
    text = peer.call("run_python", code="import os; print(os.path.exists('kept'), 'x' in globals())")
    assert text.endswith("True False")
    assert "a new one has its files, and none of its variables" in text


def test_a_replay_has_files_that_no_cell_wrote_where_it_is_asked_to(peer: Peer) -> None:
    peer.call("write_file", path="data.csv", content="1,2")
    peer.call("run_python", code="open('data.csv').read()")
    assert "FileNotFoundError" in peer.call("replay")
    assert peer.call("replay", with_files=True) == "The same: 1 same."


def test_an_agent_tries_several_ways_from_one_state_and_keeps_one(peer: Peer) -> None:
    peer.call("write_file", path="kept", content="as it was")
    peer.call("run_python", code="import threading; rows, lock = [3, 1, 2], threading.Lock()")
    ways = {"sorted": "rows.sort()", "reversed": "rows.reverse()", "emptied": "rows.clear(); open('kept', 'w').close()"}
    for name, code in ways.items():
        said = peer.call("start_session", session=name, fork_of="default")
        assert f"Started {name}, id " in said
        assert "[lock is lost: " in said
        for each in ("begun = True", code):
            assert peer.call("run_python", session=name, code=each) == "(no output)"
    shown = "print(rows, repr(open('kept').read()))"
    assert [peer.call("run_python", session=name, code=shown) for name in ("default", *ways)] == [
        "[3, 1, 2] 'as it was'",
        "[1, 2, 3] 'as it was'",
        "[2, 1, 3] 'as it was'",
        "[] ''",
    ]
    assert "Variables and files are as they were before." in peer.call("undo", session="emptied", cells=2)
    assert peer.call("run_python", session="emptied", code=shown) == "[3, 1, 2] 'as it was'"
    for name in ("default", "reversed", "emptied"):
        peer.call("stop_session", session=name)
    assert peer.call("run_python", session="sorted", code="rows") == "[1, 2, 3]"
    refused = peer.call("start_session", session="wrong", fork_of="sorted", environment="python")
    assert "a fork has the environment and the files of its session" in refused


def test_what_ends_with_a_session(service: RunningService) -> None:
    with service.client() as admin:
        token = admin.create_token("mcp-ends", "ends").token
    one = Peer(service, token)
    one.begin()
    one.call("run_python", code="1")
    one.call("start_session", session="other")
    one.end()
    until = time.monotonic() + GUARD_SECONDS
    with service.client(token) as client:
        while client.list_sessions(status="READY").items:
            assert time.monotonic() < until, "its sandboxes stay"
    with httpx.Client(base_url=service.url, timeout=GUARD_SECONDS, trust_env=False) as http:
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert http.post("/mcp", json=message, headers=one.headers).status_code == 404


def test_one_session_more_than_a_principal_may_have_ends_the_one_unused_for_longest(service: RunningService) -> None:
    with service.client() as admin:
        one = Peer(service, admin.create_token("mcp-many", "many").token)
    sessions = []
    for _ in range(51):
        one.headers.pop("Mcp-Session-Id", None)
        sessions.append(one.begin())
    answers = [one.ask("ping", **{"Mcp-Session-Id": each}).status_code for each in (sessions[0], *sessions[-2:])]
    assert answers == [404, 200, 200]
    one.http.close()


def test_settings_and_the_end_of_what_is_not_used(make_service: MakeService) -> None:
    own = make_service(
        mcp_idle_seconds=1, mcp_authorization_servers="https://login.example", mcp_origins="https://app.example"
    )
    one = Peer(own)
    assert one.ask("initialize", HELLO, Origin="https://app.example").status_code == 200
    about = one.http.get("/.well-known/oauth-protected-resource/mcp").json()
    assert about["authorization_servers"] == ["https://login.example"]
    head = f"POST /mcp HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {own.token}\r\nContent-Length: 50000001\r\n\r\n"
    assert exchanged(own, head.encode())[0] == 413
    one.begin()
    until = time.monotonic() + GUARD_SECONDS
    while one.ask("ping").status_code != 404:
        assert time.monotonic() < until, "it does not end"
        time.sleep(1.5)  # a look is a use: the next one comes when it should have ended
    one.http.close()
