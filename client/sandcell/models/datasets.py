"""The values of datasets: a file of a workspace under a name, with what it holds in words of pandas and Arrow.

A profile comes out of a sandbox in which a hostile file may have taken over the reader: the bounds here are checked.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from sandcell.models import constraints
from sandcell.models.model import Model

DatasetFormat = Literal["csv", "parquet", "arrow", "jsonl"]
Encoding = Literal["utf-8", "utf-16", "latin-1", "cp1252"]
Basis = Literal["all_rows", "first_rows", "some_row_groups"]
Statistic = Literal["unique", "25%", "50%", "75%"]
MOST_COLUMNS = 512
MOST_SAMPLE_ROWS = 10
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Text = Annotated[str, msgspec.Meta(max_length=256)]
Cell = bool | int | float | Text | None
Name = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?![\s\S])", description="letters, digits, . _ -")
]


class RegisterDataset(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/workspaces/{id}/datasets`: a file of the workspace, and the name it gets.

    `format` and `encoding` are found out when they are left out. Registering a file again looks at it again when it has
    changed since, or is to be read otherwise.
    """

    name: Name
    path: Annotated[str, constraints.FILE_PATH, msgspec.Meta(min_length=1)]
    format: DatasetFormat | None = None
    encoding: Encoding | None = None


class CopyDataset(Model, forbid_unknown_fields=True):
    """Body of `POST /v1/workspaces/{id}/datasets/{name}/copy`: which workspace of yours gets the file and its name.

    The file keeps its path, below `to_path`. A file that is there with other content is a conflict, unless `overwrite`.
    """

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    name: Name | None = None
    to_path: Annotated[str, constraints.DIRECTORY_PATH] = ""
    overwrite: bool = False


class DatasetColumn(Model, forbid_unknown_fields=True):
    """One column: Arrow's `dtype` (pandas takes it with `[pyarrow]` added) and what pandas' `describe` tells.

    `dtype` is `object` where values have no one type, and nothing more is said. NaN counts as null. `top` and `freq`
    are given of up to 4,096 different values. `estimated` names the statistics that are estimated from the rows read.
    """

    name: Text
    dtype: Text
    count: Count | None = None
    null_count: Count | None = None
    unique: Count | None = None
    top: Cell = None
    freq: Count | None = None
    mean: float | None = None
    std: float | None = None
    min: Cell = None
    p25: float | None = msgspec.field(name="25%", default=None)
    p50: float | None = msgspec.field(name="50%", default=None)
    p75: float | None = msgspec.field(name="75%", default=None)
    max: Cell = None
    estimated: Annotated[list[Statistic], msgspec.Meta(max_length=4)] = msgspec.field(default_factory=list)


class DatasetProfile(Model, forbid_unknown_fields=True):
    """What a file holds. With `rows_exact` false, `rows` is estimated from the part that was read.

    `complete`: all rows were read, so counts, means and extremes are exact; else they are of `rows_read` rows, and
    `basis` says which. `column_count` counts also columns that `columns` leaves out. `sample` has a list of cells for
    each of some rows drawn evenly from those read, in the order of `columns`, long cells cut.
    """

    format: DatasetFormat
    rows: Count
    rows_exact: bool
    rows_read: Count
    complete: bool
    basis: Basis
    column_count: Count
    columns: Annotated[list[DatasetColumn], msgspec.Meta(max_length=MOST_COLUMNS)]
    sample: Annotated[
        list[Annotated[list[Cell], msgspec.Meta(max_length=MOST_COLUMNS)]], msgspec.Meta(max_length=MOST_SAMPLE_ROWS)
    ]
    encoding: Encoding | None = None
    separator: Literal[",", ";", "\t", "|"] | None = None
    row_groups: Count | None = None
    variant: Literal["file", "stream"] | None = None


class Dataset(Model):
    """A file of a workspace under a name. `location` is where code in a session of that workspace finds it.

    `load` is the Python expression that reads it with pandas. `stale`: the durable file is not the one that was looked
    at any more, or is gone; null when that is not known, as in lists, which leave `profile` out too.
    """

    id: str
    workspace_id: str
    name: str
    path: str
    location: str
    format: DatasetFormat
    size_bytes: int
    sha256: str
    rows: int
    rows_exact: bool
    column_count: int
    load: str
    created_at: str
    updated_at: str
    stale: bool | None = None
    profile: DatasetProfile | None = None


class Refusal(Model, forbid_unknown_fields=True):
    """Why a file cannot be described, as the sandbox says."""

    reason: Annotated[str, msgspec.Meta(pattern=r"^[a-z_0-9]{1,40}(?![\s\S])")]
    message: Annotated[str, msgspec.Meta(max_length=400)]


class Described(Model, forbid_unknown_fields=True):
    """The sandbox's answer: one of the two."""

    profile: DatasetProfile | None = None
    refused: Refusal | None = None


def load_expression(location: str, profile: DatasetProfile) -> str:
    """The Python expression that reads the file with pandas, imported as `pd`."""
    path = repr(location)
    if profile.format == "parquet":
        return f"pd.read_parquet({path})"
    if profile.format == "arrow" and profile.variant == "stream":
        return f"pa.ipc.open_stream({path}).read_pandas()"
    if profile.format == "arrow":
        return f"pd.read_feather({path})"
    options: dict[str, Any] = {}
    if profile.encoding not in (None, "utf-8"):
        options["encoding"] = profile.encoding
    if profile.format == "jsonl":
        options["lines"] = True
    elif profile.separator not in (None, ","):
        options["sep"] = profile.separator
    reader = "pd.read_json" if profile.format == "jsonl" else "pd.read_csv"
    return f"{reader}({', '.join([path, *(f'{name}={value!r}' for name, value in options.items())])})"
