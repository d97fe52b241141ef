"""What a tool answers with: one result in the shape of the service's model, and how an error becomes one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from kernel_gateway.errors import GatewayError
from kernels.capped_text import cut_middle

MOST_PAYLOAD_BYTES = 24 * 1024 * 1024
"""Of one message of the event stream: boto3 refuses a larger one, unread."""

KEPT_BLOCKS = 10
"""Blocks of text that stay of a result which is too large."""
KEPT_TEXT_BYTES = 250_000
"""Of each text that stays of a result which is too large: head and tail."""

TaskStatus = Literal["submitted", "working", "completed", "canceled", "failed"]


class ResourceContent(msgspec.Struct, rename="camel", omit_defaults=True):
    """A file's content: `text`, or `blob` (base64 on the wire)."""

    type: Literal["text", "blob"]
    uri: str
    mime_type: str
    text: str | UnsetType = UNSET
    blob: bytes | UnsetType = UNSET


class ContentBlock(msgspec.Struct, rename="camel", omit_defaults=True):
    """One piece of a result: text, an image (`data`, `mime_type`), a file's content, or a link to a file."""

    type: Literal["text", "image", "resource", "resource_link"]
    text: str | UnsetType = UNSET
    data: bytes | UnsetType = UNSET
    mime_type: str | UnsetType = UNSET
    uri: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    size: int | UnsetType = UNSET
    resource: ResourceContent | UnsetType = UNSET


class StructuredContent(msgspec.Struct, rename="camel", omit_defaults=True):
    """What code, a command or a task printed and how it ended; `execution_time` is seconds."""

    task_id: str | UnsetType = UNSET
    task_status: TaskStatus | UnsetType = UNSET
    stdout: str | UnsetType = UNSET
    stderr: str | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    execution_time: float | UnsetType = UNSET


class Result(msgspec.Struct, rename="camel", omit_defaults=True):
    """The one result of an invocation; `msgspec.json.encode(result)` is the event's payload."""

    content: list[ContentBlock]
    is_error: bool
    structured_content: StructuredContent | UnsetType = UNSET


def make_text_result(text: str, *, is_error: bool = False) -> Result:
    """A result of one sentence."""
    return Result([make_text_block(text)], is_error)


def make_text_block(text: str) -> ContentBlock:
    """A block of text."""
    return ContentBlock("text", text=text)


def describe_failure(error: GatewayError) -> Result:
    """What went wrong in the service, as a result."""
    return make_text_result(error.message, is_error=True)


def fit(result: Result) -> Result:
    """The result, when one message holds it; else what is left of its texts, and what to do to get the rest."""
    size = len(msgspec.json.encode(result))
    if size <= MOST_PAYLOAD_BYTES:
        return result
    advice = (
        f"This result has {size:,} bytes and one answer holds {MOST_PAYLOAD_BYTES:,}: images and files are left out"
        " and texts are cut. Save what is large to a file and read it in pieces, or make it smaller; what ran has run."
    )
    texts = [_cut(block.text) for block in result.content if isinstance(block.text, str)][:KEPT_BLOCKS]
    about = result.structured_content
    if isinstance(about, StructuredContent):
        about = msgspec.structs.replace(about, stdout=_cut(about.stdout), stderr=_cut(about.stderr))
    return Result(
        [make_text_block(text) for text in (advice, *texts) if isinstance(text, str)],
        is_error=True,
        structured_content=about,
    )


def _cut(text: str | UnsetType) -> str | UnsetType:
    return cut_middle(text, KEPT_TEXT_BYTES)[0] if isinstance(text, str) else text


def join_names(names: Sequence[str], most: int = 20) -> str:
    """The first few of many names, and how many there are besides."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
