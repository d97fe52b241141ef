"""What endpoints of every face answer with. How it goes out is in `faces.handler`.

Most endpoints return a value that is sent as JSON with the status of their route. One that has more to say returns a
`Response`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

JSON = "application/json"
Json = msgspec.Struct | dict[str, Any] | list[Any]
"""What is sent as JSON."""


class Stream(msgspec.Struct, frozen=True):
    """Bytes that come piece by piece, each sent when the client has taken the one before.

    `size` is None when it is not known: an answer that is cut off shows that by its missing end.
    """

    pieces: AsyncIterator[bytes]
    size: int | None = None


@dataclass(frozen=True)
class Response:
    """A body, a status and headers. Without a `status` it is the route's, without a body there is no media type."""

    body: bytes | Stream | Json | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ErrorResponse(Response):
    """An error in the words of a face; `code` and `message` are what the audit log keeps."""

    body: bytes = b""
    status: int = 500
    code: str = field(default="", kw_only=True)
    message: str = field(default="", kw_only=True)


Answer = Response | Json | None
"""What an endpoint returns; None: nothing but the status."""


def as_response(answer: Answer) -> Response:
    return answer if isinstance(answer, Response) else Response(answer)


async def close_iterator(iterator: AsyncIterator[Any]) -> None:
    """Let an iterator that is not read to its end clean up now."""
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
