"""Every route of the document answers; files, events, keys and waiting work over plain HTTP."""

from __future__ import annotations

import json
import re
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import nbformat
import pytest

from kernel_gateway.faces.rest import openapi
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.table import TABLE
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.running_service import RunningService


def execute(http: httpx.Client, session_id: str, code: str, **body: object) -> httpx.Response:
    return http.post(f"/v1/sessions/{session_id}/executions", json={"code": code, **body})


def test_the_served_document_is_the_one_that_unit_tests_find_valid(service: RunningService) -> None:
    answer = httpx.get(service.url + "/v1/openapi.json", trust_env=False)
    assert answer.json() == json.loads(json.dumps(openapi.describe(TABLE)))
    assert {(m.upper(), p) for p, methods in answer.json()["paths"].items() for m in methods} == {
        (route.method, route.path) for route in TABLE
    }


@pytest.mark.parametrize("route", TABLE, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_of_the_document_is_there(http: httpx.Client, route: Route) -> None:
    """Called on things that are not there: what answers is the route, not the lack of one."""
    path = re.sub(r"\{\w+\}", "absent", route.path)
    if route.path == "/v1/sessions" and route.method == "POST":
        answer = http.post(path, json={"environment": "absent"})
    elif route.body is not None:
        answer = http.request(route.method, path, json={})
    else:
        answer = http.request(route.method, path, content=b"x" if route.uploads else None)
    known = {str(route.status), "400", "404"}
    assert str(answer.status_code) in known
    if answer.status_code == 404 and route.method != "HEAD":
        assert answer.json()["error"]["code"] != "unknown_route"
    assert answer.status_code in (200, 201, 202, 204, 400, 404)  # an agent that the route before has put is there


def test_the_probes_answer_without_a_token(service: RunningService) -> None:
    assert httpx.get(service.url + "/healthz", trust_env=False).json()["status"] == "ok"
    assert httpx.get(service.url + "/readyz", trust_env=False).json()["status"] == "ready"


def test_a_session_remembers(http: httpx.Client, session_id: str) -> None:
    assert execute(http, session_id, "x = 41").json()["status"] == "ok"
    answer = execute(http, session_id, "x + 1")
    assert answer.status_code == 200
    assert answer.json()["outputs"][-1]["data"]["text/plain"] == "42"


def test_a_syntax_error_is_an_outcome(http: httpx.Client, session_id: str) -> None:
    answer = execute(http, session_id, "def f(:")
    assert (answer.status_code, answer.json()["status"]) == (200, "error")
    assert answer.json()["error"]["name"] == "SyntaxError"


def test_the_same_key_runs_once(http: httpx.Client, session_id: str) -> None:
    execute(http, session_id, "count = 0")
    key = {"Idempotency-Key": str(uuid.uuid4())}
    path = f"/v1/sessions/{session_id}/executions"
    answers = [http.post(path, json={"code": "count += 1", "wait": wait}, headers=key) for wait in (True, True, False)]
    assert [answer.status_code for answer in answers] == [200, 200, 202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert execute(http, session_id, "count").json()["outputs"][-1]["data"]["text/plain"] == "1"
    other = http.post(path, json={"code": "count += 2"}, headers=key)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")


def test_the_same_key_starts_one_session(http: httpx.Client) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"labels": {"of": key["Idempotency-Key"]}}
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(http.post, "/v1/sessions", json=body, headers=key) for _ in range(8)]
        answers = [each.result() for each in asked]
    assert {answer.status_code for answer in answers} == {201}
    (session_id,) = {answer.json()["id"] for answer in answers}
    listed = http.get("/v1/sessions?limit=1000").json()["items"]
    assert [each["id"] for each in listed if each["labels"] == body["labels"]] == [session_id]
    for wrong in ({"labels": {}}, {**body, "from": {"session": session_id}}):
        other = http.post("/v1/sessions", json=wrong, headers=key)
        assert (other.status_code, other.json()["error"]["code"]) == (409, "idempotency_conflict")
    empty = http.post("/v1/sessions", json=body, headers={"Idempotency-Key": ""})
    assert (empty.status_code, empty.json()["error"]["field"]) == (400, "Idempotency-Key")
    fork = {"from": {"session": session_id}}
    key = {"Idempotency-Key": str(uuid.uuid4())}
    forks = [http.post("/v1/sessions", json=fork, headers=key) for _ in range(2)]
    assert {answer.status_code for answer in forks} == {201}, forks[0].text
    (forked,) = {answer.json()["id"] for answer in forks}
    for each in (session_id, forked):
        assert http.delete(f"/v1/sessions/{each}").is_success
    again = http.post("/v1/sessions", json=fork, headers=key).json()
    assert (again["id"], again["status"]) == (forked, "TERMINATED")


