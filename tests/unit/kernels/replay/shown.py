"""Outputs as a kernel publishes them, in one word each."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import png

from kernels.execution.outputs import Output
from kernels.replay import Clock, Comparison, Showing, compare


def weigh(
    recorded: Sequence[Output] | str,
    first: Sequence[Output] | str,
    second: Sequence[Output] | str | None = None,
    *,
    strict: bool = False,
) -> Comparison:
    """How the record stands to one replay or two; a text is what is printed."""
    showings = [Showing([stdout(each)] if isinstance(each, str) else each) for each in (recorded, first)]
    third = None if second is None else Showing([stdout(second)] if isinstance(second, str) else second)
    return compare(*showings, third, strict=strict)


def at(text: str, day: str, start: str, end: str, began: str | None = None) -> Showing:
    """What a cell printed that ran on a day from one time of it to another; `began` is when its run did."""
    return Showing([stdout(text)], Clock.of(f"{day}T{began or start}Z", f"{day}T{start}Z", f"{day}T{end}Z"))


def stdout(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text}


def stderr(text: str) -> Output:
    return {"output_type": "stream", "name": "stderr", "text": text}


def display(**bundle: Any) -> Output:
    """`text_html="..."` for `text/html`; a plus is written `__`."""
    data = {name.replace("__", "+").replace("_", "/", 1): value for name, value in bundle.items()}
    return {"output_type": "display_data", "data": data, "metadata": {}}


def result(count: int, **bundle: Any) -> Output:
    return {**display(**bundle), "output_type": "execute_result", "execution_count": count}


def error(name: str, value: str, *traceback: str) -> Output:
    return {"output_type": "error", "ename": name, "evalue": value, "traceback": list(traceback)}


def picture(rows: Sequence[Sequence[int]], compression: int = 9, **options: Any) -> str:
    """A PNG in base64; grey unless `options` say otherwise."""
    file = io.BytesIO()
    channels = 1 if options.get("greyscale", True) else 3
    options = {"greyscale": True, "bitdepth": 8, **options}
    png.Writer(len(rows[0]) // channels, len(rows), compression=compression, **options).write(file, rows)
    return base64.b64encode(file.getvalue()).decode()
