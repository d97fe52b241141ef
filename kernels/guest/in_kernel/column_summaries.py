"""What is in the columns of a table: how numbers and times are spread, which other values are the most frequent.

Loaded by `kernel_main.py` from its directory, when rows are asked for with them, and called in the thread that runs
code. Nothing is imported for it: who has a table of numpy's or pandas' has them. An error is one column's alone.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import collections
import math
import sys
import time
from collections.abc import Callable
from typing import Any

MOST_ROWS = 1_000_000
"""That are looked at: of more, evenly chosen ones."""
MOST_BINS = 20
MOST_FREQUENT = 10
MOST_CHARACTERS = 80
"""Of a value, an edge and a problem each."""
SECONDS = 0.5
"""A column that was begun is finished; the next one is not begun after this."""

Text = Callable[[Any, int], str]


def summarize(value: Any, columns: int, text: Text) -> dict[str, Any]:
    """What the reply says of so many columns, the first; nothing of tables other than numpy's and pandas'."""
    numpy: Any = sys.modules.get("numpy")
    is_frame = hasattr(value, "iloc")
    if numpy is None or not (is_frame or isinstance(value, numpy.ndarray)):
        return {}
    until = time.monotonic() + SECONDS
    step = max(-(-len(value) // MOST_ROWS), 1)
    found: list[dict[str, Any]] = []
    for at in range(columns):
        if time.monotonic() > until:
            break
        try:
            about = _of_pandas(numpy, value, at, step) if is_frame else _of_array(numpy, value, at, step)
            found.append(_bound(about, text))
        except Exception as error:  # of the session's code, which may also say nothing of it
            found.append({"problem": _describe(error, text)})
    return {"summaries": found, "summarized": -(-len(value) // step), "stopped": len(found) < columns}


def _bound(about: dict[str, Any], text: Text) -> dict[str, Any]:
    """Values as text that has a bound."""
    for key in ("minimum", "maximum"):
        if key in about:
            about[key] = text(about[key], MOST_CHARACTERS)
    if "edges" in about:
        about["edges"] = [text(each, MOST_CHARACTERS) for each in about["edges"]]
    if "frequent" in about:
        about["frequent"] = [(text(each, MOST_CHARACTERS), int(count)) for each, count in about["frequent"]]
    return about


def _describe(error: Exception, text: Text) -> str:
    name = type(error).__name__
    try:
        return text(f"{name}: {error}", MOST_CHARACTERS)
    except Exception:
        return text(name, MOST_CHARACTERS)


def _of_pandas(numpy: Any, value: Any, at: int, step: int) -> dict[str, Any]:
    column = (value.iloc[:, at] if len(value.shape) > 1 else value).iloc[::step]
    present = column.dropna()
    missing, kind = len(column) - len(present), getattr(column.dtype, "kind", "O")
    if kind in "iuf":
        return {"missing": missing, **_spread(numpy, present.to_numpy(dtype=f"{kind}8"))}
    if kind in "mM":
        unit = None if isinstance(column.dtype, numpy.dtype) else f"{kind}8[{getattr(column.dtype, 'unit', 'ns')}]"
        return {"missing": missing, **_spread(numpy, present.to_numpy(dtype=unit))}
    counts = present.value_counts()
    counts = counts[counts > 0]  # a category without rows is none that is here
    frequent = list(zip(counts.index[:MOST_FREQUENT], counts.iloc[:MOST_FREQUENT]))
    return {"missing": missing, "distinct": len(counts), "frequent": frequent}


def _of_array(numpy: Any, value: Any, at: int, step: int) -> dict[str, Any]:
    column = value[::step, at] if len(value.shape) > 1 else value[::step]
    held = column.compressed() if hasattr(column, "compressed") else column  # without what a mask hides
    if held.dtype.kind in "iufmM":
        present = held[~(numpy.isnat if held.dtype.kind in "mM" else numpy.isnan)(held)]
        return {"missing": len(column) - len(present), **_spread(numpy, present)}
    items = [each for each in held.tolist() if not (each is None or (type(each) is float and math.isnan(each)))]
    counts = collections.Counter(items)
    frequent = counts.most_common(MOST_FREQUENT)
    return {"missing": len(column) - len(items), "distinct": len(counts), "frequent": frequent}


def _spread(numpy: Any, values: Any) -> dict[str, Any]:
    """Bins of one width from the least to the greatest of numbers or times, of which none is missing."""
    if not len(values):
        return {}
    kind = values.dtype.kind
    if kind == "f":
        about = {"minimum": values.min(), "maximum": values.max()}
        numbers = values[numpy.isfinite(values)].astype("f8")
        if not len(numbers):
            return about
        counts, edges = _count(numpy, numbers, float(numbers.min()), float(numbers.max()))
        return {**about, "counts": counts, "edges": [f"{each:.15g}" for each in edges]}
    # As distances from the least, which are exact without a sign, however far apart the ends are.
    numbers = values.astype("i8" if kind in "mM" else f"{kind}8")
    low, high = int(numbers.min()), int(numbers.max())
    distances = (numbers.astype("u8") - numpy.uint64(low % 2**64)).astype("f8")
    counts, edges = _count(numpy, distances, 0.0, float(high - low))
    ends = [min(low + int(each), high) for each in edges]
    if kind in "mM":
        moments = numpy.array([low, high, *ends], "i8").astype(values.dtype)
        least, greatest, *texts = [_say_time(each) for each in moments]
        return {"minimum": least, "maximum": greatest, "counts": counts, "edges": texts}
    texts = [str(each) for each in ends] if high - low > 1_000 else [f"{low + each:.15g}" for each in edges]
    return {"minimum": low, "maximum": high, "counts": counts, "edges": texts}


def _count(numpy: Any, numbers: Any, low: float, high: float) -> tuple[list[int], list[float]]:
    """Counts and edges; of numbers that are too close for more, or too far apart, one bin."""
    if 0 < high - low < float("inf"):
        try:
            counts, edges = numpy.histogram(numbers, bins=MOST_BINS, range=(low, high))
        except ValueError:
            pass
        else:
            return counts.tolist(), edges.tolist()
    return [len(numbers)], [low, high]


def _say_time(moment: Any) -> str:
    """As ISO 8601 has it, without zeros at the end; a duration as Python says it."""
    if moment.dtype.kind == "m":
        return str(moment.astype("m8[us]").item())
    whole, point, fraction = str(moment).partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}{point}{fraction}" if fraction else whole
