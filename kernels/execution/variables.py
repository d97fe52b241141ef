"""The names that code has defined in a kernel, as the kernel tells them: asked for, bounded and checked.

The kernel answers on its control channel whatever runs; see `guest/in_kernel/variables.py`. User code can forge its
answer: its form is all that is believed.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from kernels.errors import SandboxFailed
from kernels.execution.hub import Hub

ANSWER_SECONDS: Final = 5.0
"""How long the answer is waited for; the kernel gathers for a second at most."""
MOST_ANSWER_BYTES: Final = 1_000_000
MOST_VARIABLES: Final = 1_000

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Text = Annotated[str, msgspec.Meta(max_length=2_000)]


class Variable(msgspec.Struct, omit_defaults=True):
    """One name: the name of its value's type, and what can be said of the value without running its code."""

    name: _Text
    type: _Text
    shape: Annotated[list[_Count], msgspec.Meta(max_length=64)] | None = None
    length: _Count | None = None
    size_bytes: _Count | None = None
    preview: _Text | None = None


class Variables(msgspec.Struct):
    """The latest names first; `omitted` counts those beyond, about."""

    variables: Annotated[list[Variable], msgspec.Meta(max_length=MOST_VARIABLES)] = msgspec.field(default_factory=list)
    omitted: _Count = 0


class _Reply(Variables):
    status: str = ""
    evalue: _Text = ""


_decode: Final = msgspec.json.Decoder(_Reply).decode


async def ask(hub: Hub) -> Variables:
    """What the kernel behind the hub has; raises `DeadlineExceeded`, `SandboxFailed`, or the error of a failed hub."""
    message = await hub.request("control", "sandcell_variables_request", {}, deadline_seconds=ANSWER_SECONDS)
    return parse_answer(message.content_json)


class _Deleted(msgspec.Struct):
    status: str
    path: _Text


async def find_deleted_file(hub: Hub) -> str:
    """The path of a file that the kernel has open and that was deleted, or nothing; raises as `ask` does."""
    message = await hub.request("control", "sandcell_deleted_request", {}, deadline_seconds=ANSWER_SECONDS)
    try:
        return msgspec.json.decode(message.content_json[:MOST_ANSWER_BYTES], type=_Deleted).path
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SandboxFailed("the kernel's answer about its files makes no sense") from None


def parse_answer(content: bytes) -> Variables:
    """What a reply says; raises `SandboxFailed` for one that is none. Pure."""
    if len(content) > MOST_ANSWER_BYTES:
        raise SandboxFailed("the kernel's answer about its variables is longer than any may be")
    try:
        reply = _decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SandboxFailed("the kernel's answer about its variables makes no sense") from None
    if reply.status != "ok":
        raise SandboxFailed(f"the kernel could not look at its variables ({reply.evalue[:100]!a}): try again")
    return Variables(reply.variables, reply.omitted)
