"""Answers of this face on the wire: JSON, pictures, and errors as `{"message", "reason"}`, which clients read.

No cookie is ever set. A web page of another origin may read an answer only when it came with a token.
"""

from __future__ import annotations

from typing import Any

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces import answering
from kernel_gateway.faces.errors import MethodNotAllowed
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.jupyter.calls import Picture

METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
HEADERS = "Authorization, Content-Type, X-XSRFToken"
"""What pages may send; `@jupyterlab/services` sends the last one too when it finds a cookie of that name."""
PREFLIGHT_SECONDS = 600


def open_to_pages(handler: Any) -> None:
    """Let a page of another origin read this answer: there is nothing in a browser that would be sent by itself."""
    if "Origin" in handler.request.headers:
        handler.set_header("Access-Control-Allow-Origin", "*")
        handler.set_header("Access-Control-Expose-Headers", "Location, Retry-After, X-Request-Id")


def preflight(handler: Any) -> None:
    """Answer a browser that asks what a page may send."""
    handler.set_status(204)
    handler.clear_header("Content-Type")
    handler.set_header("Access-Control-Allow-Origin", "*")
    handler.set_header("Access-Control-Allow-Methods", METHODS)
    handler.set_header("Access-Control-Allow-Headers", HEADERS)
    handler.set_header("Access-Control-Max-Age", str(PREFLIGHT_SECONDS))
    handler.finish()


def send(handler: Any, answer: Any, status: int, location: str) -> None:
    """Send what an endpoint answered with."""
    handler.set_status(status)
    if location:
        handler.set_header("Location", location)
    if isinstance(answer, Picture):
        handler.set_header("Content-Type", answer.media_type)
        handler.set_header("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
        handler.finish(answer.content)
    elif answer is None:
        handler.clear_header("Content-Type")
        handler.finish()
    else:
        handler.finish(encode(answer))


def write_error(handler: Any, error: GatewayError) -> None:
    """Status, headers and body of an error; the caller sends them."""
    if handler.call.principal.id:
        open_to_pages(handler)
    answering.write_error(handler, error, encode({"message": error.message, "reason": error.code}))


def of_tornado(handler: Any, status: int, exc_info: Any) -> GatewayError:
    """An error that tornado raised itself, as one of ours."""
    if status == 405:
        return MethodNotAllowed(str(handler.request.method)[:32], handler.allowed)
    return answering.of_tornado(handler, status, exc_info)
