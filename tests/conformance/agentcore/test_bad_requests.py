"""Requests that no client sends: other bodies, cut ones, other addresses and methods; all are answered as AWS would."""

from __future__ import annotations

import json
import socket
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from tests.conformance.agentcore.accounts import SYSTEM, Account, Session
from tests.conformance.agentcore.signed_requests import Request, ask, invocation, send, signed

START = f"/code-interpreters/{SYSTEM}/sessions/start"


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'"text"', b"5", b"null", b"\xff\xfe", b'{"name": "\xff"}', b"name=n", b"{} {}", b"[" * 100_000],
    ids=["cut", "list", "string", "number", "null", "no UTF-8", "bad string", "form", "two", "deep"],
)
def test_a_body_that_is_no_json_object_is_refused(account: Account, session: Session, body: bytes) -> None:
    for request in (
        Request("PUT", START, {"Content-Type": "application/json"}, body),
        Request("PUT", "/code-interpreters", {"Content-Type": "application/json"}, body),
        invocation(session.id, body),
    ):
        reply = send(account, signed(account, request))
        assert (reply.status, reply.code) == (400, "ValidationException"), (request, reply)
        assert reply.json["reason"] in ("CannotParse", "FieldValidationFailed")


@pytest.mark.parametrize("sent_bytes", [0, 10])
def test_a_body_that_is_cut_short_runs_nothing(account: Account, session: Session, sent_bytes: int) -> None:
    body = {"name": "executeCode", "arguments": {"code": "cut = True"}}
    request = signed(account, invocation(session.id, body))
    head = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items()),
    ]
    text = "\r\n".join([*head, f"Content-Length: {len(request.body)}", "", ""]).encode() + request.body[:sent_bytes]
    address = urlsplit(account.url)
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        assert b"200 OK" not in connection.recv(65_536)
    assert session.code("print('cut' in globals())") == "False"


def test_a_body_where_none_is_expected_is_passed_over_or_refused(account: Account) -> None:
    for method, path in (("GET", f"/code-interpreters/{SYSTEM}"), ("POST", "/code-interpreters?maxResults=1")):
        reply = ask(account, method, path, {"surprise": True})
        assert reply.status in (200, 400), reply


def test_a_body_in_pieces_is_taken(account: Account) -> None:
    """Transfer-Encoding: chunked, as some proxies make of a request."""
    body = b'{"maxResults": 1}'
    listing = Request("POST", f"/code-interpreters/{SYSTEM}/sessions/list", {"Content-Type": "application/json"}, body)
    request = signed(account, listing)
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:5], body[5:])) + b"0\r\n\r\n"
    head = [
        f"{request.method} {request.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in request.headers.items()),
    ]
    text = "\r\n".join([*head, "Transfer-Encoding: chunked", "Connection: close", "", ""]).encode() + chunked
    address = urlsplit(account.url)
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        connection.sendall(text)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", START, 405),
        ("GET", f"/code-interpreters/{SYSTEM}/sessions/list", 405),
        ("PUT", f"/code-interpreters/{SYSTEM}/sessions/extend", 404),
        ("PATCH", "/code-interpreters", 405),
        ("GET", "/code-interpreters", 405),
        ("POST", f"/code-interpreters/{SYSTEM}/tools/invoke/again", 404),
        ("GET", "/tags", 404),
    ],
)
def test_an_operation_that_is_not_there_is_unknown(account: Account, method: str, path: str, status: int) -> None:
    reply = ask(account, method, path, b"{}" if method != "GET" else b"")
    assert (reply.status in (404, status), reply.code) == (True, "UnknownOperationException"), reply


def test_an_encoded_slash_is_no_separator(account: Account) -> None:
    reply = ask(account, "GET", "/code-interpreters/a%2Fsessions%2Fget")
    assert (reply.status, reply.code) == (404, "ResourceNotFoundException"), reply


def test_a_parameter_that_is_there_twice_or_not_at_all(account: Account, session: Session) -> None:
    path = f"/code-interpreters/{SYSTEM}/sessions/get"
    missing = ask(account, "GET", path)
    assert (missing.status, missing.code) == (400, "ValidationException"), missing
    assert missing.json["fieldList"][0]["name"] == "sessionId"
    twice = ask(account, "GET", f"{path}?sessionId={session.id}&sessionId={'f' * 32}")
    assert (twice.status, twice.code) == (400, "ValidationException"), twice


def test_long_trace_headers_are_refused_and_others_taken(account: Account, session: Session) -> None:
    request = invocation(session.id, {"name": "listFiles"})
    traced = replace(
        request, headers={**request.headers, "X-Amzn-Trace-Id": "Root=1-a;Sampled=1", "traceparent": "00-a"}
    )
    assert send(account, signed(account, traced)).status == 200
    long = replace(request, headers={**request.headers, "X-Amzn-Trace-Id": "r" * 1025})
    reply = send(account, signed(account, long))
    assert (reply.status, reply.code) == (400, "ValidationException"), reply


def test_every_answer_has_an_id_of_its_own(account: Account) -> None:
    replies = [ask(account, "GET", f"/code-interpreters/{name}") for name in (SYSTEM, SYSTEM, "none-AAAAAAAAAA")]
    assert len({reply.headers["x-amzn-requestid"] for reply in replies}) == 3


def test_numbers_and_strings_are_not_mixed_up(account: Account) -> None:
    for body in ({"maxResults": "1"}, {"maxResults": 1e400}, {"maxResults": 10**30}, {"status": 5}):
        reply = ask(account, "POST", f"/code-interpreters/{SYSTEM}/sessions/list", json.dumps(body).encode())
        assert (reply.status, reply.code) == (400, "ValidationException"), reply


def test_code_that_is_too_long_is_refused_by_the_name_of_its_argument(account: Account, session: Session) -> None:
    body = {"name": "executeCode", "arguments": {"code": f"too_long = '{'é' * 5_000_000}'"}}
    reply = send(account, signed(account, invocation(session.id, body)))
    assert (reply.status, reply.code) == (400, "ValidationException")
    assert [each["name"] for each in reply.json["fieldList"]] == ["arguments.code"]
    assert session.code("print('too_long' in globals())") == "False"
