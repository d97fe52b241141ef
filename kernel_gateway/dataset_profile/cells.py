"""Values of any type as JSON holds them, short and clean: numbers, truth, texts of bounded length, null."""

from __future__ import annotations

import json
import math
from typing import Any

LONGEST_TEXT = 100
LONGEST_NAME = 200


def cut_text(value: str, longest: int = LONGEST_TEXT) -> str:
    """Text that every JSON reader takes, cut with three dots."""
    cut = value if len(value) <= longest else value[:longest] + "..."
    return cut.encode("utf-8", "replace").decode()


def convert_value(value: Any) -> Any:
    """A Python value; what JSON has no form for becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _convert_number(value)
    if isinstance(value, bytes):
        return cut_text(repr(value[:LONGEST_TEXT]))
    if isinstance(value, list | dict):
        return cut_text(json.dumps(_outline(value, 3), default=str, ensure_ascii=False))
    return cut_text(str(value))


def _convert_number(value: float) -> Any:
    if isinstance(value, int):
        return (
            value
            if value.bit_length() <= 64
            else cut_text(str(value) if value.bit_length() < 4096 else "a huge integer")
        )
    return value if math.isfinite(value) else None if math.isnan(value) else str(value)


def _outline(value: Any, levels: int) -> Any:
    """The beginning of a nested value, so that a large one is not written out to be cut."""
    if isinstance(value, str):
        return cut_text(value)
    if isinstance(value, list):
        return [_outline(each, levels - 1) for each in value[:20]] if levels else "[...]"
    if isinstance(value, dict):
        pairs = list(value.items())[:20]
        return {cut_text(str(key)): _outline(each, levels - 1) for key, each in pairs} if levels else "{...}"
    return value


def convert_scalar(scalar: Any) -> Any:
    """A scalar of Arrow; one that Python has no value for, as a time in nanoseconds, becomes the text Arrow has."""
    try:
        return convert_value(scalar.as_py())
    except Exception:
        try:
            return cut_text(str(scalar.cast("string").as_py()))
        except Exception:
            return None
