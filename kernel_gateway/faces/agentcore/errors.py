"""Our errors as AWS's: which shape, which status, which words. Pure; docs/reference/agentcore.md has the table.

What a client sees: the status, `x-amzn-ErrorType` with the shape's name, and JSON with `message` (and for a
ValidationException `reason` and `fieldList`). Retryable errors that no shape of the model fits are
InternalServerException, which clients send again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as f
from kernel_gateway.identity.sigv4 import SignatureProblem

VALIDATION: Final = "ValidationException"
QUOTA: Final = "ServiceQuotaExceededException"
DENIED: Final = "AccessDeniedException"
NOT_FOUND: Final = "ResourceNotFoundException"
CONFLICT: Final = "ConflictException"
THROTTLING: Final = "ThrottlingException"
INTERNAL: Final = "InternalServerException"
UNKNOWN_OPERATION: Final = "UnknownOperationException"

STATUS: Final = {
    VALIDATION: 400,
    QUOTA: 402,
    DENIED: 403,
    NOT_FOUND: 404,
    UNKNOWN_OPERATION: 404,
    CONFLICT: 409,
    THROTTLING: 429,
    INTERNAL: 500,
}

CANNOT_PARSE: Final = "CannotParse"
FIELD: Final = "FieldValidationFailed"
MISMATCH: Final = "IdempotentParameterMismatchException"

SHAPES: Final[tuple[tuple[type[e.GatewayError], str], ...]] = (
    (f.UnknownRoute, UNKNOWN_OPERATION),
    (f.MethodNotAllowed, UNKNOWN_OPERATION),
    (f.BodyTooSlow, VALIDATION),
    (f.UnsupportedMediaType, VALIDATION),
    (e.InvalidRequest, VALIDATION),
    (e.IdempotencyConflict, VALIDATION),
    (e.PayloadTooLarge, VALIDATION),
    (e.NoSpace, QUOTA),
    (e.SessionLimit, QUOTA),
    (e.QuotaReached, QUOTA),
    (e.LimitReached, THROTTLING),
    (e.Unauthorized, DENIED),
    (e.Forbidden, DENIED),
    (e.NotFound, NOT_FOUND),
    (e.SessionTerminated, NOT_FOUND),
    (e.Conflict, CONFLICT),
    (e.GatewayError, INTERNAL),
)
"""What each of our errors becomes; the first class that fits counts. A session that has ended is not found: clients
take exactly that as "start another"."""


class Refusal(msgspec.Struct, frozen=True):
    """An error as it goes over the wire; `fields` are name and message of what is wrong in the request."""

    shape: str
    status: int
    message: str
    reason: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    headers: dict[str, str] = msgspec.field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The error's JSON."""
        found: dict[str, Any] = {"message": self.message}
        if self.reason:
            found["reason"] = self.reason
        if self.fields:
            found["fieldList"] = [{"name": name, "message": message} for name, message in self.fields]
        return found


def make_refusal(error: e.GatewayError | SignatureProblem) -> Refusal:
    """An error as a caller sees it."""
    if isinstance(error, SignatureProblem):
        return Refusal(error.code, error.status, error.message or error.code)
    shape = next(shape for kind, shape in SHAPES if isinstance(error, kind))
    message = error.message or error.code
    if shape == VALIDATION:
        named = str(error.details.get("field") or "")
        return Refusal(shape, 400, message, _find_reason(error), ((named, message),) if named else ())
    headers: dict[str, str] = {}
    if isinstance(error, e.LimitReached):
        headers["x-amz-retry-after"] = str(max(1, round(error.retry_after_seconds * 1000)))
    if isinstance(error, f.MethodNotAllowed):
        headers["Allow"] = ", ".join(error.allowed)
        return Refusal(shape, error.status, message, headers=headers)
    return Refusal(shape, STATUS[shape], message, headers=headers)


def _find_reason(error: e.GatewayError) -> str:
    if isinstance(error, f.MalformedJson | f.BodyTooSlow | f.UnsupportedMediaType):
        return CANNOT_PARSE
    return MISMATCH if isinstance(error, e.IdempotencyConflict) else FIELD
