"""Errors of the client: what the service answered, as exceptions.

Tree:

    SandcellError
    ├── InvalidRequest       4xx                  change the request
    ├── Unauthorized         401                  no token, a wrong one or a revoked one
    ├── Forbidden            403                  administrators only
    ├── NotFound             404                  absent, or another principal's
    ├── Conflict             409, 412             not in this state; `code` says which
    ├── LimitReached         429                  later: `retry_after_seconds`
    ├── ServiceUnavailable   5xx                  the service could not; `retryable` says whether to try again
    ├── ConnectionFailed     no answer            the service was not reached, or the connection was lost
    └── StillRunning         no answer            the client's patience ended before the execution did

`code` is the service's word for it (`session_terminated`, `workspace_in_use`, ...), `details` its further fields.
"""

from __future__ import annotations

from typing import Any

import msgspec


class SandcellError(Exception):
    """Root of the client's errors. `status` is the HTTP status, 0 without an answer."""

    def __init__(
        self, message: str, *, code: str = "", status: int = 0, retryable: bool = False, **details: Any
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.retryable = retryable
        self.details = details


class InvalidRequest(SandcellError):
    """The service could make no sense of the request."""


class Unauthorized(SandcellError):
    """No token, a wrong one or a revoked one."""


class Forbidden(SandcellError):
    """Only an administrator may do this."""


class NotFound(SandcellError):
    """Absent, or another principal's."""


class Conflict(SandcellError):
    """The thing is not in a state that allows this."""


class LimitReached(SandcellError):
    """A limit that passes with time."""

    @property
    def retry_after_seconds(self) -> float:
        """How long to wait before it is worth another try."""
        return float(self.details.get("retry_after_seconds", 1.0))


class ServiceUnavailable(SandcellError):
    """The service could not do it, or had a defect."""


class ConnectionFailed(SandcellError):
    """The service was not reached, or the connection was lost before the answer."""


class StillRunning(SandcellError):
    """The execution goes on; `details` hold `execution_id` to come back for it."""


BY_STATUS: dict[int, type[SandcellError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: Conflict,
    429: LimitReached,
}


def error_of(status: int, content: bytes) -> SandcellError:
    """The exception for an answer that is not a success, be it the service's or a proxy's."""
    kind = BY_STATUS.get(status, InvalidRequest if 400 <= status < 500 else ServiceUnavailable)
    try:
        error = msgspec.json.decode(content, type=dict[str, dict[str, Any]])["error"]
        message, code = str(error.pop("message")), str(error.pop("code"))
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        # A proxy's, which has lost the service, or has none: as good as a lost connection.
        retryable = status in (502, 503)
        message = f"the server answered with status {status} and no error of Sandcell's"
        return kind(message, status=status, retryable=retryable)
    retryable = bool(error.pop("retryable", False))
    taken = {"message", "code", "status", "self"}
    details = {name: value for name, value in error.items() if name not in taken}
    return kind(message, code=code, status=status, retryable=retryable, **details)
