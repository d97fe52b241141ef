"""Errors in the words of each of E2B's three services. Pure.

The control plane and envd's files answer `{"code": status, "message"}`, the code interpreter a text that its client
shows as it is, envd's remote procedures `{"code": word, "message"}`. A sandbox that is gone is 404 on the
control plane, and 502 with a sentence that clients look for everywhere else.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from kernel_gateway.errors import Conflict, GatewayError, LimitReached, SandboxUnavailable, SessionTerminated
from kernel_gateway.faces.handler import make_error_headers
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import JSON, ErrorResponse

Plane = Literal["control", "code", "files", "rpc"]

WORDS: Final = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    409: "failed_precondition",
    413: "resource_exhausted",
    429: "resource_exhausted",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    504: "deadline_exceeded",
    507: "resource_exhausted",
}
"""The code of a remote procedure's error, by its HTTP status."""


class SandboxGone(GatewayError):
    """There is no such live sandbox of the caller's."""

    code, status = "sandbox_gone", 502

    def __init__(self, sandbox_id: str) -> None:
        super().__init__("The sandbox was not found")
        self.sandbox_id = sandbox_id


def find_status(error: GatewayError, plane: Plane) -> int:
    """The HTTP status of an error on this face."""
    if isinstance(error, SessionTerminated):
        return 404 if plane == "control" else 502
    return error.status


def word_of(error: GatewayError) -> str:
    """The code of a remote procedure's error."""
    if isinstance(error, Conflict) and error.details.get("reason") == "exists":
        return "already_exists"
    return WORDS.get(find_status(error, "rpc"), "internal")


def describe(error: GatewayError, plane: Plane) -> dict[str, Any]:
    """The JSON of an error."""
    status = find_status(error, plane)
    if isinstance(error, SandboxGone):
        if plane == "rpc":
            return {"code": "unavailable", "message": error.message}
        return {"sandboxId": error.sandbox_id, "message": error.message, "code": status}
    if isinstance(error, SessionTerminated):
        message = f"The sandbox was not found: {error.message}"
        return {"code": "unavailable" if plane == "rpc" else status, "message": message}
    return {"code": word_of(error) if plane == "rpc" else status, "message": error.message}


def make_response(error: GatewayError, plane: Plane) -> ErrorResponse:
    """The whole answer. Clients send a request again only where that is of use."""
    headers = {name: value for name, value in make_error_headers(error).items() if name != "WWW-Authenticate"}
    if not isinstance(error, LimitReached | SandboxUnavailable):
        headers["Should-Retry"] = "false"
    if plane == "code" and not isinstance(error, SandboxGone | SessionTerminated):
        headers["Content-Type"] = "text/plain; charset=utf-8"
        body = error.message.encode("utf-8", "backslashreplace")
    else:
        headers["Content-Type"] = JSON
        body = encode(describe(error, plane))
    return ErrorResponse(body, find_status(error, plane), headers, code=error.code, message=error.message)
