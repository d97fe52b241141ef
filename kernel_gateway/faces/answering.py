"""What the answers of faces that speak JSON share: the headers of each, those that go with an error, tornado's errors.

The body of an error is each face's own.
"""

from __future__ import annotations

import math
from http import HTTPStatus
from typing import Any

from kernel_gateway.errors import GatewayError, InternalError, InvalidRequest, LimitReached, Unauthorized
from kernel_gateway.faces.errors import MethodNotAllowed, RangeNotSatisfiable, UnknownRoute
from kernel_gateway.faces.receiving import ours


def default_headers(handler: Any) -> None:
    """The headers of every answer: no word about the server; nothing is cached or guessed at."""
    handler.set_header("X-Request-Id", handler.request_id)
    handler.clear_header("Server")
    handler.set_header("Content-Type", "application/json")
    handler.set_header("Cache-Control", "no-store")
    handler.set_header("X-Content-Type-Options", "nosniff")


def write_error(handler: Any, error: GatewayError, content: bytes) -> None:
    """Status, headers and body of an error; the caller sends them."""
    handler.error = error
    handler.set_status(error.status)
    if isinstance(error, Unauthorized):
        handler.set_header("WWW-Authenticate", "Bearer")
    if isinstance(error, MethodNotAllowed):
        handler.set_header("Allow", ", ".join(error.allowed))
    if isinstance(error, RangeNotSatisfiable):
        handler.set_header("Content-Range", f"bytes */{error.size}")
    if isinstance(error, LimitReached):
        handler.set_header("Retry-After", str(max(1, math.ceil(error.retry_after_seconds))))
    handler.set_header("Content-Length", str(len(content)))
    handler.write(content)


def of_tornado(handler: Any, status: int, exc_info: Any) -> GatewayError:
    """An error that tornado raised itself, as one of ours; which methods an address takes is each face's to say."""
    error = exc_info[1] if exc_info else None
    if status in (404, 405):
        return UnknownRoute("there is nothing at this address")
    if 400 <= status < 500:
        return InvalidRequest(HTTPStatus(status).phrase)
    return ours(error, handler.request_id) if error is not None else InternalError("an internal error")
