"""Refusals that only a face speaking HTTP can make; the rest of the tree is in `kernel_gateway.errors`.

InvalidRequest
├── MalformedJson          malformed_json           400   the body is not JSON, or not UTF-8
└── InvalidPath            invalid_path             400   not a relative path below the workspace
NotFound
└── UnknownRoute           unknown_route            404   no such address
GatewayError
├── MethodNotAllowed       method_not_allowed       405   the address takes other methods, see `Allow`
├── BodyTooSlow            body_too_slow            408   the body did not arrive in time
├── MisdirectedRequest     misdirected_request      421   the address names a host that is not this service
├── HeadTooSlow            head_too_slow            408   the head of the request did not arrive in time
├── HeadTooLarge           head_too_large           431   the head of the request is too large
├── TooManyConnections     too_many_connections     503   as many as are taken, in all or from one address
├── RangeNotSatisfiable    range_not_satisfiable    416   the range begins beyond the end, see `Content-Range`
├── UnsupportedMediaType   unsupported_media_type   415   the body must be application/json
└── NotOffered             not_offered              501   the protocol has it, and this service has not
"""

from __future__ import annotations

from kernel_gateway.errors import GatewayError, InvalidRequest, NotFound


class MalformedJson(InvalidRequest):
    """The body is not JSON, or not UTF-8."""

    code = "malformed_json"


class InvalidPath(InvalidRequest):
    """Not a relative path below the workspace."""

    code = "invalid_path"


class UnknownRoute(NotFound):
    """There is nothing at this address."""

    code = "unknown_route"


class MethodNotAllowed(GatewayError):
    """The address takes other methods; `allowed` names them."""

    code, status = "method_not_allowed", 405

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(f"{method} is not allowed here; allowed: {', '.join(allowed) or 'none'}", allowed=allowed)
        self.allowed = allowed


class BodyTooSlow(GatewayError):
    """The body did not arrive in time."""

    code, status, retryable = "body_too_slow", 408, True


class MisdirectedRequest(GatewayError):
    """It is addressed to a name that is not this service's; see the setting allowed_hosts."""

    code, status = "misdirected_request", 421


class HeadTooSlow(GatewayError):
    """The head of the request did not arrive in time."""

    code, status, retryable = "head_too_slow", 408, True


class HeadTooLarge(GatewayError):
    """The head of the request is too large: fewer or shorter headers, a shorter address."""

    code, status = "head_too_large", 431


class TooManyConnections(GatewayError):
    """As many connections are open as are taken, in all or from one address."""

    code, status, retryable = "too_many_connections", 503, True


class RangeNotSatisfiable(GatewayError):
    """The range asked for begins beyond the end; `size` says where that is."""

    code, status = "range_not_satisfiable", 416

    def __init__(self, size: int) -> None:
        super().__init__(f"the range begins beyond the end: there are {size:,} bytes", size=size)
        self.size = size


class UnsupportedMediaType(GatewayError):
    """A JSON body must say so."""

    code, status = "unsupported_media_type", 415


class NotOffered(GatewayError):
    """The protocol has it, and this service has not; the message says what to do instead."""

    code, status = "not_offered", 501
