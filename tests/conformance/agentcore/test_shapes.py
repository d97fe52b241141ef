"""The measure itself: an answer that drifts from the service model in any way is found, and one that fits is not."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.agentcore import service_model, validation
from tests.conformance.agentcore.client_environments import ClientEnvironment
from tests.conformance.agentcore.exchanges import Conversation, Exchange
from tests.conformance.agentcore.service_model import Operation
from tests.conformance.agentcore.validation import Answer

TIME = "2026-11-21T01:55:52.123Z"
SESSION = {"codeInterpreterIdentifier": "x", "sessionId": "01K1PPWYE373Z99SS2A8ABW0TX", "createdAt": TIME}
DROPPED = object()


@pytest.fixture(scope="session")
def known(client_environment: Callable[[str], ClientEnvironment]) -> list[Operation]:
    return service_model.operations(client_environment("boto3_newest").site_packages)


def named(known: list[Operation], name: str) -> Operation:
    return next(one for one in known if one.name == name)


def answer(body: Any, status: int = 200, **headers: str) -> Answer:
    always = {"x-amzn-requestid": "1", "content-type": "application/json"}
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Answer(status, {**always, **headers}, bytearray(text), complete=True)


def changed(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in {**SESSION, **members}.items() if value is not DROPPED}


@pytest.mark.parametrize(
    ("method", "target", "name"),
    [
        ("PUT", "/code-interpreters/aws.codeinterpreter.v1/sessions/start", "StartCodeInterpreterSession"),
        ("GET", "/code-interpreters/x/sessions/get?sessionId=1", "GetCodeInterpreterSession"),
        ("GET", "/code-interpreters/arn%3Aaws%3Aa%2Fb", "GetCodeInterpreter"),
        ("PUT", "/code-interpreters", "CreateCodeInterpreter"),
        ("POST", "/code-interpreters?type=CUSTOM", "ListCodeInterpreters"),
        ("DELETE", "/tags/arn%3Aaws?tagKeys=a&tagKeys=b", "UntagResource"),
        ("GET", "/code-interpreters", None),
        ("POST", "/code-interpreters/a/b/tools/invoke", None),
    ],
)
def test_a_request_is_known_by_its_method_and_path(
    known: list[Operation], method: str, target: str, name: str | None
) -> None:
    found = service_model.meant(known, method, target)
    assert (found.name if found else None) == name


def test_an_answer_that_fits_has_no_problem(known: list[Operation]) -> None:
    full = changed(name="n", sessionTimeoutSeconds=900, status="READY")
    assert validation.problems(named(known, "GetCodeInterpreterSession"), answer(full)) == []


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"createdAt": DROPPED}, "createdAt is required"),
        ({"createdat": TIME}, "createdat is no member"),
        ({"createdAt": "2026-11-21T01:55:52Z"}, "no time"),
        ({"createdAt": 1763690000}, "no time"),
        ({"sessionId": "with-dashes"}, "does not fit"),
        ({"status": "ACTIVE"}, "none of"),
        ({"sessionTimeoutSeconds": "900"}, "no whole number"),
        ({"sessionTimeoutSeconds": True}, "no whole number"),
        ({"sessionTimeoutSeconds": 28801}, "above 28800"),
        ({"name": ""}, "below 1"),
        ({"name": None}, "null"),
        ({"certificates": {}}, "no list"),
        ({"certificates": [{"location": {}}]}, "union with 0 members"),
    ],
)
def test_a_member_that_drifts_is_found(known: list[Operation], members: dict[str, Any], problem: str) -> None:
    found = validation.problems(named(known, "GetCodeInterpreterSession"), answer(changed(**members)))
    assert any(problem in one for one in found), found


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (201, {}, SESSION),
        (200, {"x-amzn-requestid": ""}, SESSION),
        (200, {"content-type": "text/html"}, SESSION),
        (200, {}, b"{"),
        (200, {}, []),
        (404, {"x-amzn-errortype": "ValidationException"}, {"message": "m", "reason": "CannotParse"}),
        (400, {"x-amzn-errortype": "ValidationException"}, {"message": "m"}),
        (400, {"x-amzn-errortype": "ValidationException"}, {"message": "m", "reason": "Other"}),
        (409, {"x-amzn-errortype": "ConflictException"}, {"message": "Get declares no conflict"}),
        (404, {"x-amzn-errortype": "ResourceNotFoundException"}, {"message": ""}),
        (404, {"x-amzn-errortype": "ResourceNotFoundException"}, {"Message": "m"}),
        (404, {}, {"message": "without a type"}),
        (403, {"x-amzn-errortype": "InvalidSignatureException"}, {}),
        (400, {"x-amzn-errortype": "InvalidSignatureException"}, {"message": "m"}),
    ],
)
def test_an_answer_of_another_kind_is_found(
    known: list[Operation], status: int, headers: dict[str, str], body: Any
) -> None:
    assert validation.problems(named(known, "GetCodeInterpreterSession"), answer(body, status, **headers))


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (
            400,
            "ValidationException",
            {"message": "m", "reason": "CannotParse", "fieldList": [{"name": "n", "message": "m"}]},
        ),
        (404, "ResourceNotFoundException", {"message": "m"}),
        (403, "InvalidSignatureException", {"message": "m"}),
    ],
)
def test_an_error_that_fits_has_no_problem(known: list[Operation], status: int, kind: str, body: Any) -> None:
    given = answer(body, status, **{"x-amzn-errortype": kind})
    assert validation.problems(named(known, "GetCodeInterpreterSession"), given) == []


def message(payload: Any, *, kind: str = "event", name: str = "result", **more: str) -> bytes:
    named_header = {":exception-type" if kind == "exception" else ":event-type": name}
    headers = {**named_header, ":content-type": "application/json", ":message-type": kind, **more}
    text = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    packed = b"".join(
        bytes([len(key)]) + key.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()
        for key, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(packed) + len(text), len(packed))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + packed + text
    return whole + struct.pack(">I", zlib.crc32(whole))


def stream(*messages: bytes, **headers: str) -> Answer:
    always = {"content-type": "application/vnd.amazon.eventstream", "x-amzn-code-interpreter-session-id": "1"}
    return answer(b"".join(messages), **{**always, **headers})


RESULT = {"content": [{"type": "text", "text": "hi"}], "isError": False, "structuredContent": {"executionTime": 0.5}}
ALIVE = message({}, name="keepalive")


def test_a_stream_that_fits_has_no_problem(known: list[Operation]) -> None:
    invoke = named(known, "InvokeCodeInterpreter")
    assert validation.problems(invoke, stream(ALIVE, ALIVE, message(RESULT))) == []
    raised = message({"message": "m"}, kind="exception", name="throttlingException")
    assert validation.problems(invoke, stream(raised)) == []


@pytest.mark.parametrize(
    "given",
    [
        stream(ALIVE),
        stream(message(RESULT), message(RESULT)),
        stream(message(RESULT), ALIVE),
        stream(message({"result": RESULT})),
        stream(message({**RESULT, "isError": "false"})),
        stream(message({**RESULT, "iserror": False})),
        stream(message({**RESULT, "content": [{"type": "markdown", "text": ""}]})),
        stream(message({**RESULT, "content": [{"type": "text", "text": "", "data": ""}]})),
        stream(message({**RESULT, "content": [{"type": "image", "mimeType": "image/png", "data": "no base64"}]})),
        stream(message({**RESULT, "content": [{"type": "resource", "resource": {"uri": "file:///a", "text": ""}}]})),
        stream(message({**RESULT, "structuredContent": {"exitCode": "0"}})),
        stream(message({**RESULT, "structuredContent": {"taskStatus": "cancelled"}})),
        stream(message({"message": "m"}, kind="exception", name="ThrottlingException")),
        stream(message({"message": "m"}, kind="error", name="throttlingException")),
        stream(message(RESULT, kind="exception")),
        stream(message(RESULT, **{":more": "x"})),
        stream(message(RESULT), **{"content-type": "application/json"}),
        stream(message(RESULT), **{"x-amzn-code-interpreter-session-id": "a-b"}),
        stream(message(b"not JSON")),
        stream(message(RESULT)[:-1] + b"?"),
        stream(message(RESULT)[:-1]),
    ],
)
def test_a_stream_that_drifts_is_found(known: list[Operation], given: Answer) -> None:
    assert validation.problems(named(known, "InvokeCodeInterpreter"), given)


def test_exchanges_are_read_from_the_bytes_of_a_connection_in_any_pieces() -> None:
    asked = b"PUT /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}GET /b HTTP/1.1\r\nHost: h\r\n\r\n"
    told = (
        b"HTTP/1.1 200 OK\r\nX-Amzn-RequestId: 7\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    )
    for size in (1, 7, 1000):
        found: list[Exchange] = []
        conversation = Conversation(found.append)
        for start in range(0, len(asked), size):
            conversation.from_client(asked[start : start + size])
        for text in told:
            for start in range(0, len(text), size):
                conversation.from_service(text[start : start + size])
        assert [(one.method, one.target, one.answer and one.answer.status) for one in found] == [
            ("PUT", "/a", 200),
            ("GET", "/b", 204),
        ]
        first = found[0].answer
        assert first is not None
        assert (bytes(first.body), first.headers["x-amzn-requestid"], first.complete) == (b"abc", "7", True)


def test_an_answer_that_breaks_off_is_judged_as_far_as_it_came() -> None:
    found: list[Exchange] = []
    conversation = Conversation(found.append)
    conversation.from_client(b"GET /b HTTP/1.1\r\nHost: h\r\n\r\n")
    conversation.from_service(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
    conversation.ended()
    assert [one.answer and one.answer.complete for one in found] == [False]
