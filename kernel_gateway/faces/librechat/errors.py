"""Errors in the words of LibreChat's Code API: `{"error", "message"}`. Pure.

Its client looks at the status, and at `error` where that is a word it knows: `rate_limited`, with the seconds to wait,
and `unsupported_capability`, by which it tells the model not to try again.
"""

from __future__ import annotations

import math
from typing import Any

from kernel_gateway.errors import GatewayError, LimitReached
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.handler import make_error_headers
from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import JSON, ErrorResponse


def describe(error: GatewayError) -> dict[str, Any]:
    """The JSON of an error; `code` is ours."""
    told: dict[str, Any] = {"error": error.message, "message": error.message, "code": error.code}
    if isinstance(error, LimitReached):
        told |= {"error": "rate_limited", "retry_after_seconds": max(1, math.ceil(error.retry_after_seconds))}
    elif isinstance(error, NotOffered):
        told |= {"error": "unsupported_capability", "code": "unsupported_capability"}
    return told


def make_response(error: GatewayError) -> ErrorResponse:
    """The whole answer."""
    headers = {**make_error_headers(error), "Content-Type": JSON}
    return ErrorResponse(encode(describe(error)), error.status, headers, code=error.code, message=error.message)
