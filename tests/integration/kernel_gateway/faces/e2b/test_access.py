"""Who reaches a sandbox, with what, and what comes of it: by plain HTTP, on a real service."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from kernel_gateway.faces.e2b.identifiers import LONGEST_PATH, format_key
from kernel_gateway.services.credentials.sandbox_tokens import LONGEST_EXPIRATION, sign_path
from tests.integration.kernel_gateway.faces.e2b.owners import Owner, make_owner
from tests.running_service import RunningService

ENDED = (
    ("GET", ""),
    ("DELETE", ""),
    ("GET", "/metrics"),
    ("GET", "/metrics?end=1"),
    ("POST", "/connect"),
    ("POST", "/resume"),
    ("POST", "/timeout"),
    ("POST", "/refreshes"),
    ("POST", "/pause"),
)
"""What the control plane is asked of a sandbox."""


def test_another_s_sandbox_is_not_there(owner: Owner, stranger: Owner) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/timeout"), ("POST", "/connect"), ("GET", "/metrics")):
        body = {"json": {"timeout": 100}} if method == "POST" else {}
        answer = stranger.control(method, f"/sandboxes/{owner.id}{path}", **body)
        assert (answer.status_code, answer.json()["code"]) == (404, 404), path
    listed = stranger.control("GET", "/v2/sandboxes").json()
    assert [each["sandboxID"] for each in listed] == [stranger.id]
    with_key = {"E2b-Sandbox-Id": owner.id, "X-API-Key": stranger.key}
    gone = owner.http.get("/health", headers=with_key)
    assert (gone.status_code, gone.json()["message"]) == (502, "The sandbox was not found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("POST", "/execute"),
        ("GET", "/contexts"),
        ("GET", "/files?path=x"),
        ("POST", "/files?path=x"),
        ("POST", "/process.Process/Start"),
        ("POST", "/filesystem.Filesystem/Stat"),
    ],
)
def test_only_a_sandbox_s_own_token_opens_it(owner: Owner, stranger: Owner, method: str, path: str) -> None:
    for token in ("", "x", stranger.token, owner.token[:-1] + ("0" if owner.token[-1] != "0" else "1")):
        answer = owner.http.request(method, path, headers={"E2b-Sandbox-Id": owner.id, "X-Access-Token": token})
        assert answer.status_code == 401, (token, answer.text)


def test_nobody_has_no_key(http: httpx.Client) -> None:
    for headers in ({}, {"X-API-Key": "e2b_00"}, {"X-API-Key": "wrong"}, {"Authorization": "Bearer wrong"}):
        answer = http.post("/v2/sandboxes", json={"templateID": "base"}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, 401)


def test_a_key_that_may_only_look(service: RunningService, owner: Owner) -> None:
    with service.client() as admin:
        name = next(each.principal for each in admin.list_tokens().items if each.id == owner.token_id)
        key = format_key(admin.create_token(name, scope="read").token or "")
    headers = {"X-API-Key": key}
    shown = owner.http.get(f"/sandboxes/{owner.id}", headers=headers)
    assert (shown.status_code, "envdAccessToken" in shown.json()) == (200, False)
    for method, path in (
        ("POST", "/v2/sandboxes"),
        ("DELETE", f"/sandboxes/{owner.id}"),
        ("POST", f"/sandboxes/{owner.id}/connect"),
    ):
        assert owner.http.request(method, path, headers=headers, json={}).status_code == 403
    sandbox = {**headers, "E2b-Sandbox-Id": owner.id}
    assert owner.http.get("/contexts", headers=sandbox).status_code == 200
    assert owner.http.post("/execute", headers=sandbox, json={"code": "1"}).status_code == 403


def test_a_revoked_key_s_sandbox_token_counts_no_longer(service: RunningService, http: httpx.Client) -> None:
    made = make_owner(service, http)
    assert made.data("GET", "/health").status_code == 204
    with service.client() as admin:
        admin.revoke_token(made.token_id)
        assert made.data("GET", "/health").status_code == 401
    bearer = {"Authorization": f"Bearer {service.token}"}
    assert http.delete(f"/v1/admin/sessions/{uuid.UUID(made.id)}", headers=bearer).is_success


def test_signed_addresses(owner: Owner) -> None:
    assert owner.data(
        "POST", "/files?path=signed", {"Content-Type": "application/octet-stream"}, content=b"x"
    ).is_success

    def get(path: str, operation: str = "read", **more: str) -> httpx.Response:
        signature = sign_path(owner.token, path, operation, "", more.get("signature_expiration", ""))
        return owner.http.get("/files", params={"path": "signed", "signature": signature, **more})

    assert get("signed").content == b"x"
    assert get("signed", signature_expiration="99999999999").content == b"x"
    assert [get("other").status_code, get("signed", "write").status_code] == [401, 401]
    assert get("signed", signature_expiration="1").status_code == 401
    assert get("signed", signature_expiration="9" * (LONGEST_EXPIRATION + 1)).status_code == 401
    too_long = owner.http.get("/files", params={"path": "x" * (LONGEST_PATH + 1), "signature": "x"})
    assert too_long.status_code == 400
    assert owner.http.get("/files", params={"path": "signed", "signature": "é"}).status_code == 401
    assert owner.http.get("/contexts", params={"signature": "x"}).status_code == 401
    query = {"path": "signed", "signature": sign_path(owner.token, "signed", "write", "", "")}
    parts = [("file", (name, b"form")) for name in ("signed", "elsewhere")]
    assert owner.http.post("/files", params=query, files=parts).status_code == 400
    assert owner.data("GET", "/files?path=elsewhere").status_code == 404
    assert owner.http.post("/files", params=query, files=parts[1:]).status_code == 200
    assert get("signed").content == b"form"


def test_lifetimes(owner: Owner) -> None:
    def end() -> str:
        return str(owner.control("GET", f"/sandboxes/{owner.id}").json()["endAt"])

    assert owner.control("POST", f"/sandboxes/{owner.id}/timeout", json={"timeout": 5000}).status_code == 204
    late = end()
    assert owner.control("POST", f"/v2/sandboxes/{owner.id}/connect", json={"timeout": 10}).status_code == 200
    assert end() == late
    assert owner.control("POST", f"/sandboxes/{owner.id}/timeout", json={"timeout": 600}).status_code == 204
    assert end() < late
    for wrong in ({}, {"timeout": 10**9}, {"timeout": -1}, {"timeout": "x"}):
        assert owner.control("POST", f"/sandboxes/{owner.id}/timeout", json=wrong).status_code == 400


def test_a_sandbox_is_paused_and_resumed(service: RunningService, http: httpx.Client) -> None:
    owner = make_owner(service, http, metadata={"paused": "1"}, autoPause=True)
    where = f"/sandboxes/{owner.id}"
    assert owner.control("GET", where).json()["lifecycle"]["onTimeout"] == "pause"
    assert owner.data("POST", "/execute", json={"code": "x = 41"}).status_code == 200
    assert owner.control("POST", f"{where}/pause", json={}).status_code == 204
    assert owner.control("POST", f"{where}/pause", json={}).status_code == 409
    assert owner.control("GET", where).json()["state"] == "paused"
    health = owner.data("GET", "/health")
    assert (health.status_code, health.json()["message"]) == (502, "The sandbox was not found")
    assert owner.control("GET", where).json()["state"] == "paused"
    for state, found in (("paused", [owner.id]), ("running", []), ("running,paused", [owner.id])):
        query = {"state": state, "metadata": "paused%3D1"}
        listed = owner.http.get("/v2/sandboxes", params=query, headers={"X-API-Key": owner.key})
        assert [each["sandboxID"] for each in listed.json()] == found
    assert owner.control("POST", f"{where}/connect", json={"timeout": 500}).status_code == 201
    assert owner.data("GET", "/health").status_code == 204
    assert owner.control("GET", where).json()["state"] == "running"
    assert '"42"' in owner.data("POST", "/execute", json={"code": "x + 1"}).text
    assert owner.control("DELETE", where).status_code == 204


def test_what_is_not_supported_says_so(owner: Owner) -> None:
    answer = owner.control("PUT", f"/sandboxes/{owner.id}/network", json={})
    assert (answer.status_code, answer.json()["code"], answer.headers["Should-Retry"]) == (501, 501, "false")
    assert "not supported" in answer.json()["message"]
    assert owner.control("POST", "/v2/sandboxes", json={"templateID": "no-such"}).status_code == 400
    assert owner.data("POST", "/execute", json={"code": "1", "language": "r"}).status_code == 400
    both = owner.data("POST", "/execute", json={"code": "1", "language": "python", "context_id": "x"})
    assert (both.status_code, both.text) == (400, "Only one of context_id or language can be provided")


def test_lists_have_pages_and_filters(service: RunningService, owner: Owner) -> None:
    key = {"X-API-Key": format_key(service.token)}
    made = [owner.http.post("/v2/sandboxes", json={"metadata": {"run": "1"}}, headers=key).json() for _ in range(2)]
    first = owner.http.get("/v2/sandboxes", params={"limit": "1", "metadata": "run%3D1"}, headers=key)
    more = {"limit": "1", "metadata": "run%3D1", "nextToken": first.headers["X-Next-Token"]}
    second = owner.http.get("/v2/sandboxes", params=more, headers=key)
    found = [each["sandboxID"] for answer in (first, second) for each in answer.json()]
    assert found == [each["sandboxID"] for each in reversed(made)]
    assert "X-Next-Token" not in second.headers
    first = owner.http.get("/v2/sandboxes", params={"order": "asc", "metadata": "run%3D1"}, headers=key)
    assert [each["sandboxID"] for each in first.json()] == [each["sandboxID"] for each in made]
    assert owner.http.get("/v2/sandboxes", params={"metadata": "run%3D2"}, headers=key).json() == []
    for each in made:
        assert owner.http.delete(f"/sandboxes/{each['sandboxID']}", headers=key).status_code == 204
    for method, path in ENDED:
        body = {"json": {"timeout": 100}} if method == "POST" else {}
        gone = owner.http.request(method, f"/sandboxes/{made[0]['sandboxID']}{path}", headers=key, **body)
        assert (gone.status_code, gone.json()["code"]) == (404, 404), path
    for wrong in ({"limit": "0"}, {"limit": "101"}, {"nextToken": "!"}, {"startedAfter": "x"}, {"order": "x"}):
        assert owner.http.get("/v2/sandboxes", params=wrong, headers=key).status_code == 400


def test_a_create_sent_twice_starts_one(service: RunningService, owner: Owner) -> None:
    headers = {"X-API-Key": format_key(service.token), "Idempotency-Key": str(uuid.uuid4())}

    def create(_number: int = 0) -> httpx.Response:
        return owner.http.post("/v2/sandboxes", json={"templateID": "base"}, headers=headers)

    with ThreadPoolExecutor() as threads:
        made = [*threads.map(create, range(3)), create()]
    assert [each.status_code for each in made] == [201] * 4, [each.text for each in made]
    assert len({each.json()["sandboxID"] for each in made}) == 1
    assert owner.http.delete(f"/sandboxes/{made[0].json()['sandboxID']}", headers=headers).status_code == 204
    assert create().status_code == 404


def test_variables_are_kept_out_of_every_record(service: RunningService, owner: Owner) -> None:
    run = owner.run("import os; len(os.environ['SECRET'])")
    assert {"type": "result", "is_main_result": True, "text": "15", "extra": {}} in run
    assert owner.run("import os; len(os.environ['OTHER'])", env_vars={"OTHER": "of-one-run"})[-3]["text"] == "10"
    bearer = {"Authorization": f"Bearer {bytes.fromhex(owner.key[4:]).decode()}"}
    session = f"/v1/sessions/{uuid.UUID(owner.id)}"
    for path in (session, f"{session}/executions", f"{session}/notebook", "/v1/audit"):
        text = owner.http.get(path, headers=bearer).text
        assert "of-the-variable" not in text
        assert "of-one-run" not in text
    wrong = [{"1": "x"}, {"A": "x\0"}, {f"A{number}": "" for number in range(200)}, {"A": "x" * 40_000}]
    for variables in wrong:
        assert owner.data("POST", "/execute", json={"code": "1", "env_vars": variables}).status_code == 400


def test_a_command_is_in_the_record(service: RunningService, owner: Owner) -> None:
    message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "echo recorded"]}}).encode()
    body = b"\0" + len(message).to_bytes(4, "big") + message
    answer = owner.data("POST", "/process.Process/Start", {"Content-Type": "application/connect+json"}, content=body)
    assert b"exit status 0" in answer.content
    bearer = {"Authorization": f"Bearer {bytes.fromhex(owner.key[4:]).decode()}"}
    cells = owner.http.get(f"/v1/sessions/{uuid.UUID(owner.id)}/notebook", headers=bearer).json()["cells"]
    assert any("echo recorded" in "".join(cell["source"]) for cell in cells)


def test_variables_and_contexts_outlive_the_kernel(owner: Owner) -> None:
    context = owner.data("POST", "/contexts", json={"cwd": "/tmp"}).json()
    owner.run("x = 1", context_id=context["id"])
    assert owner.data("POST", "/contexts/default/restart").status_code == 200
    lost = owner.run("x", context_id=context["id"])
    assert lost[0]["name"] == "NameError"
    code = "import os; print(os.getcwd(), os.environ['SECRET'])"
    assert owner.run(code)[0]["text"] == "/home/user of-the-variable\n"
    assert owner.run(code, context_id=context["id"])[0]["text"] == "/tmp of-the-variable\n"
    assert owner.data("DELETE", f"/contexts/{context['id']}").status_code == 200


def test_a_client_that_leaves_interrupts_its_code(owner: Owner) -> None:
    body = {"code": "import time\nprint('begun', flush=True)\ntime.sleep(600)"}
    with owner.http.stream("POST", "/execute", json=body, headers=owner.headers) as answer:
        assert "begun" in next(answer.iter_lines())
    assert owner.run("1 + 1")[0]["text"] == "2"


def test_what_one_run_was_given_is_not_there_for_the_next(service: RunningService) -> None:
    """In a session that was started elsewhere, where code names no context."""
    with service.client() as client, client.session() as session:
        headers = {"E2b-Sandbox-Id": session.id.replace("-", ""), "X-API-Key": service.token}
        for language, show in (("python", "import os; os.getenv('ONCE')"), ("javascript", "Deno.env.get('ONCE')")):
            body = {"code": show, "language": language, "env_vars": {"ONCE": "once"}}
            with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as http:
                assert '"text":"once"' in http.post("/execute", json=body, headers=headers).text.replace(" ", "")
            assert "once" not in str(session.run(show, language=language).outputs)
