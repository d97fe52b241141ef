"""Programs over REST: a shell in a terminal, its output for who comes back, and what is refused."""

from __future__ import annotations

import json
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any

import httpx

from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService

Event = tuple[int, str, dict[str, Any]]


def start(http: httpx.Client, session_id: str, **asked: Any) -> str:
    """A program's address."""
    answer = http.post(f"/v1/sessions/{session_id}/programs", json=asked)
    assert answer.status_code == 201, answer.text
    return f"/v1/sessions/{session_id}/programs/{answer.json()['id']}"


def type_in(http: httpx.Client, program: str, text: str | bytes, **more: Any) -> None:
    data = text.encode() if isinstance(text, str) else text
    answer = http.post(f"{program}/input", json={"data": b64encode(data).decode(), **more})
    assert answer.status_code == 204, answer.text


def events(http: httpx.Client, program: str, after: int | None = None) -> Iterator[Event]:
    """What is told, until the connection is closed."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    with http.stream("GET", f"{program}/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        fields: dict[str, str] = {}
        for line in answer.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "data" in fields:
                yield int(fields["id"]), fields["event"], json.loads(fields["data"])
                fields = {}


def read_until(found: Iterator[Event], wanted: bytes) -> tuple[int, bytes]:
    """Output up to where it has these bytes, and the id to go on after."""
    seen = b""
    for number, kind, data in found:
        assert kind == "output", (kind, data, seen)
        seen += b64decode(data["data"])
        if wanted in seen:
            return number, seen
    raise AssertionError(f"the events ended before {wanted!r}: {seen!r}")


def read_all(found: Iterator[Event]) -> tuple[dict[str, bytes], dict[str, Any]]:
    """All output by stream, and how the program ended."""
    seen: dict[str, bytes] = {}
    for _number, kind, data in found:
        if kind == "ended":
            return seen, data
        assert kind == "output", (kind, data)
        seen[data["stream"]] = seen.get(data["stream"], b"") + b64decode(data["data"])
    raise AssertionError("the events ended before the program")


def test_a_shell_in_a_terminal(http: httpx.Client, session_id: str) -> None:
    shell = start(http, session_id, terminal={"columns": 91, "rows": 33}, variables={"PS1": "> ", "MARK": "a b"})
    type_in(http, shell, "stty size; echo $TERM; pwd; echo \"$MARK\"; echo en''d\n")
    found = events(http, shell)
    number, seen = read_until(found, b"end\r\n")
    for line in (b"33 91", b"xterm-256color", b"/workspace", b"a b"):
        assert line + b"\r\n" in seen
    assert http.get(shell).json()["followers"] == 1
    found.close()  # type: ignore[attr-defined]
    eventually(lambda: http.get(shell).json()["followers"] == 0)
    assert http.post(f"{shell}/size", json={"columns": 70, "rows": 20}).status_code == 204
    type_in(http, shell, "stty size; echo aga''in\n")
    again = events(http, shell, number)
    _, seen = read_until(again, b"again\r\n")
    assert b"20 70\r\n" in seen
    assert b"33 91" not in seen, "what was told before is not told again"
    listed = http.get(f"/v1/sessions/{session_id}/programs").json()["items"]
    assert [(each["id"], each["terminal"], each["directory"]) for each in listed] == [
        (shell.rsplit("/", 1)[1], True, "/workspace")
    ]
    type_in(http, shell, "exit 3\n")
    _, ended = read_all(again)
    assert (ended["exit_code"], ended["signal"]) == (3, None)
    assert read_all(events(http, shell, number))[1] == ended, "who comes back late hears it too"
    assert http.get(shell).json()["ended"] == ended
    assert http.get(f"/v1/sessions/{session_id}/programs").json()["items"] == []
    refused = http.post(f"{shell}/input", json={"data": ""})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "conflict")
    cells = http.get(f"/v1/sessions/{session_id}/notebook").json()["cells"]
    assert [(each["id"], each["metadata"]["sandcell"]["status"]) for each in cells if each["cell_type"] == "code"] == [
        (shell.rsplit("/", 1)[1], "error")
    ], "it is on record as a command"


def test_pipes_and_signals(http: httpx.Client, session_id: str) -> None:
    program = start(http, session_id, command=["sh", "-c", "cat; echo wrong >&2"], directory="/tmp")
    type_in(http, program, b"\x00\xff binary", end=True)
    seen, ended = read_all(events(http, program))
    assert (seen, ended["exit_code"]) == ({"stdout": b"\x00\xff binary", "stderr": b"wrong\n"}, 0)
    program = start(http, session_id, command=["sleep", "1000"])
    assert http.post(f"{program}/signal", json={"signal": "SIGINT"}).status_code == 204
    assert read_all(events(http, program))[1]["signal"] == "SIGINT"
    program = start(http, session_id, command=["sleep", "1000"], timeout_seconds=0.2, input=False)
    assert read_all(events(http, program))[1]["timed_out"] is True


def test_much_output_stays_bounded_and_says_what_is_missing(http: httpx.Client, session_id: str) -> None:
    line = "head -c 3000000 /dev/zero | tr '\\0' x; read end"
    program = start(http, session_id, command=["sh", "-c", line])
    found = events(http, program)
    assert sum(map(len, read_until_length(found, 3_000_000))) == 3_000_000, "who follows gets all of it"
    found.close()  # type: ignore[attr-defined]
    late = events(http, program)
    number, kind, data = next(late)
    assert (kind, data) == ("gap", {"missed_bytes": number})
    assert 2_500_000 < number < 3_000_000
    rest = read_until_length(late, 3_000_000 - number)
    assert sum(map(len, rest)) == 3_000_000 - number
    type_in(http, program, "\n")
    assert read_all(late)[1]["exit_code"] == 0


def read_until_length(found: Iterator[Event], size: int) -> list[bytes]:
    pieces: list[bytes] = []
    while sum(map(len, pieces)) < size:
        _, kind, data = next(found)
        assert kind == "output"
        pieces.append(b64decode(data["data"]))
    return pieces


def test_what_makes_no_sense_is_refused(http: httpx.Client, session_id: str) -> None:
    programs = f"/v1/sessions/{session_id}/programs"
    wrong: list[dict[str, Any]] = [
        {"terminal": {"columns": 0}},
        {"terminal": {"columns": 80, "rows": 2_001}},
        {"timeout_seconds": 0},
        {"timeout_seconds": 28_801},
        {"command": [""]},
        {"command": ["no-such-program"]},
        {"command": ["a\0b"]},
        {"directory": "absent"},
        {"shell": True},
    ]
    for body in wrong:
        answer = http.post(programs, json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request"), (body, answer.text)
    large = http.post(programs, json={"variables": {"A": "x" * 200_000}})
    assert (large.status_code, large.json()["error"]["code"]) == (413, "payload_too_large")
    program = start(http, session_id, command=["sleep", "1000"], input=False)
    for verb, body, status in (
        ("input", {"data": "!"}, 400),
        ("input", {"data": b64encode(b"x").decode()}, 409),
        ("input", {"data": "A" * 700_004}, 400),
        ("size", {"columns": 10, "rows": 10}, 409),
        ("signal", {"signal": "SIGSTOP"}, 400),
    ):
        assert http.post(f"{program}/{verb}", json=body).status_code == status, (verb, body)
    assert http.post(f"{program}/signal", json={"signal": "SIGKILL"}).status_code == 204
    assert http.get(f"{programs}/{uuid.uuid4()}").status_code == 404
    assert http.get(f"{programs}/{uuid.uuid4()}/events").status_code == 404


def test_a_full_input_is_refused_until_it_was_read(http: httpx.Client, session_id: str) -> None:
    program = start(http, session_id, command=["sleep", "1000"])
    piece = b64encode(bytes(500_000)).decode()
    statuses = [http.post(f"{program}/input", json={"data": piece}).status_code for _ in range(4)]
    assert (statuses[0], statuses[-1]) == (204, 429)
    http.post(f"{program}/signal", json={"signal": "SIGKILL"})


def test_who_only_reads_and_who_holds_no_lease(service: RunningService, http: httpx.Client, session_id: str) -> None:
    shell = start(http, session_id, terminal={})
    token = http.post("/v1/tokens", json={"principal": "admin", "scope": "read"}).json()["token"]
    reader = httpx.Client(base_url=service.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    with reader:
        for method, path, body in (
            ("POST", f"/v1/sessions/{session_id}/programs", {}),
            ("POST", f"{shell}/input", {}),
            ("POST", f"{shell}/size", {}),
            ("POST", f"{shell}/signal", {"signal": "SIGINT"}),
            ("GET", f"{shell}/events", None),
        ):
            refused = reader.request(method, path, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "scope_missing"), path
        assert reader.get(shell).json()["terminal"] is True
    lease = http.post(f"/v1/sessions/{session_id}/lease", json={"seconds": 600}).json()["id"]
    holds = {"Sandcell-Lease": lease}
    for path, body in ((f"/v1/sessions/{session_id}/programs", {}), (f"{shell}/input", {"data": "eA=="})):
        assert http.post(path, json=body).json()["error"]["code"] == "session_busy"
    assert http.post(f"{shell}/input", json={"data": b64encode(b"exit\n").decode()}, headers=holds).status_code == 204
    assert read_all(events(http, shell))[1]["exit_code"] == 0
    http.delete(f"/v1/sessions/{session_id}/lease")


def test_what_is_typed_is_not_in_the_audit_log_and_who_started_a_shell_is(http: httpx.Client, session_id: str) -> None:
    shell = start(http, session_id, terminal={})
    type_in(http, shell, "exit\n")
    read_all(events(http, shell))
    assert http.post(f"{shell}/size", json={"columns": 1}).status_code == 409

    def lines() -> list[dict[str, Any]]:
        found = http.get("/v1/audit", params={"session_id": session_id, "limit": 1000}).json()["items"]
        return [each for each in found if shell.rsplit("/", 1)[1] in json.dumps(each)]

    def names() -> set[str]:
        return {each["event"] for each in lines()}

    eventually(lambda: {"StartProgram", "FollowProgram", "ResizeTerminal"} <= names())
    assert "SendInput" not in names()
