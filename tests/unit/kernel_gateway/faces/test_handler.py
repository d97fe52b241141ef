"""How answers go out on a real socket, whole or cut off, and what the audit log is given of each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from kernel_gateway.errors import Conflict, GatewayError, NotFound
from kernel_gateway.faces import connections, receiving
from kernel_gateway.faces.audit import CallRecord
from kernel_gateway.faces.connections import Server
from kernel_gateway.faces.handler import FaceHandler, make_error_headers
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Answer, ErrorResponse, Response, Stream
from kernel_gateway.identity.principal import ANONYMOUS
from kernel_gateway.services.admission.body_room import BodyRoom
from kernel_gateway.services.audit.api_call import ApiCall
from kernel_gateway.settings import Settings

Endpoint = Callable[[], Awaitable[Answer]]
RECORD = CallRecord(event="GetThing", source="test", read_only=True, principal=ANONYMOUS)


class Thing(msgspec.Struct):
    """A value that is sent as JSON."""

    name: str


class Handler(FaceHandler):
    """Answers with what the endpoint of the test returns, as a route of status 201."""

    def initialize(self, services: Any, endpoint: Endpoint) -> None:  # type: ignore[override]
        super().initialize(services)
        self.endpoint = endpoint

    async def admit(self) -> None:
        """Takes every request."""

    async def respond(self) -> None:
        await self.send(await self.endpoint(), 201)

    def describe_error(self, error: GatewayError) -> ErrorResponse:
        return ErrorResponse(
            encode(error.body()), error.status, make_error_headers(error), code=error.code, message=error.message
        )

    def record_call(self) -> CallRecord:
        return RECORD

    def find_methods(self) -> list[str]:
        return ["GET"]


class Pieces:
    """An iterator of bytes that knows whether it was closed."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.closed = False
        self._pieces = pieces
        self._error = error

    async def read(self) -> AsyncIterator[bytes]:
        try:
            for piece in self._pieces:
                yield piece
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


def ask(
    endpoint: Endpoint, request: str = "GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
) -> tuple[bytes, bytes, ApiCall]:
    """Head and body of the answer, read until the connection ends, and the record of the call."""
    calls: list[ApiCall] = []

    async def scene() -> bytes:
        settings = replace(Settings())
        services = SimpleNamespace(
            settings=settings, body_room=BodyRoom(settings, lambda _: None), audit=SimpleNamespace(call=calls.append)
        )
        server = Server(Application([("/", Handler, {"services": services, "endpoint": endpoint})]), settings)
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
        writer.write(request.encode())
        async with asyncio.timeout(120):
            answer = await reader.read()
            while not calls:
                await asyncio.sleep(0.01)
        writer.close()
        server.stop()
        return answer

    head, _, body = asyncio.run(scene()).partition(b"\r\n\r\n")
    assert len(calls) == 1
    return head, body, calls[0]


@pytest.mark.parametrize(
    ("answer", "status", "media_type", "body"),
    [
        (Thing("a"), b"201", b"application/json", b'{"name":"a"}'),
        ([Thing("a")], b"201", b"application/json", b'[{"name":"a"}]'),
        (Response(Thing("a"), 202), b"202", b"application/json", b'{"name":"a"}'),
        (Response(b"text", headers={"Content-Type": "text/plain"}), b"201", b"text/plain", b"text"),
        (Response(status=204), b"204", None, b""),
    ],
)
def test_an_answer_has_its_status_its_media_type_and_its_body(
    answer: Answer, status: bytes, media_type: bytes | None, body: bytes
) -> None:
    async def endpoint() -> Answer:
        return answer

    head, found, call = ask(endpoint)
    assert head.split()[1] == status
    assert (b"\r\nContent-Type: " in head) == (media_type is not None)
    assert media_type is None or b"Content-Type: " + media_type in head
    assert found == body
    assert (call.event_name, call.status, call.error_code) == ("GetThing", int(status), "")


@pytest.mark.parametrize("size", [4, None])
def test_a_stream_is_sent_to_its_end_and_closed(size: int | None) -> None:
    pieces = Pieces(b"", b"one.", *([b"more than was said"] if size else []))

    async def endpoint() -> Answer:
        return Response(Stream(pieces.read(), size))

    head, body, call = ask(endpoint)
    assert (b"Content-Length: 4" in head) == (size is not None)
    assert (b"one." in body, b"more" in body) == (True, False)
    assert pieces.closed
    assert call.error_code == ""


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [(Pieces(b"on"), "FileChanged"), (Pieces(b"on", error=NotFound("it is gone")), "NotFound")],
)
def test_an_answer_that_cannot_go_on_is_cut_off_and_recorded_so(pieces: Pieces, problem: str) -> None:
    async def endpoint() -> Answer:
        return Response(Stream(pieces.read(), 4))

    head, body, call = ask(endpoint)
    assert head.startswith(b"HTTP/1.1 201 ")
    assert body == b"on"
    assert (call.error_code, call.error_message) == ("answer_cut_off", f"the answer was cut off: {problem}")
    assert pieces.closed


def test_a_client_that_reads_nothing_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "STALL_SECONDS", 0.01)
    pieces = Pieces(*[b"x" * (1 << 20)] * 64)

    async def endpoint() -> Answer:
        return Response(Stream(pieces.read()))

    async def scene() -> ApiCall:
        calls: list[ApiCall] = []
        settings = replace(Settings())
        services = SimpleNamespace(
            settings=settings, body_room=BodyRoom(settings, lambda _: None), audit=SimpleNamespace(call=calls.append)
        )
        server = HTTPServer(Application([("/", Handler, {"services": services, "endpoint": endpoint})]))
        sockets = bind_sockets(0, "127.0.0.1")
        server.add_sockets(sockets)
        _reader, writer = await asyncio.open_connection(*sockets[0].getsockname(), limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        async with asyncio.timeout(120):
            while not calls:
                await asyncio.sleep(0.01)
        writer.close()
        server.stop()
        return calls[0]

    call = asyncio.run(scene())
    assert call.error_code == "answer_cut_off"
    assert "ClientStalled" in call.error_message
    assert pieces.closed


def test_an_error_is_answered_in_the_words_of_the_face_and_recorded_by_its_code() -> None:
    async def endpoint() -> Answer:
        raise Conflict("it is there already")

    head, body, call = ask(endpoint)
    assert head.startswith(b"HTTP/1.1 409 ")
    assert msgspec.json.decode(body)["error"]["code"] == "conflict"
    assert (call.status, call.error_code, call.error_message) == (409, "conflict", "it is there already")


def test_a_method_that_http_does_not_know_is_told_those_that_are_taken() -> None:
    async def endpoint() -> Answer:
        raise AssertionError("nobody calls it")

    head, body, call = ask(endpoint, "BREW / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 405 ")
    assert b"Allow: GET" in head
    assert b"method_not_allowed" in body
    assert call.error_code == "method_not_allowed"


def test_a_call_whose_body_cannot_be_understood_is_recorded_as_what_was_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_LINGER_SECONDS", 0.01)

    async def endpoint() -> Answer:
        raise AssertionError("nobody calls it")

    malformed = "POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\nmany\r\n"
    head, body, call = ask(endpoint, request=malformed)
    assert head.startswith(b"HTTP/1.1 400 ")
    assert msgspec.json.decode(body)["error"]["code"] == "invalid_request"
    assert (call.status, call.error_code) == (400, "invalid_request")
    assert "chunk" in call.error_message
