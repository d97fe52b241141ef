"""Every door of every face is closed to all but those whose it is. A new route is tried here by itself.

A token that may do less than its principal is one more `Caller`: `refused` says at which doors, `door.changes` which
doors are more than a look.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from kernel_gateway.faces.e2b.identifiers import SANDBOX_HEADER, format_key
from kernel_gateway.faces.librechat.identifiers import format_id, identify_file
from tests.integration.kernel_gateway.faces.doors import (
    AGENT_ENGINE,
    AGENTCORE,
    E2B,
    JUPYTER,
    LIBRECHAT,
    MCP,
    NOTEBOOK,
    REST,
    Door,
    every_door,
)
from tests.running_service import RunningService

DOORS = every_door()


@dataclass(frozen=True)
class Person:
    """A principal with each kind of credential."""

    token: str
    key_id: str
    secret: str


@dataclass(frozen=True)
class Stage:
    """A principal with one of everything, whose things `ids` names, a stranger, and what counts no longer."""

    service: RunningService
    http: httpx.Client
    owner: Person
    stranger: Person
    revoked: Person
    attach_token: str
    sandbox_token: str
    revoked_attach_token: str
    ids: dict[str, str] = field(default_factory=dict)


Dress = Callable[[Stage, Door, dict[str, str]], dict[str, str]]


@dataclass(frozen=True)
class Caller:
    """`dress` gives a request's headers the caller's credentials; `refused` is with which statuses, per face."""

    name: str
    dress: Dress
    refused: dict[str, set[int]]


def bearer(token: Callable[[Stage], str], scheme: str = "Bearer") -> Dress:
    return lambda stage, _, headers: {**headers, "Authorization": f"{scheme} {token(stage)}"}


def keyed(key: Callable[[Stage], str], header: str = "X-Api-Key") -> Dress:
    """As E2B's clients send it."""
    return lambda stage, _, headers: {**headers, header: key(stage)}


def signing(who: Callable[[Stage], Person], secret: str | None = None, minutes: int = 0) -> Dress:
    """Signed with a person's access key, or with another secret or at another time."""

    def dress(stage: Stage, door: Door, headers: dict[str, str]) -> dict[str, str]:
        person = who(stage)
        url = stage.service.url + door.address(stage.ids)
        request = AWSRequest(method=door.method, url=url, data=door.content(stage.ids))
        for name, value in headers.items():
            request.headers[name] = value
        moment = (datetime.now(UTC) + timedelta(minutes=minutes)).replace(tzinfo=None)
        with mock.patch("botocore.auth.get_current_datetime", return_value=moment):
            credentials = Credentials(person.key_id, secret or person.secret)
            SigV4Auth(credentials, "bedrock-agentcore", "eu-central-1").add_auth(request)
        return dict(request.headers.items())

    return dress


NOBODYS = {REST: {401}, JUPYTER: {401}, AGENT_ENGINE: {401}, LIBRECHAT: {401}, MCP: {401}}
NOBODYS_BUT_JUPYTER = {face: statuses for face, statuses in NOBODYS.items() if face != JUPYTER}
UNSIGNED = {AGENTCORE: {400, 403}}
CALLERS = [
    Caller("nobody", lambda _stage, _door, headers: headers, NOBODYS | UNSIGNED),
    Caller("a wrong token", bearer(lambda _: "sandcell_" + "x" * 43), NOBODYS | UNSIGNED),
    Caller("a token by another scheme", bearer(lambda stage: stage.owner.token, "Basic"), NOBODYS | UNSIGNED),
    Caller("a token where requests are signed", bearer(lambda stage: stage.owner.token), UNSIGNED),
    Caller("a revoked token", bearer(lambda stage: stage.revoked.token), NOBODYS),
    Caller("a key's secret as a token", bearer(lambda stage: stage.owner.secret), NOBODYS),
    Caller("a person who attaches", bearer(lambda stage: stage.attach_token), NOBODYS_BUT_JUPYTER),
    Caller("a revoked attach token", bearer(lambda stage: stage.revoked_attach_token), NOBODYS),
    Caller("a wrong key of E2B's form", keyed(lambda _: format_key("sandcell_" + "x" * 43)), {E2B: {401}}),
    Caller("a revoked token as a key", keyed(lambda stage: stage.revoked.token), {E2B: {401}}),
    Caller("an attach token as a key", keyed(lambda stage: stage.attach_token), {E2B: {401}}),
    Caller("the token of another sandbox", keyed(lambda stage: stage.sandbox_token, "X-Access-Token"), {E2B: {401}}),
    Caller("a wrong secret", signing(lambda stage: stage.owner, "x" * 40), {AGENTCORE: {403}}),
    Caller("a revoked key", signing(lambda stage: stage.revoked), {AGENTCORE: {403}}),
    Caller("an expired signature", signing(lambda stage: stage.owner, minutes=-10), {AGENTCORE: {403}}),
    Caller("a signature of the future", signing(lambda stage: stage.owner, minutes=10), {AGENTCORE: {403}}),
]


