"""Forms with files (`multipart/form-data`), as clients of several faces upload them. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

from tornado.httputil import (
    HTTPFile,
    HTTPHeaders,
    ParseBodyConfig,
    ParseMultipartConfig,
    parse_body_arguments,
)

from kernel_gateway.errors import InvalidRequest

MOST_FILES: Final = 1_000
"""Of one upload."""
MOST_FIELDS: Final = 100
"""Of one form, besides its files."""
PIECE_BYTES: Final = 256 * 1024

_CONFIG: Final = ParseBodyConfig(multipart=ParseMultipartConfig(max_parts=MOST_FILES + MOST_FIELDS + 1))


def is_form(headers: Mapping[str, str]) -> bool:
    return headers.get("Content-Type", "").startswith("multipart/form-data")


def parse_files(content_type: str, content: bytes) -> list[HTTPFile]:
    """The parts named `file`, in their order; raises InvalidRequest."""
    arguments: dict[str, list[bytes]] = {}
    files: dict[str, list[HTTPFile]] = {}
    try:
        parse_body_arguments(content_type, content, arguments, files, HTTPHeaders(), config=_CONFIG)
    except Exception as error:
        raise InvalidRequest(f"the body is no form with files: {error}") from None
    found = files.get("file", [])
    if not 0 < len(found) <= MOST_FILES:
        raise InvalidRequest(f"the body is a form with 1 to {MOST_FILES:,} parts named `file`")
    return found


async def split(content: bytes) -> AsyncIterator[bytes]:
    """A file's bytes, piece by piece."""
    for start in range(0, len(content), PIECE_BYTES):
        yield content[start : start + PIECE_BYTES]
