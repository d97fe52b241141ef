"""Rows of a table that a kernel holds, as the kernel tells them: asked for between cells, bounded and checked.

The kernel answers in the thread that runs code; see `guest/in_kernel/frames.py`. User code can forge its answer: its
form is all that is believed.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from kernels.errors import SandboxFailed
from kernels.execution.hub import Hub

REQUEST: Final = "sandcell_rows_request"
MOST_ANSWER_BYTES: Final = 4_000_000
MOST_COLUMNS: Final = 200
MOST_ROWS: Final = 1_000

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
_Row = Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=MOST_COLUMNS + 1)]


class Rows(msgspec.Struct):
    """`columns` are names with types; each row is its label and then its cells. `found` and `table` say what is there.

    There are `total` rows and `wide` columns in all.
    """

    found: bool = False
    table: bool = False
    columns: Annotated[list[tuple[_Text, _Text]], msgspec.Meta(max_length=MOST_COLUMNS)] = msgspec.field(
        default_factory=list
    )
    rows: Annotated[list[_Row], msgspec.Meta(max_length=MOST_ROWS)] = msgspec.field(default_factory=list)
    total: _Count = 0
    wide: _Count = 0


class _Reply(Rows):
    status: str = ""
    evalue: _Text = ""


_decode: Final = msgspec.json.Decoder(_Reply).decode


async def ask(hub: Hub, name: str, first: int, count: int, *, deadline_seconds: float) -> Rows:
    """So many rows from the first on; raises `DeadlineExceeded`, `SandboxFailed`, or the error of a failed hub."""
    content = {"name": name, "first": first, "count": count}
    message = await hub.request("shell", REQUEST, content, deadline_seconds=deadline_seconds)
    return parse_answer(message.content_json)


def parse_answer(content: bytes) -> Rows:
    """What a reply says; raises `SandboxFailed` for one that is none. Pure."""
    if len(content) > MOST_ANSWER_BYTES:
        raise SandboxFailed("the kernel's answer about a table is longer than any may be")
    try:
        reply = _decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SandboxFailed("the kernel's answer about a table makes no sense") from None
    if reply.status != "ok":
        raise SandboxFailed(f"the kernel could not look at the table ({reply.evalue[:100]!a})")
    if any(len(row) != len(reply.columns) + 1 for row in reply.rows):
        raise SandboxFailed("the kernel's answer about a table makes no sense")
    return Rows(reply.found, reply.table, reply.columns, reply.rows, reply.total, reply.wide)
