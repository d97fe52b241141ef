"""Results told as data as well, for callers that look for that: tables, charts, lists and dictionaries.

Loaded by `kernel_main.py` from its directory when the service first names a context. Nothing is imported for it that
code has not imported itself.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import json
import sys
from typing import Any

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

MOST_CELLS = 100_000
"""Of a table that is told as data."""
MOST_CHARACTERS = 1_000_000
"""Of a value that is told as data."""
CHARTS = "e2b_charts"
"""The package that finds out what a figure shows; code or the image may have it, and without it there are no charts."""


class DataFormatter(BaseFormatter):
    """A data frame's columns as lists."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict,)


class ChartFormatter(BaseFormatter):
    """What a figure of matplotlib's shows."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict,)


def add(shell: Any) -> None:
    """Register them."""
    display = shell.display_formatter
    data, chart = DataFormatter(parent=display), ChartFormatter(parent=display)
    for module in ("pandas", "pandas.core.frame"):  # pandas 3 and earlier ones
        data.for_type_by_name(module, "DataFrame", describe_table)
    chart.for_type_by_name("matplotlib.figure", "Figure", describe_chart)
    display.formatters["e2b/data"], display.formatters["e2b/chart"] = data, chart
    for kind in (list, dict):
        display.formatters["application/json"].for_type(kind, as_json)


def describe_table(frame: Any) -> Any:
    """None for one that is large."""
    if frame.size > MOST_CELLS:
        return None
    return as_json({str(name): column.tolist() for name, column in frame.items()})


def describe_chart(figure: Any) -> Any:
    """None where the package is not there."""
    try:
        __import__(CHARTS)
    except ImportError:
        return None
    return sys.modules[CHARTS].chart_figure_to_dict(figure)


def as_json(value: Any) -> Any:
    """The value as JSON has it, dates as text; None for what it has not, and for what is large."""
    try:
        text = json.dumps(value, allow_nan=False, default=_format_date)
    except (TypeError, ValueError, RecursionError):
        return None
    return json.loads(text) if len(text) <= MOST_CHARACTERS else None


def _format_date(value: Any) -> str:
    if not hasattr(value, "isoformat"):
        raise TypeError
    return str(value.isoformat())
