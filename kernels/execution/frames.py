"""Rows of a table that a kernel holds, what is in its columns, and values as a whole: asked for between cells.

The kernel answers in the thread that runs code; see `frames.py`, `column_summaries.py` and `whole_values.py` of
`guest/in_kernel`. User code can forge its answer: its form is all that is believed, within bounds.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final, Literal

import msgspec

from kernels.errors import SandboxFailed
from kernels.execution.hub import Hub

REQUEST: Final = "sandcell_rows_request"
MOST_ANSWER_BYTES: Final = 4_000_000
MOST_COLUMNS: Final = 200
MOST_ROWS: Final = 1_000
MOST_BINS: Final = 20
MOST_FREQUENT: Final = 10
MOST_PIXELS: Final = 256
LONGEST_TEXT: Final = 100_000

_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**62)]
_Side = Annotated[int, msgspec.Meta(ge=1, le=MOST_PIXELS)]
_Text = Annotated[str, msgspec.Meta(max_length=2_000)]
_Row = Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=MOST_COLUMNS + 1)]


class Summary(msgspec.Struct):
    """What is in a column: bins between edges, or the most frequent values with their counts. Texts but for counts."""

    missing: _Count = 0
    minimum: _Text = ""
    maximum: _Text = ""
    counts: Annotated[list[_Count], msgspec.Meta(max_length=MOST_BINS)] = msgspec.field(default_factory=list)
    edges: Annotated[list[_Text], msgspec.Meta(max_length=MOST_BINS + 1)] = msgspec.field(default_factory=list)
    distinct: _Count | None = None
    frequent: Annotated[list[tuple[_Text, _Count]], msgspec.Meta(max_length=MOST_FREQUENT)] = msgspec.field(
        default_factory=list
    )
    problem: _Text = ""


class Picture(msgspec.Struct):
    """Pixels in base64, row by row: grey and opacity, or red, green, blue and opacity; of every `down`th row and so on.

    Its least and greatest number are texts.
    """

    height: _Side
    width: _Side
    channels: Literal[2, 4]
    data: Annotated[str, msgspec.Meta(max_length=MOST_PIXELS * MOST_PIXELS * 6)]
    minimum: _Text
    maximum: _Text
    down: _Count
    across: _Count


class Rows(msgspec.Struct):
    """`columns` are names with types; each row is its label and then its cells. `found` and `table` say what is there.

    There are `total` rows and `wide` columns in all. `summaries` are of the first columns, from `summarized` rows;
    `stopped` says that there was no time for all.
    """

    found: bool = False
    table: bool = False
    columns: Annotated[list[tuple[_Text, _Text]], msgspec.Meta(max_length=MOST_COLUMNS)] = msgspec.field(
        default_factory=list
    )
    rows: Annotated[list[_Row], msgspec.Meta(max_length=MOST_ROWS)] = msgspec.field(default_factory=list)
    total: _Count = 0
    wide: _Count = 0
    summaries: Annotated[list[Summary], msgspec.Meta(max_length=MOST_COLUMNS)] = msgspec.field(default_factory=list)
    summarized: _Count = 0
    stopped: bool = False
    picture: Picture | None = None
    text: Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)] | None = None
    cut: bool = False


class _Reply(Rows):
    status: str = ""
    evalue: _Text = ""


_decode: Final = msgspec.json.Decoder(_Reply).decode


async def ask(
    hub: Hub, name: str, first: int, count: int, *, histograms: bool, show: str, deadline_seconds: float
) -> Rows:
    """So many rows from the first on; raises `DeadlineExceeded`, `SandboxFailed`, or the error of a failed hub.

    With `histograms` also what is in the columns; with `show` "picture" or "text" that in the place of rows.
    """
    content = {"name": name, "first": first, "count": count, "histograms": histograms, "show": show}
    message = await hub.request("shell", REQUEST, content, deadline_seconds=deadline_seconds)
    return parse_answer(message.content_json)


def parse_answer(content: bytes) -> Rows:
    """What a reply says; raises `SandboxFailed` for one that is none. Pure."""
    if len(content) > MOST_ANSWER_BYTES:
        raise SandboxFailed("the kernel's answer about a variable is longer than any may be")
    try:
        reply = _decode(content)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise SandboxFailed("the kernel's answer about a variable makes no sense") from None
    if reply.status != "ok":
        raise SandboxFailed(f"the kernel could not look at the variable ({reply.evalue[:100]!a})")
    if not _fits(reply):
        raise SandboxFailed("the kernel's answer about a variable makes no sense")
    return reply


def _fits(reply: Rows) -> bool:
    """Whether what belongs together has lengths that agree."""
    return (
        all(len(row) == len(reply.columns) + 1 for row in reply.rows)
        and len(reply.summaries) <= len(reply.columns)
        and all(len(each.edges) == len(each.counts) + bool(each.counts) for each in reply.summaries)
        and (reply.picture is None or _is_whole(reply.picture))
    )


def _is_whole(picture: Picture) -> bool:
    try:
        pixels = base64.b64decode(picture.data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return len(pixels) == picture.height * picture.width * picture.channels
