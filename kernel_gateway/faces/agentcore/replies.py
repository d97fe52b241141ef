"""Answers on the wire: JSON, the event stream of an invocation, and errors of every origin in AWS's shape.

A stream's headers and a first keep-alive go out before the tool begins, so that a client's read timeout never makes it
send the request again. A client that goes away ends its stream and nothing else.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final

import structlog
from tornado.iostream import StreamClosedError

from kernel_gateway.errors import InternalError, InvalidRequest
from kernel_gateway.faces.agentcore import event_stream
from kernel_gateway.faces.agentcore.calls import Encoded, Streaming
from kernel_gateway.faces.agentcore.errors import refusal
from kernel_gateway.faces.agentcore.operations import Operation
from kernel_gateway.faces.errors import MethodNotAllowed, UnknownRoute
from kernel_gateway.faces.json_bodies import encode

JSON: Final = "application/json"
CLIENT_GONE: Final = 499
_ENDED: Final = encode(
    {
        "message": "the service is shutting down before the tool has ended. Where sessions outlive a restart, code that"
        " waits runs after it: look at the session before you send it anew"
    }
)
IS_ERROR: Final = b',"isError":true'
"""Stands in a result's JSON as its member alone: within a text the quotes have backslashes."""
log = structlog.get_logger(__name__)


def default_headers(handler: Any) -> None:
    """The headers of every answer."""
    handler.clear_header("Server")
    handler.set_header("Content-Type", JSON)
    handler.set_header("Cache-Control", "no-store")
    handler.set_header("x-amzn-RequestId", handler.request_id)


async def send(handler: Any, operation: Operation, answer: Any) -> None:
    """Send what an operation answered with."""
    handler.set_status(operation.status)
    match answer:
        case None:
            handler.clear_header("Content-Type")
            handler.finish()
        case Streaming():
            await _stream(handler, answer)
        case Encoded(content):
            handler.answered_with = content
            handler.finish(content)
        case _:
            content = encode(answer)
            handler.answered_with = None if operation.read_only else content
            handler.finish(content)


async def _stream(handler: Any, streaming: Streaming) -> None:
    handler.set_header("Content-Type", event_stream.MEDIA_TYPE)
    handler.set_header("X-Accel-Buffering", "no")
    for name, value in streaming.headers.items():
        handler.set_header(name, value)
    try:
        await handler.push(event_stream.KEEP_ALIVE)
        work = streaming.start()
        await _keep_alive(handler, work)
        if not handler.gone:
            handler.answered_with = _told(work)
            for piece in _message(work):
                await handler.push(piece)
    except StreamClosedError:
        handler.gone = True
    if handler.gone:
        handler.set_status(CLIENT_GONE, "Client Closed Request")
    handler.finish()


async def _keep_alive(handler: Any, work: asyncio.Task[bytes]) -> None:
    """Until the work has ended or the client is gone; the work is never cancelled."""
    seconds = handler.services.settings.agentcore_keep_alive_seconds
    while not handler.gone:
        done, _ = await asyncio.wait({work}, timeout=seconds)
        if done:
            return
        await handler.push(event_stream.KEEP_ALIVE)


def _message(work: asyncio.Task[bytes]) -> Any:
    """The last message of the stream; only the end of the service ends work without a result."""
    if work.cancelled():
        return event_stream.exception("internalServerException", _ENDED)
    return event_stream.result(work.result())


def _told(work: asyncio.Task[bytes]) -> bytes | None:
    """What the audit log keeps of a result: whether it is an error, and its size."""
    if work.cancelled():
        return None
    result = work.result()
    return encode({"isError": IS_ERROR in result, "resultBytes": len(result)})


def fail(handler: Any, error: Exception) -> None:
    """Answer with an error, or cut the answer off when it has begun."""
    if not handler._headers_written:
        handler.clear()
        write_error(handler, handler.ours(error))
        handler.finish()
        return
    if not handler.gone:
        log.warning("answer_cut_off", path=handler.request.path, error=type(error).__name__)
        handler.request.connection.stream.close()


def write_error(handler: Any, error: Any) -> None:
    """Status, headers and body of an error; the caller sends them."""
    found = handler.refused_with = refusal(error)
    content = encode(found.body())
    handler.set_status(found.status, _reason(found.status))
    handler.set_header("x-amzn-ErrorType", found.shape)
    for name, value in found.headers.items():
        handler.set_header(name, value)
    handler.set_header("Content-Length", str(len(content)))
    handler.write(content)


def write_tornado_error(handler: Any, status: int, exc_info: Any) -> None:
    """An error that tornado raised itself: a method that HTTP does not know, or a defect."""
    error = exc_info[1] if exc_info else None
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        methods, _ = handler.operations_here()
        method = str(handler.request.method)[:32]
        found: Exception = MethodNotAllowed(method, sorted(methods)) if methods else UnknownRoute("no such operation")
    elif 400 <= status < 500:
        found = InvalidRequest(_reason(status))
    else:
        found = error if isinstance(error, Exception) else InternalError("an internal error")
    write_error(handler, handler.ours(found))
    handler.finish()


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"
