"""How many values a JSON text holds, counted without making them, and what strict JSON can carry of one. Pure.

`{},{},...` takes twenty times its size once it is decoded, and seconds for every few million values: code that
decodes what a sandbox sent counts first.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or the rest of the text when one does not end: no byte is looked at twice."""
_SEPARATORS: Final = (b",", b":", b"[", b"{")
_MOST_LEVELS: Final = 100
"""Of objects and lists in each other: what puts a notebook together goes down into them by recursion."""
_TOO_DEEP: Final = f"[not kept: nested in more than {_MOST_LEVELS} levels]"


def more_values_than(most: int, data: bytes) -> bool:
    """Whether the text holds more than `most` values and keys; what is in its strings does not count."""
    if len(data) <= most or _separators(data, 0, len(data)) < most:
        return False
    count, end = 1, 0
    for string in _STRING.finditer(data):
        count += 1 + _separators(data, end, string.start())
        end = string.end()
        if count > most:
            return True
    return count + _separators(data, end, len(data)) > most


def values_in(value: Any) -> int:
    """How many values there are in a decoded one, itself included."""
    count, level = 1, [value]
    while level:
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        count += sum(map(len, inner))
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
    return count


def clean_json(value: Any) -> tuple[Any, int]:
    """A value that strict JSON can carry, NaN as null, and its size; None when there is no such value."""
    if _is_too_deep(value):
        return _TOO_DEEP, len(_TOO_DEEP)
    try:
        encoded = msgspec.json.encode(value)
        return msgspec.json.decode(encoded), len(encoded)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, ValueError):
        return None, 4


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_MOST_LEVELS):
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return False
    return True


def _separators(data: bytes, start: int, end: int) -> int:
    return sum(data.count(each, start, end) for each in _SEPARATORS)
