"""Completion and inspection of code by the kernel itself: asked for, bounded and checked.

The kernel answers between cells, in the thread that runs them, so while one runs there is no answer. Looking may run
code of the session's, as `__dir__` or a property, and that code can forge the answer: its form is all that is believed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeVar

import msgspec

from kernels.errors import SandboxFailed
from kernels.execution.hub import Hub
from kernels.wire.message import Message

MOST_ANSWER_BYTES: Final = 2_000_000
MOST_MATCHES: Final = 1_000
LONGEST_TEXT: Final = 100_000
"""Characters of each part of a bundle."""
MOST_TYPES: Final = 16
TYPES_KEY: Final = "_jupyter_types_experimental"
"""Where IPython says of what type each match is: https://github.com/ipython/ipykernel, `ipkernel.py`."""

_Name = Annotated[str, msgspec.Meta(max_length=2_000)]
_Position = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]


class Match(msgspec.Struct):
    """What may stand from the start to the end of the completions; `type` and `signature` are empty when not known."""

    text: str
    type: str = ""
    signature: str = ""


class Completions(msgspec.Struct):
    """`start` and `end` count characters (code points) of the code. `omitted` counts matches beyond the first."""

    matches: list[Match]
    start: int
    end: int
    omitted: int = 0


class Bundle(msgspec.Struct):
    """What a kernel tells of a name, by MIME type; `truncated` counts characters that were cut."""

    found: bool
    data: dict[str, str]
    truncated: int = 0


class _Reply(msgspec.Struct):
    status: str = ""
    evalue: _Name = ""


class _Typed(msgspec.Struct):
    text: str = ""
    type: str | None = None
    signature: str | None = None


class _CompleteReply(_Reply):
    matches: list[str] = msgspec.field(default_factory=list)
    cursor_start: _Position = 0
    cursor_end: _Position = 0
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class _InspectReply(_Reply):
    found: bool = False
    data: Annotated[dict[_Name, Any], msgspec.Meta(max_length=MOST_TYPES)] = msgspec.field(default_factory=dict)


_ReplyT = TypeVar("_ReplyT", bound=_Reply)


async def complete(hub: Hub, code: str, position: int, *, deadline_seconds: float) -> Completions:
    """What may stand at a position of the code; raises `DeadlineExceeded`, `SandboxFailed`, or a failed hub's error."""
    content: dict[str, Any] = {"code": code, "cursor_pos": position}
    message = await hub.request("shell", "complete_request", content, deadline_seconds=deadline_seconds)
    return parse_completions(_read_content(message), len(code))


async def inspect(hub: Hub, code: str, position: int, detail: int, *, deadline_seconds: float) -> Bundle:
    """What is known of the name at a position of the code, with its source if `detail` is 1; raises as `complete`."""
    content: dict[str, Any] = {"code": code, "cursor_pos": position, "detail_level": detail}
    message = await hub.request("shell", "inspect_request", content, deadline_seconds=deadline_seconds)
    return parse_bundle(_read_content(message))


def parse_completions(content: dict[str, Any], length: int) -> Completions:
    """What a reply says of code with so many characters; raises `SandboxFailed` for one that is none. Pure."""
    reply = _convert(content, _CompleteReply)
    if not reply.cursor_start <= reply.cursor_end <= length:
        raise _make_error()
    types = _read_types(reply.metadata.get(TYPES_KEY))
    kept = reply.matches[:MOST_MATCHES]
    matches = [Match(text, *types.get(text, ("", ""))) for text in kept]
    return Completions(matches, reply.cursor_start, reply.cursor_end, len(reply.matches) - len(kept))


def parse_bundle(content: dict[str, Any]) -> Bundle:
    """What a reply says of a name; raises `SandboxFailed` for one that is none. Pure."""
    reply = _convert(content, _InspectReply)
    found = {name: text for name, text in reply.data.items() if isinstance(text, str)}
    data = {name: text[:LONGEST_TEXT] for name, text in found.items()}
    return Bundle(reply.found, data, sum(len(text) - len(data[name]) for name, text in found.items()))


def _read_content(message: Message) -> dict[str, Any]:
    if len(message.content_json) > MOST_ANSWER_BYTES:
        raise SandboxFailed("the kernel's answer is longer than any may be: ask for less")
    return message.content


def _convert(content: dict[str, Any], kind: type[_ReplyT]) -> _ReplyT:
    try:
        reply = msgspec.convert(content, kind)
    except msgspec.ValidationError:
        raise _make_error() from None
    if reply.status != "ok":
        raise SandboxFailed(f"the kernel could not look at the code ({reply.evalue[:100]!a})")
    return reply


def _read_types(said: Any) -> dict[str, tuple[str, str]]:
    """Type and signature of each match, where the kernel says them; they are an extra, without which matches count."""
    try:
        typed = msgspec.convert(said, list[_Typed])
    except msgspec.ValidationError:
        return {}
    return {each.text: (_drop_unknown(each.type), _drop_unknown(each.signature)) for each in typed}


def _drop_unknown(text: str | None) -> str:
    """IPython says `<unknown>` of what it does not know."""
    return "" if text is None or text.startswith("<") else text


def _make_error() -> SandboxFailed:
    return SandboxFailed("the kernel's answer about the code makes no sense")
