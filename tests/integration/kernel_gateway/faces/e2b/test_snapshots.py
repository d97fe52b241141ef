"""Snapshots and forks: who finds them, what begins as they are, and what they are not. By plain HTTP."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import httpx

from kernel_gateway.faces.e2b.requests import MOST_FORKS
from tests.integration.kernel_gateway.faces.e2b.owners import Owner

READ = "import os; print(told, len(os.environ['SECRET']), os.environ.get('MORE'), open('told.txt').read())"


def other(owner: Owner, sandbox: dict[str, Any]) -> Owner:
    return Owner(owner.http, owner.key, owner.token_id, sandbox)


def snapshots(owner: Owner, **query: str) -> list[dict[str, Any]]:
    answer = owner.control("GET", "/snapshots", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def test_sandboxes_begin_as_a_snapshot_is(owner: Owner, stranger: Owner) -> None:
    owner.run("told = 'first'; open('told.txt', 'w').write(told)")
    taken = owner.control("POST", f"/sandboxes/{owner.id}/snapshots", json={"name": "tried"})
    assert (taken.status_code, taken.json()["names"]) == (201, ["tried"]), taken.text
    snapshot = taken.json()["snapshotID"]
    owner.run("told = 'second'; open('told.txt', 'w').write(told)")
    key = str(uuid.uuid4())
    for value in ("'first'", "'changed'"):
        headers = {"X-API-Key": owner.key, "Idempotency-Key": key}
        body = {"templateID": "tried:default", "timeout": 600, "metadata": {"of": "it"}, "envVars": {"MORE": "more"}}
        answer = owner.http.post("/v2/sandboxes", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        begun = other(owner, answer.json())
        assert begun.run("told")[-3]["text"] == "first"
        begun.run(f"told = {value}")
    assert begun.run(READ)[0]["text"] == "changed 15 more first\n"
    assert owner.control("POST", f"/sandboxes/{begun.id}/timeout", json={"timeout": 5000}).status_code == 204
    shown = owner.control("GET", f"/sandboxes/{begun.id}").json()
    lives = datetime.fromisoformat(shown["endAt"]) - datetime.fromisoformat(shown["startedAt"])
    assert (shown["metadata"], lives.total_seconds() > 4000) == ({"of": "it"}, True)  # idleness does not end it before
    assert owner.run(READ)[0]["text"] == "second 15 None second\n"
    assert snapshots(owner) == snapshots(owner, name="tried") == snapshots(owner, sandboxID=owner.id) == [taken.json()]
    assert snapshots(owner, name="other") == snapshots(owner, sandboxID=begun.id) == snapshots(stranger) == []
    assert_it_is_no_sandbox(owner, snapshot)
    for name in (snapshot, "tried"):
        assert stranger.control("POST", "/v2/sandboxes", json={"templateID": name}).status_code == 400
        assert stranger.control("DELETE", f"/templates/{name}").status_code == 404
    assert [owner.control("DELETE", f"/templates/{snapshot}").status_code for _ in range(2)] == [204, 404]
    assert begun.run("told")[-3]["text"] == "changed"
    assert owner.control("DELETE", f"/sandboxes/{begun.id}").status_code == 204


def assert_it_is_no_sandbox(owner: Owner, snapshot: str) -> None:
    """It is in no list of them, and nothing runs in it."""
    for path in ("/v2/sandboxes", "/sandboxes", "/v2/sandboxes?state=paused"):
        assert snapshot not in owner.control("GET", path).text
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/connect"), ("POST", "/snapshots"), ("POST", "/fork")):
        body = {"json": {}} if method == "POST" else {}
        assert owner.control(method, f"/sandboxes/{snapshot}{path}", **body).status_code == 404, path
    gone = owner.http.get("/health", headers={"E2b-Sandbox-Id": snapshot, "X-API-Key": owner.key})
    assert gone.status_code == 502
    bearer = {"Authorization": f"Bearer {bytes.fromhex(owner.key[4:]).decode()}"}
    session = f"/v1/sessions/{uuid.UUID(snapshot)}"
    assert owner.http.get(session, headers=bearer).json()["snapshot_of"] == str(uuid.UUID(owner.id))
    woken = owner.http.post(f"{session}/resume", headers=bearer)
    assert (woken.status_code, "is a snapshot" in woken.text) == (409, True)


def test_a_snapshot_is_refused(owner: Owner) -> None:
    def take(**body: Any) -> httpx.Response:
        return owner.control("POST", f"/sandboxes/{owner.id}/snapshots", json=body)

    for name in ("base", "team/name", "name:v2", "-", "n" * 129):
        assert take(name=name).status_code == 400, name
    with owner.stream("Start", process={"cmd": "/bin/sleep", "args": ["600"]}, tag="busy") as program:
        said = program.iter_raw()
        assert b"start" in next(said)
        busy = take()
        assert (busy.status_code, "not at rest" in busy.json()["message"]) == (409, True)
        forked = owner.control("POST", f"/sandboxes/{owner.id}/fork", json={"timeout": 60})
        assert forked.status_code == 409
        signal = {"process": {"tag": "busy"}, "signal": "SIGNAL_SIGKILL"}
        assert owner.data("POST", "/process.Process/SendSignal", json=signal).status_code == 200
        assert b"end" in b"".join(said)
    for count in (0, MOST_FORKS + 1):
        assert owner.control("POST", f"/sandboxes/{owner.id}/fork", json={"count": count}).status_code == 400


def test_a_paused_sandbox_is_forked_and_comes_back_without_its_memory(owner: Owner) -> None:
    where = f"/sandboxes/{owner.id}"
    owner.run("told = 'paused'; open('told.txt', 'w').write(told)")
    assert owner.control("POST", f"{where}/pause", json={}).status_code == 204
    (made,) = owner.control("POST", f"{where}/fork", json={"timeout": 600}).json()
    fork = other(owner, made["sandbox"])
    assert fork.run(READ)[0]["text"] == "paused 15 None paused\n"
    assert owner.control("DELETE", f"/sandboxes/{fork.id}").status_code == 204
    assert owner.control("GET", where).json()["state"] == "paused"
    connected = owner.control("POST", f"/v2{where}/connect", json={"timeout": 600, "memory": False})
    assert connected.status_code == 201
    assert owner.run(READ)[0]["name"] == "NameError"
    assert owner.run("open('told.txt').read()")[-3]["text"] == "paused"
