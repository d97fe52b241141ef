"""Bad input over HTTP: each gets its status, its code and the one shape of errors, and changes nothing."""

from __future__ import annotations

import socket
import uuid
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from kernel_gateway.faces.rest.table import TABLE
from tests.running_service import RunningService

NOBODY = "00000000-0000-4000-8000-000000000000"
JSON = {"Content-Type": "application/json"}


def refusal(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, whose shape is checked."""
    body = answer.json()
    assert set(body) == {"error"}
    assert {"code", "message", "retryable"} <= set(body["error"])
    assert answer.headers["Content-Type"] == "application/json"
    assert "Server" not in answer.headers
    error: dict[str, Any] = body["error"]
    return error


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v2/nothing", 404, "unknown_route"),
        ("GET", "/v1", 404, "unknown_route"),
        ("GET", "/v1/sessions/", 404, "unknown_route"),
        ("PATCH", "/v1/sessions", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/sessions", 405, "method_not_allowed"),
        ("BREW", "/v1/sessions", 405, "method_not_allowed"),
        ("BREW", "/coffee", 404, "unknown_route"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("GET", f"/v1/sessions/{NOBODY}", 404, "not_found"),
        ("GET", "/v1/sessions/not-an-id", 404, "not_found"),
        ("GET", "/v1/sessions/%ff%00", 404, "not_found"),
        ("GET", "/v1/sessions/" + "a" * 500, 404, "not_found"),
        ("DELETE", f"/v1/sessions/{NOBODY}", 404, "not_found"),
        ("POST", f"/v1/sessions/{NOBODY}/interrupt", 404, "not_found"),
        ("POST", f"/v1/sessions/{NOBODY}/restart", 404, "not_found"),
        ("GET", f"/v1/sessions/{NOBODY}/notebook", 404, "not_found"),
        ("GET", f"/v1/sessions/{NOBODY}/executions", 404, "not_found"),
        ("GET", f"/v1/sessions/{NOBODY}/files", 404, "not_found"),
        ("GET", f"/v1/workspaces/{NOBODY}", 404, "not_found"),
        ("DELETE", f"/v1/tokens/{NOBODY}", 404, "not_found"),
        ("DELETE", f"/v1/keys/{NOBODY}", 404, "not_found"),
        ("DELETE", "/v1/keys/a%2Fb", 404, "not_found"),
        ("GET", "/v1/sessions?limit=0", 400, "invalid_request"),
        ("GET", "/v1/sessions?limit=1001", 400, "invalid_request"),
        ("GET", "/v1/sessions?colour=red", 400, "invalid_request"),
        ("GET", "/v1/sessions?cursor=made-up", 400, "invalid_request"),
        ("GET", f"/v1/sessions/{'{session}'}/executions/{NOBODY}", 404, "not_found"),
        ("GET", f"/v1/sessions/{'{session}'}/executions/{NOBODY}/events", 404, "not_found"),
        ("POST", f"/v1/sessions/{'{session}'}/executions/{NOBODY}/interrupt", 404, "not_found"),
        ("GET", f"/v1/sessions/{'{session}'}/tasks/{NOBODY}", 404, "not_found"),
        ("GET", "/v1/sessions/{session}/files/absent", 404, "not_found"),
        ("GET", "/v1/sessions/{session}/files?path=/etc", 400, "invalid_path"),
        ("GET", "/v1/sessions/{session}/files?path=a/../../etc", 400, "invalid_path"),
    ],
)
def test_an_address_that_is_wrong(
    http: httpx.Client, session_id: str, method: str, path: str, status: int, code: str
) -> None:
    answer = http.request(method, path.replace("{session}", session_id))
    assert (answer.status_code, refusal(answer)["code"]) == (status, code)
    assert ("Allow" in answer.headers) == (status == 405)
    assert answer.headers.get("Connection") == ("close" if method == "BREW" else None)


@pytest.mark.parametrize(
    ("path", "content", "status", "code", "field"),
    [
        ("/v1/sessions", b"{", 400, "malformed_json", None),
        ("/v1/sessions", b'{"name": "\xff"}', 400, "malformed_json", None),
        ("/v1/sessions", b"[]", 400, "invalid_request", None),
        ("/v1/sessions", b'{"colour": 1}', 400, "invalid_request", "colour"),
        ("/v1/sessions", b'{"timeout_seconds": "1"}', 400, "invalid_request", "timeout_seconds"),
        ("/v1/sessions", b'{"labels": {"a": 1}}', 400, "invalid_request", "labels[...]"),
        ("/v1/sessions", b'{"name": "a\\u0000b"}', 400, "invalid_request", "name"),
        ("/v1/sessions", b'{"agent": "\\u0000"}', 400, "invalid_request", "agent"),
        ("/v1/sessions", b'{"labels": {"\\u0000": "b"}}', 400, "invalid_request", "labels"),
        ("/v1/sessions", b'{"labels": {"a": "\\u0000"}}', 400, "invalid_request", "labels"),
        ("/v1/sessions", b'{"environment": "cobol"}', 404, "unknown_environment", None),
        ("/v1/sessions", b'{"sync": "sometimes"}', 400, "invalid_request", "sync"),
        ("/v1/sessions/{session}/executions", b'{"code": "1", "sync": true}', 400, "invalid_request", "sync"),
        (
            "/v1/sessions/{session}/commands",
            b'{"command": "true", "background": true, "sync": "before_return"}',
            *(400, "invalid_request", "sync"),
        ),
        ("/v1/sessions/{session}/executions", b"{}", 400, "invalid_request", "code"),
        ("/v1/sessions/{session}/executions", b'{"code": "\xff"}', 400, "malformed_json", None),
        ("/v1/sessions/{session}/executions", b'{"code": "\\ud800"}', 400, "malformed_json", None),
        ("/v1/sessions/{session}/commands", b'{"command": 1}', 400, "invalid_request", "command"),
        ("/v1/tokens", b'{"principal": ""}', 400, "invalid_request", "principal"),
        ("/v1/keys", b'{"principal": ""}', 400, "invalid_request", "principal"),
        ("/v1/keys", b'{"principal": "a b"}', 400, "invalid_request", None),
        ("/v1/keys", b'{"principal": "me", "secret": "mine"}', 400, "invalid_request", "secret"),
    ],
)
def test_a_body_that_is_wrong(
    http: httpx.Client, session_id: str, path: str, content: bytes, status: int, code: str, field: str | None
) -> None:
    answer = http.post(path.replace("{session}", session_id), content=content, headers=JSON)
    error = refusal(answer)
    assert (answer.status_code, error["code"], error.get("field")) == (status, code, field)


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        ("/v1/sessions", "timeout_seconds", 0),
        ("/v1/sessions", "timeout_seconds", 10**7),
        ("/v1/sessions", "idle_timeout_seconds", -1),
        ("/v1/sessions/{session}/executions", "timeout_seconds", 0),
        ("/v1/sessions/{session}/executions", "timeout_seconds", 901),
        ("/v1/sessions/{session}/commands", "timeout_seconds", -5),
    ],
)
def test_a_number_out_of_range(http: httpx.Client, session_id: str, path: str, field: str, value: float) -> None:
    what = {"/v1/sessions": {}}.get(path, {"code": "1"} if path.endswith("executions") else {"command": "true"})
    answer = http.post(path.replace("{session}", session_id), json={**what, field: value})
    assert (answer.status_code, refusal(answer)["code"]) == (400, "invalid_request")
    assert field in answer.text


def test_a_body_must_say_that_it_is_json(http: httpx.Client, session_id: str) -> None:
    answer = http.post(f"/v1/sessions/{session_id}/executions", content=b'{"code": "1"}')
    assert (answer.status_code, refusal(answer)["code"]) == (415, "unsupported_media_type")


@pytest.mark.parametrize("key", ["", "x" * 201, "ü"])
def test_an_idempotency_key_is_bounded(http: httpx.Client, session_id: str, key: str) -> None:
    headers = {"Idempotency-Key": key.encode()}
    answer = http.post(f"/v1/sessions/{session_id}/executions", json={"code": "1"}, headers=headers)
    assert (answer.status_code, refusal(answer)["field"]) == (400, "Idempotency-Key")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize(
    "name",
    [
        "%2e%2e/x",
        "a/%2e%2e/%2e%2e/x",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "a%00b",
        "a%0ab",
        "a%0d",
        "",
        "a//b",
        "%2e",
        "n" * 256,
    ],
)
def test_a_file_name_that_leads_elsewhere(service: RunningService, session_id: str, method: str, name: str) -> None:
    status, body = raw(service, method, f"/v1/sessions/{session_id}/files/{name}")
    assert (status, b"invalid_path" in body) == (400, True)


def test_dots_as_they_are_lead_nowhere_either(service: RunningService, session_id: str) -> None:
    status, body = raw(service, "GET", f"/v1/sessions/{session_id}/files/../../../etc/passwd")
    assert (status, b"invalid_path" in body) == (400, True)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer wrong", "Basic YTpi", "Bearer " + "x" * 5000])
@pytest.mark.parametrize("path", [route.path for route in TABLE if route.method == "GET" and not route.public])
def test_without_a_valid_token_every_route_gives_the_same_answer(
    service: RunningService, path: str, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    answer = httpx.get(service.url + path.replace("{", "").replace("}", ""), headers=headers, trust_env=False)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.json() == {
        "error": {"code": "unauthorized", "message": "a valid bearer token is required", "retryable": False}
    }


def test_a_revoked_token_counts_no_longer(http: httpx.Client, service: RunningService) -> None:
    token = http.post("/v1/tokens", json={"principal": f"p-{uuid.uuid4()}"}).json()
    headers = {"Authorization": f"Bearer {token['token']}"}
    assert httpx.get(service.url + "/v1/sessions", headers=headers, trust_env=False).status_code == 200
    assert http.get("/v1/tokens", headers=headers).status_code == 403
    assert http.get("/v1/keys", headers=headers).status_code == 403
    assert http.post("/v1/keys", headers=headers, json={"principal": "admin"}).status_code == 403
    assert http.delete(f"/v1/tokens/{token['id']}").json()["revoked_at"]
    answer = httpx.get(service.url + "/v1/sessions", headers=headers, trust_env=False)
    assert (answer.status_code, refusal(answer)["code"]) == (401, "unauthorized")


def test_what_is_anothers_is_not_found(http: httpx.Client, session_id: str) -> None:
    token = http.post("/v1/tokens", json={"principal": f"p-{uuid.uuid4()}"}).json()["token"]
    other = {"Authorization": f"Bearer {token}"}
    for method, path in [("GET", ""), ("DELETE", ""), ("GET", "/notebook"), ("GET", "/files"), ("POST", "/restart")]:
        assert http.request(method, f"/v1/sessions/{session_id}{path}", headers=other).status_code == 404
    answer = http.post(f"/v1/sessions/{session_id}/executions", json={"code": "1"}, headers=other)
    assert (answer.status_code, refusal(answer)["code"]) == (404, "not_found")
    assert http.get("/v1/sessions", headers=other).json()["items"] == []


@pytest.mark.parametrize("path", ["files/big", "executions"])
def test_101_mb_are_refused_before_they_are_read(service: RunningService, session_id: str, path: str) -> None:
    method = "PUT" if path.startswith("files") else "POST"
    status, body = raw(service, method, f"/v1/sessions/{session_id}/{path}", "Content-Length: 101000000\r\n")
    assert (status, b"payload_too_large" in body) == (413, True)


def test_a_length_of_thousands_of_digits_is_refused_like_any_that_is_too_large(
    service: RunningService, session_id: str
) -> None:
    length = f"Content-Length: {'9' * 5000}\r\n"
    status, body = raw(service, "PUT", f"/v1/sessions/{session_id}/files/big", length)
    assert (status, b"payload_too_large" in body) == (413, True)
    for address, wanted in [("/v1/sessions", 401), ("/code-interpreters/x/tools/invoke", 403)]:
        status, _ = exchanged(service, f"POST {address} HTTP/1.1\r\nHost: x\r\n{length}\r\n".encode())
        assert status == wanted


def test_a_client_that_sends_what_is_too_large_all_the_same_sees_why_not(
    service: RunningService, session_id: str
) -> None:
    """Far more than sockets hold, and far less than a slow machine reads while it is thrown away."""
    path, length = f"/v1/sessions/{session_id}/files/big", "Content-Length: 101000000\r\n"
    status, body = raw(service, "PUT", path, length, content=bytes(12_000_000))
    assert (status, b"payload_too_large" in body) == (413, True)


def test_a_body_of_unknown_length_is_counted(http: httpx.Client, session_id: str) -> None:
    answer = http.put(f"/v1/sessions/{session_id}/files/big", content=(b"x" * 1_000_000 for _ in range(101)))
    assert (answer.status_code, refusal(answer)["code"]) == (413, "payload_too_large")
    listed = http.get(f"/v1/sessions/{session_id}/files").json()["items"]
    assert "big" not in [each["path"] for each in listed]


def test_a_body_for_nobody_is_not_taken(service: RunningService, session_id: str) -> None:
    head = f"PUT /v1/sessions/{session_id}/files/x HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n"
    status, _ = exchanged(service, head.encode())
    assert status == 401


def raw(
    service: RunningService, method: str, path: str, headers: str = "", *, content: bytes = b""
) -> tuple[int, bytes]:
    """A request exactly as written: no library tidies the address. Of a body only `content` is sent."""
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token}\r\n{headers}"
    if method == "POST":
        head += "Content-Type: application/json\r\n"
    return exchanged(service, f"{head}\r\n".encode() + content)


def exchanged(service: RunningService, request: bytes) -> tuple[int, bytes]:
    parts = urlsplit(service.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=120) as connection:
        connection.sendall(request)
        data = b""
        while not (b"\r\n\r\n" in data and data.rstrip().endswith(b"}")):
            piece = connection.recv(65_536)
            assert piece, data
            data += piece
    return int(data.split(b" ", 2)[1]), data.partition(b"\r\n\r\n")[2]