def test_events_go_on_after_the_last_one_seen(http: httpx.Client, session_id: str) -> None:
    code = "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.2)"
    answer = execute(http, session_id, code, wait=False)
    assert answer.status_code == 202
    path = f"/v1/sessions/{session_id}/executions/{answer.json()['id']}"
    first = events(http.get(path + "/events"))
    assert [number for number, _, _ in first] == list(range(1, len(first) + 1))
    assert (first[0][1], first[-1][1]) == ("started", "ended")
    text = "".join(data["text"] for _, kind, data in first if kind == "stream")
    assert text == "0\n1\n2\n"
    assert events(http.get(path + "/events", headers={"Last-Event-ID": "2"})) == first[2:]
    assert http.get(path).json()["stdout"] == text


def events(answer: httpx.Response) -> list[tuple[int, str, dict[str, object]]]:
    assert answer.headers["Content-Type"] == "text/event-stream"
    blocks = [block for block in answer.text.split("\n\n") if block and not block.startswith(":")]
    found = []
    for block in blocks:
        number, kind, data = (line.partition(": ")[2] for line in block.split("\n"))
        found.append((int(number), kind, json.loads(data)))
    return found


def test_a_client_that_leaves_while_waiting_cancels_nothing(http: httpx.Client, session_id: str) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    path = f"/v1/sessions/{session_id}/executions"
    body = {"code": "import time\ntime.sleep(1.5)\nleft = 'done'\nleft"}
    with pytest.raises(httpx.ReadTimeout):
        http.post(path, json=body, headers=key, timeout=0.5)
    answer = http.post(path, json=body, headers=key)
    assert answer.json()["outputs"][-1]["data"]["text/plain"] == "'done'"


@pytest.mark.parametrize(
    "name", ["plain.txt", "deep/er/file", "a%20b", "%C3%BC", "back%5Cslash", "%ff%fe", "percent%25", "q%3F"]
)
def test_a_file_of_any_name_comes_back(http: httpx.Client, session_id: str, name: str) -> None:
    path, content = f"/v1/sessions/{session_id}/files/{name}", uuid.uuid4().bytes
    written = http.put(path, content=content)
    assert (written.status_code, written.json()["size"]) == (200, 16)
    answer = http.get(path)
    assert (answer.content, answer.headers["Content-Length"]) == (content, "16")
    assert http.delete(path).status_code == 204
    assert http.get(path).status_code == 404


def test_large_files_stream_both_ways(http: httpx.Client, session_id: str) -> None:
    path, piece = f"/v1/sessions/{session_id}/files/large.bin", bytes(range(256)) * 4096
    assert http.put(path, content=(piece for _ in range(40))).json()["size"] == 40 * len(piece)
    assert execute(http, session_id, "len(open('large.bin', 'rb').read())").json()["outputs"][-1]["data"][
        "text/plain"
    ] == str(40 * len(piece))
    with http.stream("GET", path) as answer:
        assert sum(len(chunk) for chunk in answer.iter_bytes()) == 40 * len(piece)
    http.delete(path)


def test_an_upload_that_is_broken_off_leaves_the_old_file(
    http: httpx.Client, service: RunningService, session_id: str
) -> None:
    path = f"/v1/sessions/{session_id}/files/kept.txt"
    http.put(path, content=b"old")
    parts = urlsplit(service.url)
    head = f"PUT {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}\r\nContent-Length: 900000\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=120) as connection:
        connection.sendall(head.encode() + b"new" * 100_000)
        time.sleep(0.3)
    time.sleep(0.3)
    assert http.get(path).content == b"old"
    names = [each["path"] for each in http.get(f"/v1/sessions/{session_id}/files").json()["items"]]
    assert [name for name in names if "kept" in name] == ["kept.txt"]


def test_executions_are_listed_with_what_came_of_them_or_without(http: httpx.Client, session_id: str) -> None:
    execute(http, session_id, "1")
    execute(http, session_id, "print('heard'); 1 / 0")
    path = f"/v1/sessions/{session_id}/executions?limit=1000"
    whole, lean = (http.get(path + more).json()["items"][-1] for more in ("", "&outcomes=false"))
    assert (whole["stdout"], whole["error"]["name"]) == ("heard\n", "ZeroDivisionError")
    assert (lean["stdout"], lean["outputs"], lean["error"]) == ("", [], None)
    same = ("id", "status", "code", "execution_count", "queued_at", "started_at", "ended_at", "generation")
    assert [lean[name] for name in same] == [whole[name] for name in same]
    assert http.get(f"{path}&outcomes=perhaps").status_code == 400
    backwards = [each["id"] for each in http.get(f"{path}&newest_first=true").json()["items"]]
    assert backwards == [each["id"] for each in http.get(path).json()["items"]][::-1]
    newest = http.get(f"/v1/sessions/{session_id}/executions?newest_first=true&limit=1").json()
    assert newest["items"][0]["id"] == whole["id"]
    before = http.get(path.replace("1000", "1") + f"&newest_first=true&cursor={newest['next_cursor']}").json()
    assert before["items"][0]["id"] == backwards[1]
    assert (newest["total"], before["total"]) == (len(backwards), None)


