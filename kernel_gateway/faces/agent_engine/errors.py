"""Our errors as Google's: HTTP status, canonical code, and a body in the shape of `google.rpc.Status`. Pure.

`{"error": {"code", "message", "status", "details"}}`; the details hold Sandcell's own code as an `ErrorInfo`, and for
what may be sent again a `RetryInfo`. docs/reference/agent-engine.md has the table.
"""

from __future__ import annotations

from typing import Any, Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as f
from kernel_gateway.faces.handler import make_error_headers
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import ErrorResponse

INVALID: Final = "INVALID_ARGUMENT"
PRECONDITION: Final = "FAILED_PRECONDITION"
EXHAUSTED: Final = "RESOURCE_EXHAUSTED"
UNAVAILABLE: Final = "UNAVAILABLE"

STATUS: Final = {
    INVALID: 400,
    PRECONDITION: 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    EXHAUSTED: 429,
    "UNIMPLEMENTED": 501,
    "INTERNAL": 500,
    UNAVAILABLE: 503,
    "DEADLINE_EXCEEDED": 504,
}

CODES: Final[tuple[tuple[type[e.GatewayError], str], ...]] = (
    (f.NotOffered, "UNIMPLEMENTED"),
    (f.MethodNotAllowed, "NOT_FOUND"),
    (f.BodyTooSlow, "DEADLINE_EXCEEDED"),
    (f.UnsupportedMediaType, INVALID),
    (e.InvalidRequest, INVALID),
    (e.PayloadTooLarge, INVALID),
    (e.Unauthorized, "UNAUTHENTICATED"),
    (e.Forbidden, "PERMISSION_DENIED"),
    (e.UnknownEnvironment, PRECONDITION),
    (e.NotFound, "NOT_FOUND"),
    (e.LimitReached, EXHAUSTED),
    (e.QuotaReached, EXHAUSTED),
    (e.NoSpace, EXHAUSTED),
    (e.FileChanged, "ABORTED"),
    (e.Conflict, PRECONDITION),
    (e.DeadlinePassed, "DEADLINE_EXCEEDED"),
    (e.SandboxUnavailable, UNAVAILABLE),
    (e.StoreUnavailable, UNAVAILABLE),
    (e.WorkspaceRestoring, UNAVAILABLE),
    (e.DatabaseUnavailable, UNAVAILABLE),
    (e.ShuttingDown, UNAVAILABLE),
    (e.GatewayError, "INTERNAL"),
)
"""What each of our errors becomes; the first class that fits counts."""

DOMAIN: Final = "sandcell"
RPC: Final = "type.googleapis.com/google.rpc"


def find_status(error: type[e.GatewayError]) -> str:
    """Google's code for a class of error."""
    return next(status for kind, status in CODES if issubclass(error, kind))


def describe_error(error: e.GatewayError) -> ErrorResponse:
    """An error as a caller sees it."""
    status = find_status(type(error))
    code, message = STATUS[status], error.message or error.code
    body = {"error": {"code": code, "message": message, "status": status, "details": _list_details(error)}}
    return ErrorResponse(encode(body), code, make_error_headers(error), code=status, message=message)


def _list_details(error: e.GatewayError) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"@type": f"{RPC}.ErrorInfo", "reason": error.code.upper(), "domain": DOMAIN}]
    field = error.details.get("field")
    if field:
        violations = [{"field": str(field), "description": error.message}]
        found.append({"@type": f"{RPC}.BadRequest", "fieldViolations": violations})
    if isinstance(error, e.LimitReached):
        found.append({"@type": f"{RPC}.RetryInfo", "retryDelay": f"{max(error.retry_after_seconds, 0.1):.1f}s"})
    return found
