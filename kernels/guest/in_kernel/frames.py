"""Rows of a table that code holds under a name, as text with the types of its columns: asked for between cells.

Loaded by `kernel_main.py` from its directory, at the first request, and called in the thread that runs code. Tables are
asked as any code would ask them (`iloc`, `dtypes`), so code of the session's may run: a subclass, what an object in a
cell prints as. Whoever may look so may run code, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_COLUMNS = 200
MOST_ROWS = 1_000
MOST_CHARACTERS = 200
"""Of a cell, of a column's name and of its type each."""
MOST_BYTES = 1_000_000
"""Of all cells of an answer, about: then it has fewer rows."""


def show(names: dict[str, Any], asked: dict[str, Any], load: Callable[[str], Any]) -> dict[str, Any]:
    """The reply's content. Of an array or a series the one column has no name. `load` finds another module."""
    name, first, count = str(asked["name"]), int(asked["first"]), min(int(asked["count"]), MOST_ROWS)
    if name not in names:
        return {"status": "ok", "found": False}
    value = names[name]
    if type(value).__name__ == "matrix" and hasattr(value, "A"):
        value = value.A  # numpy's as a plain array: each of its rows would be a matrix again
    if hasattr(value, "iloc"):
        columns, index, rows = _of_pandas(value, first, count)
    elif hasattr(value, "iter_rows") and hasattr(value, "dtypes"):  # the sheets of openpyxl have rows, too
        columns, index, rows = _of_polars(value, first, count)
    elif hasattr(value, "shape") and len(value.shape) in (1, 2):
        columns, index, rows = _of_array(value, first, count)
    else:
        return {"status": "ok", "found": True, "table": False}
    shown: list[list[str]] = []
    size = 0
    for at, row in enumerate(rows):
        cells = [_text(index[at]), *map(_text, row)]
        size += sum(len(each.encode()) for each in cells)
        if shown and size > MOST_BYTES:
            break
        shown.append(cells)
    total, wide = len(value), value.shape[1] if len(value.shape) > 1 else 1
    named = [[_text(label), _text(kind)] for label, kind in columns]
    table = {"table": True, "columns": named, "rows": shown, "total": total, "wide": wide}
    about = load("column_summaries").summarize(value, len(named), _text) if asked.get("histograms") else {}
    return {"status": "ok", "found": True, **table, **about}


def _of_pandas(value: Any, first: int, count: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Columns with types, labels, rows; of another library's frames with `iloc` what is the same there."""
    part = value.iloc[first : first + count]
    if len(value.shape) == 1:
        return (
            [(value.name if value.name is not None else "", value.dtype)],
            list(part.index),
            [[each] for each in part],
        )
    part = part.iloc[:, :MOST_COLUMNS]
    labels, kinds = list(part.columns), list(part.dtypes)
    cells = [list(part.iloc[:, at]) for at in range(len(labels))]
    columns = [(label, kinds[at]) for at, label in enumerate(labels)]
    return columns, list(part.index), [[column[at] for column in cells] for at in range(len(part))]


def _of_polars(value: Any, first: int, count: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Columns with types, numbers of rows in the place of labels, rows."""
    part = value[first : first + count, :MOST_COLUMNS]
    columns = list(zip(part.columns, part.dtypes, strict=True))
    return columns, list(range(first, first + len(part))), [list(row) for row in part.iter_rows()]


def _of_array(value: Any, first: int, count: int) -> tuple[list[Any], list[Any], list[Any]]:
    part = value[first : first + count]
    labels = list(range(first, first + len(part)))
    if len(value.shape) == 1:
        return [("", value.dtype)], labels, [[each] for each in part]
    part = part[:, :MOST_COLUMNS]
    return [(at, value.dtype) for at in range(part.shape[1])], labels, [list(row) for row in part]


def _text(value: Any, most: int = MOST_CHARACTERS) -> str:
    """Text of bounded length that any message can carry."""
    text = str(value)
    if len(text) > most:
        text = text[: most - 3] + "..."
    return text.encode("utf-8", "backslashreplace").decode()
