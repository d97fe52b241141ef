"""readFiles: contents of files, a few small ones at once and each large one alone, within what one answer holds."""

from __future__ import annotations

import asyncio

from kernel_gateway.errors import GatewayError, PayloadTooLarge
from kernel_gateway.faces.agentcore.tools.file_errors import AT_ONCE, attempt, describe_trouble, is_about_one
from kernel_gateway.faces.agentcore.tools.invocation import Invocation
from kernel_gateway.faces.agentcore.tools.media_types import OCTETS, TEXT, decode_text, find_media_type
from kernel_gateway.faces.agentcore.tools.paths import make_uri, parse_path, quote
from kernel_gateway.faces.agentcore.tools.results import (
    MOST_PAYLOAD_BYTES,
    ContentBlock,
    ResourceContent,
    Result,
    join_names,
    make_text_result,
)

SMALL_BYTES = 1024 * 1024
"""A larger file is read while no other is; what is more than this takes room in memory first."""


async def read_files(call: Invocation) -> Result:
    """The files that can be read; those that cannot are left out, unless that leaves none."""
    paths = [(asked, parse_path(asked)) for asked in dict.fromkeys(call.arguments.paths or [])]
    blocks: list[ContentBlock] = []
    failures: list[str] = []
    left = MOST_PAYLOAD_BYTES
    for first in range(0, len(paths), AT_ONCE):
        if left < MOST_PAYLOAD_BYTES - SMALL_BYTES:
            await call.room()
        group = paths[first : first + AT_ONCE]
        together = await asyncio.gather(*(_read(call, path, min(left, SMALL_BYTES)) for _, path in group))
        for (asked, path), early in zip(group, together, strict=True):
            content = await _read_large(call, path, left) if isinstance(early, PayloadTooLarge) else early
            if isinstance(content, bytes):
                blocks.append(_make_resource(path, content))
                left -= _estimate_bytes(blocks[-1], content)
            elif is_about_one(content):
                failures.append(describe_trouble(asked, content))
            elif not isinstance(content, PayloadTooLarge):
                raise content
            if isinstance(content, PayloadTooLarge) or left < 0:
                return _too_large(call, asked, path, alone=len(paths) == 1)
    return Result(blocks, is_error=False) if blocks else make_text_result(join_names(failures), is_error=True)


async def _read(call: Invocation, path: str, most_bytes: int) -> bytes | GatewayError:
    return await attempt(call.services.files.read_whole(call.principal, call.session_id, path, most_bytes))


async def _read_large(call: Invocation, path: str, most_bytes: int) -> bytes | GatewayError:
    """One file that may take all that an answer holds."""
    await call.room()
    return await _read(call, path, most_bytes)


def _make_resource(path: str, content: bytes) -> ContentBlock:
    text = decode_text(content)
    if text is None:
        held = ResourceContent("blob", make_uri(path), find_media_type(path, OCTETS), blob=content)
    else:
        held = ResourceContent("text", make_uri(path), find_media_type(path, TEXT), text=text)
    return ContentBlock("resource", resource=held)


def _estimate_bytes(block: ContentBlock, content: bytes) -> int:
    """About what the content takes in the answer: bytes go as base64."""
    text = isinstance(block.resource, ResourceContent) and block.resource.type == "text"
    return len(content) if text else 4 * (len(content) + 2) // 3


def _too_large(call: Invocation, asked: str, path: str, *, alone: bool) -> Result:
    what = f"{quote(asked)} is" if alone else f"These files are together, from {quote(asked)} on,"
    fewer = "" if alone else " Read fewer at once."
    return make_text_result(
        f"{what} too large to be read at once: one answer holds {MOST_PAYLOAD_BYTES:,} bytes, which is about 18 MB of"
        f" binary data.{fewer} Read a large file in pieces with code, or get it from"
        f" /v1/sessions/{call.session_id}/files/{path}",
        is_error=True,
    )
