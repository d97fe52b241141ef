"""Two gateways on one host over one PostgreSQL and one store: each answers for both, and takes over from the other."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import httpx
import pytest

from kernel_gateway.services.credentials.sandbox_tokens import sign_path
from tests.gateways import Gateways, MakeService, in_turn
from tests.integration.kernel_gateway.faces.jupyter.wire import text_of, wire
from tests.integration.kernel_gateway.server.eventually import eventually
from tests.integration.kernel_gateway.server.rest import LiveSession, Rest, seen_from
from tests.running_service import RunningService

JSON = {"Content-Type": "application/json"}
SLOW = "import time\nprint('begun', flush=True)\ntime.sleep(3)\nprint('ended')"


@pytest.fixture(scope="module")
def both(gateways: Gateways) -> tuple[RunningService, RunningService]:
    return gateways.start_two()


@pytest.fixture
def one(both: tuple[RunningService, RunningService]) -> Iterator[Rest]:
    with Rest(both[0]) as rest:
        yield rest


@pytest.fixture
def other(both: tuple[RunningService, RunningService]) -> Iterator[Rest]:
    with Rest(both[1]) as rest:
        yield rest


@contextlib.contextmanager
def proxied(services: Sequence[RunningService], directory: Path) -> Iterator[Rest]:
    """All of them, in turn, behind one address."""
    with in_turn(services, directory) as url:
        front = SimpleNamespace(url=url, token=services[0].token)
        with Rest(cast("RunningService", front)) as rest:
            yield rest


def test_a_session_is_used_through_either(one: Rest, other: Rest) -> None:
    with one.session(name="shared") as session:
        session.run("x = 41")
        there = seen_from(other, session)
        assert there.run("print(x + 1)")["stdout"] == "42\n"
        assert session.show()["generation"] == 1
        assert session.id in {each["id"] for each in other.get("/v1/sessions?status=READY")["items"]}
        uploaded = other.http.put(f"{session.path}/files/a.bin", content=b"\0" * 3_000_000)
        assert uploaded.is_success, uploaded.text
        assert session.run("import os; print(os.path.getsize('a.bin'))")["stdout"] == "3000000\n"
        assert len(other.http.get(f"{session.path}/files/a.bin").content) == 3_000_000
    assert other.get(session.path)["status"] == "TERMINATED"
    assert other.get(f"{session.path}/notebook")["cells"]


def test_a_key_runs_once_whoever_is_asked(one: Rest, other: Rest) -> None:
    key, body = {"Idempotency-Key": str(uuid.uuid4())}, {"code": "n = globals().get('n', 0) + 1; print(n)"}
    with one.session() as session, ThreadPoolExecutor(4) as threads:
        path = f"{session.path}/executions"
        asked = [threads.submit(rest.http.post, path, json=body, headers=key) for rest in (one, other) * 2]
        answers = [each.result().json() for each in asked]
        assert {each["id"] for each in answers} == {answers[0]["id"]}
        assert session.run("print(n)")["stdout"] == "1\n"


def test_a_key_starts_one_session_whoever_is_asked(one: Rest, other: Rest) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    with ThreadPoolExecutor(6) as threads:
        asked = [threads.submit(rest.http.post, "/v1/sessions", json={}, headers=key) for rest in (one, other) * 3]
        answers = [each.result() for each in asked]
    assert {each.status_code for each in answers} == {201}, answers[0].text
    (session_id,) = {each.json()["id"] for each in answers}
    with LiveSession(one, answers[0].json()) as session:
        session.works()
        for rest in (one, other):
            refused = rest.http.post("/v1/sessions", json={"name": "another"}, headers=key)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "idempotency_conflict")
        visitor = one.post("/v1/tokens", principal="visitor", name="with the same key")["token"]
        own = other.http.post("/v1/sessions", json={}, headers={**key, "Authorization": f"Bearer {visitor}"})
        assert own.status_code == 201
        assert own.json()["id"] != session_id
    with Rest(cast("RunningService", SimpleNamespace(url=str(other.http.base_url), token=visitor))) as rest:
        LiveSession(rest, own.json()).stop()


def test_events_are_followed_and_taken_up_through_either(one: Rest, other: Rest) -> None:
    with one.session() as session:
        runs = session.submit(SLOW)
        events = f"{session.path}/executions/{runs['id']}/events"
        last, heard = "", ""
        with other.http.stream("GET", events) as answer:
            for line in answer.iter_lines():
                last = line.removeprefix("id: ") if line.startswith("id: ") else last
                heard += line
                if "begun" in line:
                    break
        assert "ended" not in heard
        rest = other.http.get(events, headers={"Last-Event-ID": last}).text
        assert "begun" not in rest
        assert '"text":"ended' in rest.replace(" ", "")


def test_a_workspace_is_changed_where_it_is(one: Rest, other: Rest) -> None:
    with one.session() as session:
        session.run("open('kept', 'w').write('here')")
    assert other.http.put(f"/v1/workspaces/{session.workspace_id}/files/b", content=b"bb").is_success
    assert one.http.get(f"/v1/workspaces/{session.workspace_id}/files/b").content == b"bb"
    with other.session(workspace_id=session.workspace_id) as again:
        assert again.run("print(open('kept').read(), open('b').read())")["stdout"] == "here bb\n"
        refused = other.http.post("/v1/sessions", json={"workspace_id": session.workspace_id})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "workspace_in_use")
    for before, told in ((b" " * 70_000, 503), (b" ", 201)):  # in pieces, of which only few are looked at
        pieces = (before, b'{"workspace_id"', f': "{session.workspace_id}"}}'.encode())
        answer = other.http.post("/v1/sessions", content=iter(pieces), headers=JSON)
        assert answer.status_code == told, answer.text
    LiveSession(one, answer.json()).stop()
    marked = {"Sandcell-Forwarded": "by me"}
    refused = other.http.post("/v1/sessions", json={"workspace_id": session.workspace_id}, headers=marked)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "session_elsewhere")
    nonsense = other.http.post("/v1/sessions", content=b"{", headers={"Content-Type": "application/json"})
    assert (nonsense.status_code, nonsense.json()["error"]["code"]) == (400, "malformed_json")


def test_files_are_copied_to_what_the_other_has(one: Rest, other: Rest) -> None:
    with other.session() as target:
        target.run("open('own', 'w').write('of the target')", sync="before_return")
        refused = one.http.post(f"/v1/workspaces/{target.workspace_id}/copy", json={"to": target.workspace_id})
        assert refused.status_code == 400
        with one.session() as source:
            source.run("open('table.csv', 'w').write('n\\n1\\n2\\n')")
            copy = f"/v1/workspaces/{source.workspace_id}/copy"
            body = {"to": target.workspace_id, "to_path": "copied", "overwrite": True}
            live = one.http.post(copy, json=body)
            assert (live.status_code, live.json()["error"]["code"]) == (409, "workspace_in_use")
            target.stop()
            for rest in (one, other):  # whoever is asked, what the live session has written just now comes along
                source.run("open('now', 'a').write('x')")
                assert rest.post(copy, **body)["file_count"]
            read = f"/v1/workspaces/{target.workspace_id}/files/copied/now"
            assert [rest.http.get(read).content for rest in (one, other)] == [b"xx"] * 2
            for rest, path in ((one, "first"), (other, "second")):
                name = f"/v1/workspaces/{source.workspace_id}/datasets/table"
                source.run(f"open('table.csv', 'a').write('{len(path)}\\n')")
                table = {"name": "table", "path": "table.csv"}
                made = rest.http.post(name.removesuffix("/table"), json=table).json()
                passed = rest.post(f"{name}/copy", to=target.workspace_id, to_path=path, name=path)
                assert (passed["path"], passed["sha256"]) == (f"{path}/table.csv", made["sha256"])
            nobodys = {"to": str(uuid.uuid4())}
            assert one.http.post(copy, json=nobodys).status_code == 404
            kept = one.get("/v1/audit?limit=100&event=CopyWorkspaceFiles")["items"]
            assert len([each for each in kept if each["allowed"] and source.workspace_id in str(each)]) == 2


def test_an_mcp_session_is_used_through_either(one: Rest, other: Rest) -> None:
    def ask(rest: Rest, method: str, session: str = "", **params: Any) -> httpx.Response:
        headers = {"Accept": "application/json, text/event-stream"} | ({"Mcp-Session-Id": session} if session else {})
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return rest.http.post("/mcp", json=message, headers=headers)

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    session = ask(one, "initialize", **client).headers["Mcp-Session-Id"]
    assert [ask(rest, "ping", session).status_code for rest in (other, one)] == [200, 200]
    assert ask(other, "ping", f"{'0' * 32}.nothing").status_code == 404


def test_tools_reach_sessions_of_the_other(one: Rest, other: Rest) -> None:
    headers = {"Accept": "application/json"}

    def ask(method: str, **params: Any) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return one.http.post("/mcp", json=message, headers=headers)

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    headers["Mcp-Session-Id"] = ask("initialize", **client).headers["Mcp-Session-Id"]
    with other.session() as session:
        session.run("x = 41")
        arguments = {"session": session.id, "code": "print(x + 1)"}
        answer = ask("tools/call", name="run_python", arguments=arguments).json()["result"]
        assert (answer.get("isError", False), "42" in str(answer["content"])) == (False, True), answer
    assert one.http.delete("/mcp", headers=headers).is_success


def test_who_is_signed_in_at_one_is_at_the_other(one: Rest, other: Rest) -> None:
    token = one.http.headers["Authorization"].partition(" ")[2]
    page = other.http.base_url.join("/console/sign-in")
    with httpx.Client(base_url=one.http.base_url, headers={"X-Sandcell-Console": "1"}) as browser:
        browser.post("/console/sign-in", json={"token": token}).raise_for_status()
        assert browser.get(page).json()["principal"] == "admin"
        cookies = dict(browser.cookies)
        assert browser.delete(page).status_code == 204
        browser.cookies.update(cookies)
        eventually(lambda: browser.get("/console/sign-in").status_code == 401)


def test_a_replay_is_followed_and_stopped_through_either(one: Rest, other: Rest) -> None:
    with one.session() as session:
        session.run("print('again')")
        begun = one.post("/v1/notebooks/replay", session_id=session.id, wait=False)
        path = f"/v1/replays/{begun['id']}"
        eventually(lambda: other.get(path)["status"] != "running")
        assert other.get(path)["status"] == one.get(path)["status"] == "done"
        assert other.http.get(f"{path}/notebook").content == one.http.get(f"{path}/notebook").content
    gone = other.http.get(f"/v1/replays/{str(uuid.uuid4())[:24]}{'0' * 12}")
    assert (gone.status_code, "process that runs it" in gone.text) == (404, True)


def test_what_is_signed_or_named_by_its_caller_alone_is_found(one: Rest, other: Rest) -> None:
    key = {"X-Api-Key": one.http.headers["Authorization"].partition(" ")[2]}
    made = one.http.post("/sandboxes", json={"templateID": "base"}, headers=key).json()
    signature = sign_path(made["envdAccessToken"], "/home/user/a", "read", "", "")
    access = {"E2b-Sandbox-Id": made["sandboxID"], "X-Access-Token": made["envdAccessToken"]}
    written = one.http.post("/files", params={"path": "/home/user/a"}, files={"file": ("a", b"aa")}, headers=access)
    assert written.is_success, written.text
    for rest in (other, one):
        found = httpx.get(rest.http.base_url.join("/files"), params={"path": "/home/user/a", "signature": signature})
        assert (found.status_code, found.content) == (200, b"aa")
    wrong = httpx.get(other.http.base_url.join("/files"), params={"path": "/home/user/b", "signature": signature})
    assert wrong.status_code == 401
    assert other.http.delete(f"/sandboxes/{made['sandboxID']}", headers=key).is_success
    run = {"lang": "py", "code": "n = globals().get('n', 0) + 1; print(n)", "runtime_session_hint": "conversation"}
    ran = [rest.http.post("/librechat/v1/exec", json=run, headers=key) for rest in (one, other, one)]
    assert [each.status_code for each in ran] == [200] * 3, ran[-1].text
    assert len({each.json()["session_id"] for each in ran}) == 1


def test_sessions_of_all_gateways_go_to_the_heir(one: Rest, other: Rest) -> None:
    for name in ("leaver", "heir"):
        one.post("/v1/tokens", principal=name, name="of a test")
    token = one.post("/v1/tokens", principal="leaver", name="of a session")["token"]
    begun = other.http.post("/v1/sessions", json={}, headers={"Authorization": f"Bearer {token}"}).json()
    one.post("/v1/principals/leaver/disable", sessions="hand_over", to="heir")
    heir = {"Authorization": f"Bearer {one.post('/v1/tokens', principal='heir', name='later')['token']}"}
    eventually(lambda: one.http.get(f"/v1/sessions/{begun['id']}", headers=heir).is_success)
    assert one.http.get(f"/v1/sessions/{begun['id']}", headers=heir).json()["status"] == "READY"
    assert one.http.delete(f"/v1/sessions/{begun['id']}", headers=heir).is_success


def test_what_is_revoked_at_one_counts_at_no_other(one: Rest, other: Rest) -> None:
    made = one.post("/v1/tokens", principal="visitor", name="revoked soon")
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert other.http.get("/v1/sessions", headers=headers).is_success
    assert one.http.delete(f"/v1/tokens/{made['id']}").is_success
    eventually(lambda: other.http.get("/v1/sessions", headers=headers).status_code == 401)


def test_nobody_is_let_in_for_being_passed_on(one: Rest, other: Rest) -> None:
    with one.session() as session:
        for headers in ({"Authorization": "Bearer nonsense"}, {"Authorization": ""}):
            assert other.http.get(session.path, headers=headers).status_code == 401
        marked = other.http.post(f"{session.path}/interrupt", headers={"Sandcell-Forwarded": "by me"})
        assert (marked.status_code, marked.json()["error"]["code"]) == (503, "session_elsewhere")


def test_the_log_says_why_a_request_was_refused(
    both: tuple[RunningService, RunningService], one: Rest, other: Rest
) -> None:
    def find_line(address: str) -> str:
        return next((each for each in both[1].output if address in each and "[info" in each), "")

    with one.session() as session:
        assert other.http.post(f"{session.path}/restart", headers={"Sandcell-Forwarded": "by me"}).status_code == 503
        eventually(lambda: find_line(f"{session.path}/restart") != "")
        line = find_line(f"{session.path}/restart")
        assert "code=session_elsewhere" in line
        assert "reason='another gateway has this session: try again'" in line
    unknown = other.http.post("/v1/sessions", json={"environment": "what a caller sent"})
    assert unknown.status_code == 404
    assert "what a caller sent" in unknown.text
    eventually(lambda: any("code=unknown_environment" in each for each in both[1].output))
    assert not [each for each in both[1].output if "what a caller sent" in each]


def test_snapshots_of_e2b_are_used_through_either(one: Rest, other: Rest) -> None:
    key = {"X-Api-Key": one.http.headers["Authorization"].partition(" ")[2]}

    def begin(rest: Rest, template: str) -> httpx.Response:
        return rest.http.post("/v2/sandboxes", json={"templateID": template}, headers=key)

    made = begin(one, "base").json()["sandboxID"]
    snapshot = other.http.post(f"/sandboxes/{made}/snapshots", json={"name": "taken"}, headers=key).json()["snapshotID"]
    for rest in (one, other):
        listed = rest.http.get("/snapshots", params={"sandboxID": made}, headers=key).json()
        assert [each["snapshotID"] for each in listed] == [snapshot]
    begun = [begin(other, snapshot), begin(other, "taken")]
    assert [each.status_code for each in begun] == [201] * 2, begun[0].text
    assert other.http.delete("/templates/taken", headers=key).status_code == 204
    assert one.http.delete(f"/templates/{snapshot}", headers=key).status_code == 404
    for each in (made, *(each.json()["sandboxID"] for each in begun)):
        assert one.http.delete(f"/sandboxes/{each}", headers=key).status_code == 204


def test_engines_have_sandboxes_and_snapshots_at_both(one: Rest, other: Rest) -> None:
    engines = "/v1beta1/projects/p/locations/l/reasoningEngines"

    def ask(rest: Rest, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = rest.http.request(method, path, json=body or None)
        assert answer.is_success, answer.text
        return cast("dict[str, Any]", answer.json().get("response", {}))

    def list_live() -> set[str]:
        found = [one.get(f"/v1/sessions?limit=100&status={each}")["items"] for each in ("READY", "HIBERNATED")]
        return {each["id"] for page in found for each in page}

    before = list_live()
    engine = f"/v1beta1/{ask(one, 'POST', engines, displayName='of both')['name']}"
    sandbox = ask(one, "POST", f"{engine}/sandboxEnvironments")["name"]
    ask(other, "POST", f"{engine}/sandboxEnvironments")
    snapshots = [ask(rest, "POST", f"/v1beta1/{sandbox}:snapshot")["name"] for rest in (other, one)]
    begun = ask(other, "POST", f"{engine}/sandboxEnvironments", sandboxEnvironmentSnapshot=snapshots[0])
    assert begun["sandboxEnvironmentSnapshot"] == snapshots[0]
    ask(other, "DELETE", f"/v1beta1/{snapshots[0]}")
    ask(other, "DELETE", engine + "?force=true")
    for rest in (one, other):
        assert rest.http.get(engine).status_code == 404
    assert list_live() == before


@pytest.mark.sample("doors")
def test_one_is_reached_at_an_ipv6_address(gateways: Gateways, one: Rest) -> None:
    third = gateways.start(at="::1", host="::")  # without brackets, as Kubernetes says the address of a pod
    port = urlsplit(third.url).port
    for family in (f"http://127.0.0.1:{port}", f"http://[::1]:{port}"):
        assert httpx.get(f"{family}/readyz", timeout=120).is_success
    with Rest(third) as rest, rest.session() as session:
        assert seen_from(one, session).run("print(6 * 7)")["stdout"] == "42\n"
    third.stop()


@pytest.mark.sample("kills")
def test_a_service_that_is_alone_does_not_start_beside_gateways(
    both: tuple[RunningService, RunningService], make_service: MakeService, gateways: Gateways
) -> None:
    with pytest.raises(AssertionError, match="another service uses this database"):
        make_service(database=gateways.database)


@pytest.mark.sample("kills")
def test_a_plain_proxy_in_front_of_all(
    both: tuple[RunningService, RunningService], one: Rest, other: Rest, tmp_path: Path
) -> None:
    with proxied(both, tmp_path) as rest, one.session() as mine, other.session() as others:
        for session in (seen_from(rest, mine), seen_from(rest, others)) * 2:  # so that each is asked of either
            assert session.run("n = globals().get('n', 0) + 1; print(n)")["status"] == "ok"
            content = b"\xff" * 2_000_000
            assert rest.http.put(f"{session.path}/files/a.bin", content=content).is_success
            assert rest.http.get(f"{session.path}/files/a.bin").content == content
            with wire(str(rest.http.base_url).rstrip("/"), session.id, both[0].token) as socket:
                assert text_of(socket.finished(socket.execute("print('over', 'a', 'socket')"))) == "over a socket\n"
            runs = session.submit("print('first'); print('last')")
            events = f"{session.path}/executions/{runs['id']}/events"
            whole = rest.http.get(events).text
            assert rest.http.get(events, headers={"Last-Event-ID": "1"}).text in whole
        assert [each.run("print(n)")["stdout"] for each in (mine, others)] == ["2\n", "2\n"]


@pytest.mark.sample("kills")
def test_sessions_of_a_host_that_is_lost_go_on_at_another(
    gateways: Gateways, both: tuple[RunningService, RunningService], tmp_path: Path, short_directory: Path
) -> None:
    third = gateways.start(run_dir=short_directory)  # so that the others see nothing of its sandboxes
    with Rest(third) as rest:
        session = rest.session(name="survivor")
        session.run("open('kept', 'w').write('durable')", sync="before_return")
        session.run("x = 1")
        runs = session.submit("import time; time.sleep(600)")
        eventually(lambda: rest.get(f"{session.path}/executions/{runs['id']}")["status"] == "running")
        waits = session.submit("print(open('kept').read(), 'x' in globals())")
    third.kill()
    with proxied((*both, third), tmp_path) as rest:
        there = seen_from(rest, session)  # waits for the lease to run out
        assert there.outcome(waits["id"])["stdout"] == "durable False\n"
        ended = there.outcome(runs["id"])
        assert (ended["status"], ended["death"]["cause"]) == ("died", "sandbox")
        events = f"{session.path}/executions/{runs['id']}/events"  # more was shown than was stored
        assert "event: ended" in rest.http.get(events, headers={"Last-Event-ID": "60"}).text
        assert there.show()["generation"] == 2
        third.start()
        for _ in range(3):
            assert there.run("print(open('kept').read())")["stdout"] == "durable\n"
        there.stop()
    third.stop()
