"""Every route of every face on a real service, tried with credentials that are good for less than it needs.

The routes are those of the tables: a new one is in here by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import botocore.session
import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from kernel_gateway.faces import scopes
from kernel_gateway.faces.agent_engine import table as agent_engine
from kernel_gateway.faces.agentcore import operations
from kernel_gateway.faces.e2b import routes as e2b
from kernel_gateway.faces.e2b.identifiers import format_key
from kernel_gateway.faces.jupyter import routes as jupyter
from kernel_gateway.faces.librechat import routes as librechat
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.faces.rest.table import TABLE
from sandcell import Forbidden
from sandcell.models.credentials import SCOPES, Scope
from tests.running_service import RunningService

GUARDED = [each for each in TABLE if each.scope is not None]
EVERY: set[Scope] = {*SCOPES, "metrics"}
SOMETHING = "3f0c8a52-6f3e-4f1e-9d1c-0123456789ab"


def address(pattern: str) -> str:
    """An address with parameters that name nothing."""
    return re.sub(r"\{\w+\}", SOMETHING, pattern)


def _find_enough(needed: Scope) -> set[Scope]:
    """The scopes of an administrator's tokens that are enough."""
    return {"metrics", "admin"} if needed == "metrics" else {*SCOPES[SCOPES.index(needed) :]}


def route_name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def tokens(service: RunningService) -> dict[Scope, str]:
    """A token of the administrator for each scope."""
    with service.client() as client:
        return {scope: client.create_token("admin", scope, scope=scope).token or "" for scope in EVERY}


@pytest.fixture(scope="module")
def http(service: RunningService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=120, trust_env=False) as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def code_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"] if answer.content else ""


@pytest.mark.parametrize("route", GUARDED, ids=route_name)
def test_rest(http: httpx.Client, tokens: dict[Scope, str], route: Route) -> None:
    assert route.scope is not None
    place = address(route.path)
    body = None if route.method == "HEAD" else ""
    assert http.request(route.method, place).status_code == 401
    assert http.request(route.method, place, headers=bearer("wrong")).status_code == 401
    for scope in EVERY - _find_enough(route.scope):
        answer = http.request(route.method, place, headers=bearer(tokens[scope]))
        assert code_of(answer) == (403, "scope_missing" if body is not None else "")


def test_rest_lets_through_what_the_scope_includes(http: httpx.Client, tokens: dict[Scope, str]) -> None:
    for route in GUARDED:
        if route.method == "GET" and route.scope is not None and not route.parameters:
            for scope in _find_enough(route.scope):
                answer = http.get(route.path, headers=bearer(tokens[scope]))
                unbegun = (404, "not_found") if route.name == "getAuditVerification" else None
                assert answer.status_code == 200 or code_of(answer) == unbegun, route.path


@pytest.mark.parametrize("route", jupyter.TABLE, ids=lambda each: each.event)
def test_jupyter(http: httpx.Client, tokens: dict[Scope, str], route: jupyter.Route) -> None:
    place = address(route.path)
    assert http.request(route.method, place).status_code == 401
    answer = http.request(route.method, place, headers={"Authorization": f"token {tokens['read']}"})
    assert (answer.status_code == 403) == (route.scope == "run")


def test_the_socket(http: httpx.Client, tokens: dict[Scope, str]) -> None:
    place = address(jupyter.CHANNELS.path)
    assert http.get(place).status_code == 401
    assert http.get(place, params={"token": tokens["read"]}).status_code == 403
    assert http.get(place, params={"token": tokens["run"]}).status_code == 404


@pytest.mark.parametrize("route", agent_engine.TABLE, ids=lambda each: each.name)
def test_agent_engine(http: httpx.Client, tokens: dict[Scope, str], route: agent_engine.Route) -> None:
    place = address(route.path)
    assert http.request(route.method, place).status_code == 401
    answer = http.request(route.method, place, headers={"x-goog-api-key": tokens["read"]})
    assert (answer.status_code == 403) == (route.scope == "run")
    if route.scope == "run":
        assert answer.json()["error"]["status"] == "PERMISSION_DENIED"


@pytest.mark.parametrize("operation", operations.TABLE, ids=lambda each: each.name)
def test_agentcore(
    http: httpx.Client, service: RunningService, keys: dict[str, Credentials], operation: operations.Operation
) -> None:
    place = service.url + address(operation.path)
    refused = []
    for scope in ("read", "run"):
        headers = {"x-amzn-code-interpreter-session-id": "0" * 32}
        request = AWSRequest(operation.method, place, headers=headers, data=b"{}")
        SigV4Auth(keys[scope], "bedrock-agentcore", "us-west-2").add_auth(request)
        answer = http.request(operation.method, place, headers=dict(request.headers), content=b"{}")
        refused.append(answer.status_code == 403)
    assert refused == [operation.scope == "run", False]


@pytest.mark.parametrize("route", e2b.TABLE, ids=lambda each: each.name)
def test_e2b(http: httpx.Client, tokens: dict[Scope, str], route: e2b.Route) -> None:
    place, sandbox = address(route.path), {"E2b-Sandbox-Id": SOMETHING}
    assert http.request(route.method, place, headers=sandbox).status_code == 401
    headers = {**sandbox, "X-API-Key": format_key(tokens["read"])}
    answer = http.request(route.method, place, headers=headers)
    assert (answer.status_code == 403) == (route.scope == "run"), answer.text


@pytest.mark.parametrize("route", librechat.TABLE, ids=lambda each: each.name)
def test_librechat(http: httpx.Client, tokens: dict[Scope, str], route: librechat.Route) -> None:
    place = address(route.path)
    assert http.request(route.method, place).status_code == 401
    answer = http.request(route.method, place, headers={"X-API-Key": tokens["read"]})
    assert (answer.status_code == 403) == (route.scope == "run"), answer.text


@pytest.fixture(scope="module")
def keys(service: RunningService) -> dict[str, Credentials]:
    """An access key for each scope that the face knows."""
    botocore.session.get_session()
    with service.client() as client:
        made = {scope: client.create_key("scoped", scope=scope) for scope in ("read", "run")}
    return {scope: Credentials(each.id, each.secret_access_key) for scope, each in made.items()}


def test_an_administrators_token_for_less_administers_nothing(
    service: RunningService, tokens: dict[Scope, str]
) -> None:
    """Not over routes that everybody may call, either: there it sees what is its own."""
    with service.client(tokens["run"]) as client:
        assert {each.principal for each in client.usage().items} == {"admin"}
        with pytest.raises(Forbidden):
            client.list_audit(principal="somebody-else")
        with pytest.raises(Forbidden, match="scope admin"):
            client.create_token("me")


def test_every_scope_of_the_tables_is_tried() -> None:
    assert {each.scope for each in GUARDED} == set(scopes.REST)
