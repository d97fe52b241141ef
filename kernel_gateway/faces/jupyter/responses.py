"""Answers of this face besides those of endpoints: errors as `{"message", "reason"}`, which clients read, preflights.

No cookie is ever set. A web page of another origin may read an answer only when it came with a token. Pure.
"""

from __future__ import annotations

from kernel_gateway.errors import GatewayError
from kernel_gateway.faces.handler import make_error_headers
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import ErrorResponse, Response

METHODS = "GET, POST, PATCH, DELETE, OPTIONS"
HEADERS = "Authorization, Content-Type, X-XSRFToken"
"""What pages may send; `@jupyterlab/services` sends the last one too when it finds a cookie of that name."""
PREFLIGHT_SECONDS = 600
OPEN_TO_PAGES = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Expose-Headers": "Location, Retry-After, X-Request-Id",
}
"""Let a page of another origin read an answer: there is nothing in a browser that would be sent by itself."""
PREFLIGHT = Response(
    status=204,
    headers={
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": METHODS,
        "Access-Control-Allow-Headers": HEADERS,
        "Access-Control-Max-Age": str(PREFLIGHT_SECONDS),
    },
)
"""The answer to a browser that asks what a page may send."""


def describe_error(error: GatewayError, *, open_to_pages: bool) -> ErrorResponse:
    headers = (OPEN_TO_PAGES if open_to_pages else {}) | make_error_headers(error)
    body = encode({"message": error.message, "reason": error.code})
    return ErrorResponse(body, error.status, headers, code=error.code, message=error.message)
