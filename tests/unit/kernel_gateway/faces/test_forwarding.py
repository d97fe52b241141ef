"""What a request is for by its address and headers, and what is made of its head for the gateway that has it."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tornado.httputil import HTTPHeaders, HTTPServerRequest

from kernel_gateway.faces.forwarding import MOST_LOOKUPS, Forwards, make_head
from kernel_gateway.faces.librechat.identifiers import format_id
from kernel_gateway.faces.named import Named, find_in_body, find_named, may_name
from kernel_gateway.faces.signs import Signs
from kernel_gateway.services.gateways import Gateways

ID = str(uuid.UUID(int=0x1234567890ABCDEF1234567890ABCDEF, version=4))
SHORT = ID.replace("-", "")
SESSION, WORKSPACE = Named("session", ID), Named("workspace", ID)
ENGINE = "projects/p/locations/l/reasoningEngines/1"
SANDBOXES = f"/v1beta1/{ENGINE}/sandboxEnvironments"
OF_ENGINE = Named("agent engine", "4")
AGENTCORE = {"x-amzn-code-interpreter-session-id": SHORT}


@pytest.mark.parametrize(
    ("address", "headers", "named"),
    [
        (f"/v1/sessions/{ID}", {}, SESSION),
        (f"/v1/sessions/{ID}/files/a/b%2Fc", {}, SESSION),
        (f"/v1/admin/sessions/{ID}", {}, SESSION),
        (f"/v1/workspaces/{ID}/files/a", {}, WORKSPACE),
        (f"/api/kernels/{ID}/channels?session_id=x", {}, SESSION),
        (f"/api/sessions/{ID}", {}, SESSION),
        (f"/v2/sandboxes/{SHORT}/connect", {}, SESSION),
        (f"/sandboxes/{SHORT}-client", {}, SESSION),
        ("/process.Process/List", {"E2b-Sandbox-Id": SHORT}, SESSION),
        ("/code-interpreters/python/tools/invoke", AGENTCORE, SESSION),
        ("/a/prefix/code-interpreters/python/tools/invoke", AGENTCORE, SESSION),
        (f"/code-interpreters/python/sessions/get?sessionId={SHORT}", {}, SESSION),
        (f"/librechat/v1/download/{format_id(ID)}/file", {}, WORKSPACE),
        (
            "/v1beta1/projects/p/locations/l/reasoningEngines/1/sandboxEnvironments/123:execute",
            {},
            Named("agent engine", "123"),
        ),
        (
            "/v1/projects/p/locations/l/reasoningEngines/1/sandboxEnvironments/123/:execute",
            {},
            Named("agent engine", "123"),
        ),
        (
            "/v1beta1/projects/p/locations/l/reasoningEngines/1/sandboxEnvironmentSnapshots/123",
            {},
            Named("agent engine", "123"),
        ),
        (f"/templates/{SHORT}:default", {}, Named("template", ID)),
        ("/templates/tried", {}, Named("template", "tried")),
        ("/templates/base", {}, None),
        ("/mcp", {"Mcp-Session-Id": f"{'a1' * 16}.secret"}, Named("gateway", "a1" * 16)),
        ("/mcp", {"Mcp-Session-Id": "secret"}, None),
        ("/v1/sessions", {}, None),
        ("/v1/sessions/not-an-id", {}, None),
        (f"/v1/environments/{ID}", {}, None),
        ("/code-interpreters/python/sessions/start", {}, None),
        ("/process.Process/List", {"E2b-Sandbox-Id": "../../etc"}, None),
        (f"/v1/projects/p/sandboxEnvironments/{'1' * 20}", {}, None),
    ],
)
def test_what_a_request_is_for(address: str, headers: dict[str, str], named: Named | None) -> None:
    path, _, query = address.partition("?")
    assert find_named(path, query, HTTPHeaders(headers)) == named


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("/v1/sessions", f'{{"environment": "python", "workspace_id": "{ID}"}}', WORKSPACE),
        ("/v1/sessions", f'{{"replay_of": "{ID}"}}', SESSION),
        ("/v1/sessions", f'{{"from": {{"session": "{ID}", "cell": 3}}}}', SESSION),
        ("/v1/notebooks/replay", f'{{"notebook": {{}}, "continue_session": "{ID}"}}', SESSION),
        ("/v1/notebooks/replay", f'{{"session_id": "{ID}"}}', SESSION),
        ("/librechat/v1/exec", f'{{"code": "1", "session_id": "{format_id(ID)}"}}', WORKSPACE),
        ("/sandboxes", f'{{"templateID": "{SHORT}"}}', Named("template", ID)),
        ("/v2/sandboxes", '{"templateID": "tried:default"}', Named("template", "tried")),
        ("/v2/sandboxes", '{"templateID": "base"}', None),
        (SANDBOXES, f'{{"sandboxEnvironmentSnapshot": "{ENGINE}/sandboxEnvironmentSnapshots/4"}}', OF_ENGINE),
        (SANDBOXES, '{"displayName": "mine"}', None),
        ("/v1/sessions", "{}", None),
        ("/v1/sessions", '{"workspace_id": 3}', None),
        ("/v1/sessions", "[" * 60_000, None),
        ("/v1/sessions", "\udcff", None),
    ],
)
def test_what_a_body_says_a_request_is_for(path: str, body: str, named: Named | None) -> None:
    assert find_in_body(path, body.encode("utf-8", "surrogateescape")) == named


@pytest.mark.parametrize(
    ("method", "path", "headers", "read"),
    [
        ("POST", "/v1/sessions", {"Content-Length": "2"}, True),
        ("POST", "/v1/sessions", {"Content-Length": "65536"}, True),
        ("POST", "/v1/sessions", {"Content-Length": "65537"}, False),
        ("POST", "/v1/sessions", {"Content-Length": "0"}, False),
        ("POST", "/v1/sessions", {"Transfer-Encoding": "chunked"}, True),
        ("POST", "/v1/sessions", {"Transfer-Encoding": "gzip, chunked"}, False),
        ("POST", "/v1/sessions", {"Content-Length": "2", "Expect": "100-continue"}, False),
        ("GET", "/v1/sessions", {"Content-Length": "2"}, False),
        ("POST", "/v1/tokens", {"Content-Length": "2"}, False),
        ("POST", "/v2/sandboxes", {"Content-Length": "2"}, True),
        ("POST", SANDBOXES, {"Content-Length": "2"}, True),
        ("POST", f"{SANDBOXES}/123", {"Content-Length": "2"}, False),
    ],
)
def test_only_short_bodies_are_read_that_may_say_it(
    method: str, path: str, headers: dict[str, str], *, read: bool
) -> None:
    request: Any = SimpleNamespace(method=method, path=path, headers=HTTPHeaders(headers))
    assert may_name(cast("HTTPServerRequest", request)) is read


def head(*headers: tuple[str, str], method: str = "POST") -> list[str]:
    found = HTTPHeaders()
    for name, value in headers:
        found.add(name, value)
    request: Any = SimpleNamespace(
        method=method, uri="/v1/x?y=%20", version="HTTP/1.1", headers=found, remote_ip="198.51.100.7"
    )
    made = make_head(cast("HTTPServerRequest", request), "me").decode("latin-1")
    assert made.endswith("\r\n\r\n")
    return made.removesuffix("\r\n\r\n").split("\r\n")


def test_a_request_is_passed_on_as_it_came_and_is_answered_once() -> None:
    lines = head(
        ("Host", "sandcell.example"),
        ("Authorization", "Bearer caf\xe9"),
        ("Connection", "keep-alive"),
        ("Keep-Alive", "timeout=5"),
        ("Cookie", "a=1"),
        ("Content-Length", "3"),
    )
    assert lines[0] == "POST /v1/x?y=%20 HTTP/1.1"
    assert {"Host: sandcell.example", "Authorization: Bearer caf\xe9", "Cookie: a=1", "Content-Length: 3"} <= {*lines}
    assert [each for each in lines if each.lower().startswith(("connection", "keep-alive"))] == ["Connection: close"]
    assert "Sandcell-Forwarded: me" in lines


def test_nobody_says_for_whom_or_by_whom_a_request_was_passed_on_but_those_who_did() -> None:
    lines = head(("X-Forwarded-For", "203.0.113.9"), ("X-Forwarded-For", "10.0.0.1"), ("Sandcell-Forwarded", "you"))
    assert [each for each in lines if "orwarded" in each] == [
        "X-Forwarded-For: 203.0.113.9, 10.0.0.1, 198.51.100.7",
        "Sandcell-Forwarded: me",
    ]


def test_a_socket_stays_one() -> None:
    lines = head(("Connection", "Upgrade"), ("Upgrade", "websocket"), method="GET")
    assert {"Connection: Upgrade", "Upgrade: websocket"} <= {*lines}


def test_signatures_that_are_looked_up_hold_up_no_other_request() -> None:
    async def act() -> None:
        asked, never = asyncio.Semaphore(0), asyncio.Event()

        async def find_signed(_request: HTTPServerRequest) -> str:
            asked.release()
            await never.wait()
            return ""

        async def find(_kind: str, _name: str) -> None:
            return None

        gateways = SimpleNamespace(on_change=lambda _heard: None, find=find)
        forwards = Forwards(cast("Gateways", gateways), cast("Signs", SimpleNamespace(find_signed=find_signed)))
        signed, request = Named("signature", "signature=x"), cast("HTTPServerRequest", None)
        asking = [asyncio.create_task(forwards.find(signed, request)) for _ in range(MOST_LOOKUPS)]
        for _ in asking:
            await asked.acquire()
        assert await asyncio.wait_for(forwards.find(SESSION, request), 120) is None
        never.set()
        assert await asyncio.gather(*asking) == [None] * MOST_LOOKUPS

    asyncio.run(act())
