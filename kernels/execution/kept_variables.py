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
PREPARE_SECONDS: Final = 10.0
"""How long a new kernel waits to be told what it is to restore, and after which nothing more is imported for it."""
RESTORE_SECONDS: Final = 50.0
"""After how long nothing more is begun to be restored."""
RESTORED_SECONDS: Final = 60.0

_Text = Annotated[str, msgspec.Meta(max_length=1_000)]


class KeptVariable(msgspec.Struct):
    """A name of this kernel, and whether it is written down; `why` not, or not as it is now."""

    name: _Text
    outcome: Literal["kept", "lost"]
    why: _Text = ""


class RestoredVariable(msgspec.Struct):
    """A name of the kernel before, and what this one has of it.

    `copied`: it had objects that other variables have too, of which there are several now. `stale`: it could not be
    written when the others were, and is as it was after that many `executions`. `why` tells of all but `restored`.
    """

    name: _Text
    outcome: Literal["restored", "copied", "stale", "lost"]
    why: _Text = ""


class Restoration(msgspec.Struct):
    """What a new kernel has found: nothing, or variables as they were `at` a time, after so many `executions`."""

    found: bool = True
    at: Annotated[float, msgspec.Meta(ge=0, lt=1e11)] | None = None
    executions: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)] | None = None
    variables: Annotated[list[RestoredVariable], msgspec.Meta(max_length=MOST_VARIABLES)] = msgspec.field(
        default_factory=list
    )


class _Restored(Restoration):
    status: str = ""
    evalue: _Text = ""


class Kept(msgspec.Struct):
    """How many names of a kernel are `kept`, and how many seconds of a processor it took to look at what they are.

    `kept` is None where nothing was looked at since there was no memory, and of a kernel of an earlier release. `held`
    is what its process held in memory before, in bytes. The names are there when somebody has asked for them.
    """

    variables: Annotated[list[KeptVariable], msgspec.Meta(max_length=MOST_VARIABLES)] = msgspec.field(
        default_factory=list
    )
    kept: Annotated[int, msgspec.Meta(ge=0, le=MOST_VARIABLES)] | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e6)] = 0.0
    held: Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)] | None = None


class _Kept(Kept):
    status: str = ""
    evalue: _Text = ""


_Reply = TypeVar("_Reply", _Kept, _Restored)


async def keep(
    hub: Hub,
    most_bytes: int,
    seconds: float = KEEP_SECONDS,
    *,
    executions: int | None = None,
    at: float | None = None,
    own_id: str = "",
    end_id: str = "",
    memory_bytes: int | None = None,
    held_bytes: int | None = None,
) -> Kept:
    """Have the kernel write its variables down, as of a time and so many executions, if those are known.

    With an id of its own it can be ended by `stop`, and leaves room on the disk; with an `end_id` only the first. With
    `memory_bytes` it ends once its memory has grown by so much, from now or from the `held_bytes` that it has said
    before. Raises `DeadlineExceeded`, `SandboxFailed`, a failed hub's error.
    """
    stamp = {"generation": hub.generation, "executions": executions, "at": at}
    content = {"do": "keep", "bytes": most_bytes, "seconds": seconds, "stamp": stamp, "id": own_id}
    content |= {"memory": memory_bytes, "held": held_bytes, "end_id": end_id}
    return await _ask(hub, content, seconds - KEEP_SECONDS + ANSWER_SECONDS, _Kept)


def stop(hub: Hub, own_id: str) -> None:
    """Have `keep` come to an end, whether it has begun or not: code is about to come. Raises a failed hub's error.

    What has not been written by then stays as it was. Code of a value's own that goes on is ended soon after.
    """
    hub.send("control", "sandcell_stop_request", {"id": own_id})


def hasten(hub: Hub, own_id: str) -> None:
    """Have `keep` leave out what it looked at not long ago: code waits for its end. Raises a failed hub's error.

    What is left out stays as it was then. A kernel of an earlier release ends it altogether.
    """
    hub.send("control", "sandcell_stop_request", {"id": own_id, "awaited": True})


async def prepare(hub: Hub) -> None:
    """Have a new kernel import what it is to restore while that is being laid into its sandbox; raises as `keep`."""
    content = {"do": "prepare", "seconds": PREPARE_SECONDS}
    await _ask(hub, content, PREPARE_SECONDS + ANSWER_SECONDS, _Kept)


async def restore(hub: Hub, *, expected: int | None = None, forget: bool = False) -> Restoration:
    """Have a new kernel take up what one before it wrote down; raises as `keep` does.

    With `expected` only what the kernel of that generation has written or taken up: else nothing is found. With
    `forget` it is not there for another kernel afterwards.
    """
    content = {"do": "restore", "seconds": RESTORE_SECONDS, "expected": expected, "generation": hub.generation}
    content |= {"forget": forget}
    return await _ask(hub, content, RESTORED_SECONDS, _Restored)


async def _ask(hub: Hub, content: dict[str, Any], seconds: float, kind: type[_Reply]) -> _Reply:
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