def ask(stage: Stage, door: Door, dress: Dress) -> httpx.Response:
    headers = dress(stage, door, door.sent_headers(stage.ids))
    request = stage.http.build_request(
        door.method, door.address(stage.ids), content=door.content(stage.ids), headers=headers
    )
    answer = stage.http.send(request, stream=True)
    if not door.follows or answer.status_code != 200:
        answer.read()
    answer.close()
    return answer


@pytest.fixture(scope="module")
def stage(service: RunningService) -> Iterator[Stage]:
    with (
        service.client() as admin,
        httpx.Client(base_url=service.url, timeout=120, trust_env=False) as http,
    ):

        def person(name: str) -> tuple[Person, Any, Any]:
            principal = f"{name}-{uuid.uuid4()}"
            token, key = admin.create_token(principal), admin.create_key(principal)
            return Person(token.token or "", key.id, key.secret_access_key or ""), token, key

        owner, stranger, (revoked, token, key) = person("owner")[0], person("stranger")[0], person("revoked")
        admin.revoke_token(token.id)
        admin.revoke_key(key.id)
        http.headers["Authorization"] = f"Bearer {owner.token}"
        ids, attach_token, revoked_attach_token = make_one_of_each(http)
        sandbox_token = add_to_sandbox(http, owner.token, ids)
        del http.headers["Authorization"]
        yield Stage(service, http, owner, stranger, revoked, attach_token, sandbox_token, revoked_attach_token, ids)
        headers = {"Authorization": f"Bearer {owner.token}"}
        http.delete(f"/v1/sessions/{ids['session_id']}", headers=headers)
        engine = f"/v1beta1/projects/some/locations/where/reasoningEngines/{ids['engine']}"
        assert http.delete(engine, params={"force": "true"}, headers=headers).status_code == 200


