"""What can be seen inside a kernel: the names that code has defined, what completes code, what is known of a name."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model

LOOK_SECONDS: Final = 5.0


class Variable(Model, omit_defaults=True):
    """One name of the session's Python code and its value's type; the rest as far as it is known without running code.

    `length` is what `len` says, `shape` that of an array or a table, `size_bytes` the value's own without what it
    refers to (of an array with its data). `preview` is 200 characters at most.
    """

    name: str
    type: str
    shape: list[int] | None = None
    length: int | None = None
    size_bytes: int | None = None
    preview: str | None = None


class Variables(Model):
    """The names that were defined last come first; `omitted` counts, about, those for which there was no room."""

    generation: int
    variables: list[Variable] = msgspec.field(default_factory=list)
    omitted: int = 0


class Timed(Model, kw_only=True, forbid_unknown_fields=True):
    """The kernel has `timeout_seconds` to answer."""

    timeout_seconds: Annotated[float, constraints.SECONDS_OF_LOOK] = LOOK_SECONDS


class LookRequest(Timed, forbid_unknown_fields=True):
    """Code, and a position in it, in characters from its start: its end when left out."""

    code: str
    cursor_position: Annotated[int | None, constraints.POSITION] = None


class RowsRequest(Timed, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/rows`: `count` rows of the table under a name, from the `first` on (0).

    With `histograms` also what is in each column. `show` asks for an array as a picture, or for any value as its text
    (`repr`), in the place of rows.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    first: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] = 0
    count: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    histograms: bool = False
    show: Literal["rows", "picture", "text"] = "rows"


class FrequentValue(Model):
    """A value of a column, as text, and in how many rows it is."""

    value: str
    count: int


class ColumnSummary(Model):
    """What is in a column, from the rows that were looked at; `problem` says why it could not be found out.

    Of numbers and times the least and the greatest, and `counts` of up to 20 bins of one width, between `edges`, one
    more than bins; infinite numbers are in no bin. Of other values how many `distinct` ones there are, and the ten most
    `frequent`. Those that are `missing` (None, NaN, NaT) are counted apart. Times with a zone are in UTC.
    """

    missing: int = 0
    minimum: str = ""
    maximum: str = ""
    counts: list[int] = msgspec.field(default_factory=list)
    edges: list[str] = msgspec.field(default_factory=list)
    distinct: int | None = None
    frequent: list[FrequentValue] = msgspec.field(default_factory=list)
    problem: str = ""


class TableColumn(Model):
    """A column's name, and the type of what is in it, as its library says them; its summary if it was asked for."""

    name: str
    type: str
    summary: ColumnSummary | None = None


class ArrayPicture(Model):
    """An array as a picture: `data` is the base64 of its pixels, row by row, `channels` bytes for each.

    Two channels are grey and opacity, four are red, green, blue and opacity; what is NaN is transparent. It shows every
    `down`th row and every `across`th column; of those `minimum` and `maximum` are the ends of what is finite, as text.
    """

    height: int
    width: int
    channels: int
    data: str
    minimum: str
    maximum: str
    down: int
    across: int


class TableRows(Model):
    """Rows of a frame, a series or an array from the `first` on: of each its label, and then its cells, as text.

    There are `total` rows. `columns` are the first 200 of `wide`. An answer may have fewer rows than were asked for.
    Summaries of columns are from `summarized` rows, all or evenly chosen ones; `stopped` says that there was no time
    for those of the last columns. A `picture`, or a `text` with whether it was `cut`, is there when it was asked for.
    """

    generation: int
    columns: list[TableColumn]
    rows: list[list[str]]
    first: int
    total: int
    wide: int
    summarized: int = 0
    stopped: bool = False
    picture: ArrayPicture | None = None
    text: str | None = None
    cut: bool = False


class CompletionRequest(LookRequest, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/completions`."""


class InspectionRequest(LookRequest, forbid_unknown_fields=True):
    """Body of `POST /v1/sessions/{id}/inspections`; with `detail` 1 the answer has the source too."""

    detail: Literal[0, 1] = 0


class CompletionMatch(Model):
    """What may stand in the code; `type` (function, module, path, magic ...) and `signature` are empty if not known."""

    text: str
    type: str = ""
    signature: str = ""


class Completions(Model):
    """Each match stands for the code's characters from `cursor_start` to `cursor_end`, the kernel's best first.

    `omitted` counts the matches for which there was no room.
    """

    generation: int
    matches: list[CompletionMatch]
    cursor_start: int
    cursor_end: int
    omitted: int = 0


class InspectedName(Model):
    """What is known of a name by MIME type, `text/plain` with terminal colours; `truncated` counts characters cut."""

    generation: int
    found: bool
    data: dict[str, str]
    truncated: int = 0