def test_an_execution_says_who_ran_it_and_what_it_used_and_changed(http: httpx.Client, session_id: str) -> None:
    done = execute(http, session_id, "open('made by a cell.txt', 'w').write('x' * 7)").json()
    assert (done["author"], done["face"]) == ("admin", "rest")
    path = f"/v1/sessions/{session_id}/executions"

    def provenance(more: str = "") -> dict[str, Any]:
        found: dict[str, Any] = http.get(f"{path}?newest_first=true&limit=1{more}").json()["items"][0]["provenance"]
        return found

    eventually(lambda: "files" in provenance())
    whole, lean = provenance(), provenance("&outcomes=false")
    assert whole["cpu_seconds"] > 0
    assert whole["memory_peak_bytes"] > 1_000_000
    (changed,) = whole["files"]
    assert (changed["path"], changed["change"], changed["size"]) == ("made by a cell.txt", "added", 7)
    assert http.get(f"{path}/{done['id']}").json()["provenance"] == lean == whole


def test_files_are_listed_in_pages(http: httpx.Client, session_id: str) -> None:
    for name in ("list/a", "list/b", "list/sub/c"):
        http.put(f"/v1/sessions/{session_id}/files/{name}", content=b"x")
    base = f"/v1/sessions/{session_id}/files?path=list"
    assert [each["path"] for each in http.get(base).json()["items"]] == ["list/a", "list/b", "list/sub"]
    found, cursor = [], ""
    while True:
        page = http.get(f"{base}&recursive=true&limit=1{cursor}").json()
        found += [each["path"] for each in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert found == ["list/a", "list/b", "list/sub", "list/sub/c"]
    assert http.delete(f"/v1/sessions/{session_id}/files/list?recursive=true").status_code == 204


def test_commands_and_tasks(http: httpx.Client, session_id: str) -> None:
    path = f"/v1/sessions/{session_id}"
    done = http.post(path + "/commands", json={"command": "echo out; echo err >&2; exit 3"})
    assert done.status_code == 200
    assert (done.json()["stdout"], done.json()["stderr"], done.json()["exit_code"]) == ("out\n", "err\n", 3)
    started = http.post(path + "/commands", json={"command": "echo begun; sleep 60", "background": True})
    assert (started.status_code, started.json()["status"]) == (202, "running")
    task = f"{path}/tasks/{started.json()['id']}"
    assert http.get(task).json()["status"] == "running"
    assert http.delete(task).json()["status"] == "stopped"


def test_interrupt_and_restart(http: httpx.Client, session_id: str) -> None:
    running = execute(http, session_id, "import time; time.sleep(60)", wait=False).json()
    path = f"/v1/sessions/{session_id}"
    deadline = time.monotonic() + 120
    while http.get(f"{path}/executions/{running['id']}").json()["status"] != "running":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert http.post(path + "/interrupt").status_code == 204
    with http.stream("GET", f"{path}/executions/{running['id']}/events") as answer:
        answer.read()
    assert http.get(f"{path}/executions/{running['id']}").json()["status"] == "interrupted"
    before = http.get(path).json()["generation"]
    assert http.post(path + "/restart").json()["generation"] == before + 1
    stale = execute(http, session_id, "1", expect_generation=before)
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, "generation_mismatch")


def test_the_notebook_is_valid(http: httpx.Client, session_id: str) -> None:
    execute(http, session_id, "print('in the notebook')")
    answer = http.get(f"/v1/sessions/{session_id}/notebook")
    assert answer.headers["Content-Type"] == "application/x-ipynb+json"
    notebook = nbformat.reads(answer.text, as_version=4)
    nbformat.validate(notebook)
    assert "print('in the notebook')" in [cell.source for cell in notebook.cells]


def test_a_durable_workspace_can_be_changed_once_its_session_has_ended(http: httpx.Client) -> None:
    session = http.post("/v1/sessions", json={}).json()
    http.put(f"/v1/sessions/{session['id']}/files/a.txt", content=b"live")
    workspace = f"/v1/workspaces/{session['workspace_id']}"
    refused = http.put(f"{workspace}/files/b.txt", content=b"x")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "workspace_in_use")
    assert http.delete(f"/v1/sessions/{session['id']}").json()["status"] == "TERMINATED"
    assert http.get(f"{workspace}/files/a.txt").content == b"live"
    assert http.put(f"{workspace}/files/b.txt", content=b"stored").status_code == 200
    assert [each["path"] for each in http.get(f"{workspace}/files?recursive=true").json()["items"]] == [
        "a.txt",
        "b.txt",
    ]
    assert http.delete(f"{workspace}/files/b.txt").status_code == 204
    assert http.get(workspace).json()["file_count"] == 1
    ended = execute(http, session["id"], "1")
    assert (ended.status_code, ended.json()["error"]["code"]) == (409, "session_terminated")