def make_one_of_each(http: httpx.Client) -> tuple[dict[str, str], str, str]:
    """One of everything that an address can name, and two attach tokens, the second revoked."""

    def post(path: str, body: Any) -> Any:
        answer = http.request("PUT" if path.startswith("/v1/agents/") else "POST", path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    made = f"made{uuid.uuid4().hex[:12]}"
    environment = post("/v1/environments", {"name": made})
    post(f"/v1/agents/{made}", {"environment": environment["id"]})
    session = post("/v1/sessions", {"environment": environment["id"]})
    one = f"/v1/sessions/{session['id']}"
    execution = post(f"{one}/executions", {"code": "open('file', 'w').write('kept')"})
    checkpoint = post(f"{one}/checkpoints", None)
    task = post(f"{one}/commands", {"command": "sleep 3600", "background": True})
    program = post(f"{one}/programs", {"command": ["sleep", "3600"]})
    replay = post("/v1/notebooks/replay", {"notebook": NOTEBOOK, "continue_session": session["id"]})
    post(f"{one}/lease", {})
    upload = post(f"{one}/uploads?path=file", None)
    attach, gone = post(f"{one}/attach-tokens", {}), post(f"{one}/attach-tokens", {})
    assert http.delete(f"{one}/attach-tokens/{gone['id']}").is_success
    assert http.delete(f"{one}/lease").is_success
    engines = "/v1beta1/projects/some/locations/where/reasoningEngines"
    engine = post(engines, {})["response"]["name"].rpartition("/")[2]
    sandbox = post(f"{engines}/{engine}/sandboxEnvironments", {})["response"]["name"].rpartition("/")[2]
    snapshot = post(f"{engines}/{engine}/sandboxEnvironments/{sandbox}:snapshot", {})["response"]["name"]
    template = post(f"{engines}/{engine}/sandboxEnvironmentTemplates", {})["response"]["name"].rpartition("/")[2]
    begun = next(door for door in DOORS if door.message == "initialize")
    opened = http.request(begun.method, begun.path, content=begun.body, headers={"Content-Type": "application/json"})
    assert opened.is_success, opened.text
    arn = f"arn:aws:bedrock-agentcore:eu-central-1:000000000000:code-interpreter-custom/{environment['id']}"
    ids = {
        "session_id": session["id"],
        "shown_session_id": session["id"].replace("-", ""),
        "execution_id": execution["id"],
        "task_id": task["id"],
        "program_id": program["id"],
        "checkpoint_id": checkpoint["id"],
        "workspace_id": session["workspace_id"],
        "storage_id": format_id(session["workspace_id"]),
        "file_id": identify_file("file"),
        "path": "file",
        "name": "absent",
        "sha256": "0" * 64,
        "replay_id": replay["id"],
        "environment_id": environment["id"],
        "agent_id": made,
        "token_id": attach["id"],
        "upload_id": upload["id"],
        "key_id": "absent",
        "codeInterpreterIdentifier": environment["id"],
        "codeInterpreterId": environment["id"],
        "resourceArn": arn,
        "kernel_name": environment["id"],
        "file": "logo-64x64.png",
        "principal": "admin",
        "engine": engine,
        "sandbox": sandbox,
        "template": template,
        "snapshot": snapshot.rpartition("/")[2],
        "operation": "create",
        "mcp_session": opened.headers["Mcp-Session-Id"],
    }
    return ids, attach["token"], gone["token"]


def add_to_sandbox(http: httpx.Client, token: str, ids: dict[str, str]) -> str:
    """Make a context and a watcher in the session; returns the token of another sandbox of the same owner.

    A snapshot of one is there.
    """
    headers = {"X-Api-Key": token, SANDBOX_HEADER: ids["shown_session_id"]}
    ids["snapshot_id"] = http.get("/snapshots", headers=headers).json()[0]["snapshotID"]
    ids["context_id"] = http.post("/contexts", json={}, headers=headers).json()["id"]
    watched = {"path": "/workspace"}
    watcher = http.post("/filesystem.Filesystem/CreateWatcher", json=watched, headers=headers).json()
    ids["watcher_id"] = watcher["watcherId"]
    others = [each["sandboxID"] for each in http.get("/sandboxes", headers=headers).json()]
    others.remove(ids["shown_session_id"])
    return http.get(f"/sandboxes/{others[0]}", headers=headers).json()["envdAccessToken"]


@pytest.mark.sample(600)  # of 1,466: each door is asked by several callers, by all of them in `make test-long`
@pytest.mark.parametrize(
    ("caller", "door"),
    [(caller, door) for caller in CALLERS for door in DOORS if door.face in caller.refused],
    ids=lambda value: value.name if isinstance(value, Caller) else str(value),
)
def test_a_door_is_closed_to_a_credential_that_does_not_count(stage: Stage, caller: Caller, door: Door) -> None:
    answer = ask(stage, door, caller.dress)
    if door.public:
        assert answer.status_code in {200, 503}
        return
    assert answer.status_code in caller.refused[door.face], answer.text
    assert not any(value in answer.text for name, value in stage.ids.items() if name.endswith("_id"))
    if door.face not in {AGENTCORE, E2B} and door.method != "HEAD":
        where = f'resource_metadata="{stage.service.url}/.well-known/oauth-protected-resource/mcp"'
        assert answer.headers["WWW-Authenticate"] == (f"Bearer {where}" if door.face == MCP else "Bearer")
        assert "valid bearer token is required" in answer.text


@pytest.mark.parametrize("door", [door for door in DOORS if not door.public], ids=str)
def test_what_is_anothers_is_not_there(stage: Stage, door: Door) -> None:
    stranger = dress_as(door, lambda s: s.stranger)
    if not door.names_something and door.changes:
        assert str(door) in OWN  # it makes something of the caller's own, or is an administrator's
        return
    answer = ask(stage, door, stranger)
    if not door.names_something:
        assert answer.status_code in {200, 403}
    else:
        assert answer.status_code in refusals(door), answer.text
    if door.path != "/v1/audit":  # which has what the stranger asked for
        hidden = [
            value for name, value in stage.ids.items() if name.endswith("_id") and value not in asked(stage, door)
        ]
        assert not any(value in answer.text for value in hidden)


def dress_as(door: Door, who: Callable[[Stage], Person]) -> Dress:
    """This person's credentials, as clients of the door's face send them."""
    if door.face == AGENTCORE:
        return signing(who)
    return keyed(lambda stage: who(stage).token) if door.face == E2B else bearer(lambda stage: who(stage).token)


def refusals(door: Door) -> set[int]:
    """What somebody else is answered where a door names something that is not theirs."""
    if door.path == "/kernelspecs/{kernel_name}/{file}":
        return {200}  # a picture, the same for every name
    if SANDBOX_HEADER in door.headers:
        return {502}
    return {403, 404} if door.path.split("/")[2:3] in ADMINISTRATORS else {404}


OWN = {
    "POST /v2/sandboxes",
    "POST /sandboxes",
    "GET /snapshots",
    "POST /v1/audit/verification",
    "POST /v1/console/links",
    "POST /v1/environments",
    "POST /v1/tokens",
    "POST /v1/keys",
    "POST /v1/retention",
    "PUT /code-interpreters",
    "POST /code-interpreters",
    "POST /v1beta1/projects/some/locations/where/reasoningEngines",
    "POST /api/kernels",
    "POST /librechat/v1/exec/programmatic",
    "POST /librechat/v1/upload",
    "POST /librechat/v1/upload/batch",
}
ADMINISTRATORS = (["tokens"], ["keys"], ["principals"], ["admin"], ["doctor"])


def asked(stage: Stage, door: Door) -> str:
    """What a refusal may repeat: what was in the request."""
    return door.address(stage.ids) + door.content(stage.ids).decode() + json.dumps(door.sent_headers(stage.ids))


NOT_MADE = (
    "{name}",
    "{sha256}",
    "/channels",
    "/lease",
    "{file}",
    "/v1/workspaces/{workspace_id}/uploads/",
    "notifications/",
)
"""Addresses of what the owner here has none of, or that are no request and answer."""


@pytest.mark.parametrize(
    "door",
    [
        door
        for door in DOORS
        if not door.changes and not door.public and not any(each in str(door) for each in NOT_MADE)
    ],
    ids=str,
)
def test_the_owner_finds_it_there(stage: Stage, door: Door) -> None:
    """So what others are refused is not refused for want of it."""
    answer = ask(stage, door, dress_as(door, lambda s: s.owner))
    forbidden = door.path.split("/")[2:3] in ADMINISTRATORS or door.path in ("/metrics", "/v1/audit/verification")
    assert answer.status_code == (403 if forbidden else 204 if door.path == "/health" else 200), answer.text


def test_and_nothing_of_it_was_changed(stage: Stage) -> None:
    headers, one = {"Authorization": f"Bearer {stage.owner.token}"}, f"/v1/sessions/{stage.ids['session_id']}"

    def get(path: str) -> httpx.Response:
        answer = stage.http.get(path, headers=headers)
        assert answer.is_success, answer.text
        return answer

    session = get(one).json()
    assert (session["status"], session["generation"]) == ("READY", 1)
    assert get(f"{one}/files/file").text == "kept"
    assert get(f"{one}/tasks/{stage.ids['task_id']}").json()["status"] == "running"
    assert len(get(f"{one}/executions").json()["items"]) == 2  # its own, and the replay's
    assert get(f"/v1/agents/{stage.ids['agent_id']}").json()["environment"] == stage.ids["environment_id"]
    assert get(f"/v1/environments/{stage.ids['environment_id']}").json()["status"] == "READY"
    assert stage.http.get(f"{one}/lease", headers=headers).status_code == 404
