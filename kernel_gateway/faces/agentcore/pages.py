"""Lists in pages: what AgentCore calls `nextToken` is a cursor of the services."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kernel_gateway.errors import InvalidRequest


@contextmanager
def name_next_token() -> Iterator[None]:
    """Around a list whose limit is in order: what it refuses is the token."""
    try:
        yield
    except InvalidRequest:
        raise InvalidRequest("nextToken: this is no token that a list gave", field="nextToken") from None
