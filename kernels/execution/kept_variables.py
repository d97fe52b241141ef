"""Variables that outlive their kernel: the kernel is asked to write them down, and its successor to take them up.

Both happen in the sandbox, by code that runs as the user; see `guest/in_kernel/kept_variables.py`. What comes back here
is a report whose form is all that is believed.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from kernels.errors import SandboxFailed
from kernels.execution.hub import Hub

MOST_ANSWER_BYTES: Final = 1_000_000
MOST_VARIABLES: Final = 1_000
KEEP_SECONDS: Final = 2.0
"""After how long nothing more is begun to be kept; code that comes meanwhile waits for what has begun."""
ANSWER_SECONDS: Final = 30.0
RESTORE_SECONDS: Final = 50.0
"""After how long nothing more is begun to be restored."""
RESTORED_SECONDS: Final = 60.0

_AnyReply = TypeVar("_AnyReply", "_Reply", "_KeepReply")
_Text = Annotated[str, msgspec.Meta(max_length=1_000)]


class RestoredVariable(msgspec.Struct):
    """A name of the kernel before, and whether this one has it; `why` not."""

    name: _Text
    outcome: Literal["restored", "lost"]
    why: _Text = ""


class KeptVariable(msgspec.Struct):
    """A name of this kernel, and whether it is written down; `why` not."""

    name: _Text
    outcome: Literal["kept", "lost"]
    why: _Text = ""


class _Reply(msgspec.Struct):
    status: str = ""
    evalue: _Text = ""
    variables: Annotated[list[RestoredVariable], msgspec.Meta(max_length=MOST_VARIABLES)] = msgspec.field(
        default_factory=list
    )


class _KeepReply(msgspec.Struct):
    status: str = ""
    evalue: _Text = ""
    variables: Annotated[list[KeptVariable], msgspec.Meta(max_length=MOST_VARIABLES)] = msgspec.field(
        default_factory=list
    )


async def keep(hub: Hub, most_bytes: int, seconds: float = KEEP_SECONDS) -> list[KeptVariable]:
    """Have the kernel write its variables down; raises `DeadlineExceeded`, `SandboxFailed`, or a failed hub's error."""
    content = {"do": "keep", "bytes": most_bytes, "seconds": seconds}
    return (await _ask(hub, content, seconds - KEEP_SECONDS + ANSWER_SECONDS, _KeepReply)).variables


async def restore(hub: Hub) -> list[RestoredVariable]:
    """Have a new kernel take up what the one before wrote down; raises as `keep` does."""
    return (await _ask(hub, {"do": "restore", "seconds": RESTORE_SECONDS}, RESTORED_SECONDS, _Reply)).variables


async def _ask(hub: Hub, content: dict[str, Any], seconds: float, kind: type[_AnyReply]) -> _AnyReply:
    message = await hub.request("shell", "sandcell_kept_request", content, deadline_seconds=seconds)
    if len(message.content_json) > MOST_ANSWER_BYTES:
        raise SandboxFailed("the kernel's answer about kept variables is longer than any may be")
    try:
        reply = msgspec.json.decode(message.content_json, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SandboxFailed("the kernel's answer about kept variables makes no sense") from None
    if reply.status != "ok":
        raise SandboxFailed(f"the kernel could not do that with its variables ({reply.evalue[:200]!a})")
    return reply
