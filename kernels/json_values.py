"""How many values a JSON text holds, counted without making them. Pure.

`{},{},...` takes twenty times its size once it is decoded, and seconds for every few million values: code that
decodes what a sandbox sent counts first.
"""

from __future__ import annotations

import re
from typing import Any, Final

_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or the rest of the text when one does not end: no byte is looked at twice."""
_SEPARATORS: Final = (b",", b":", b"[", b"{")


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


def _separators(data: bytes, start: int, end: int) -> int:
    return sum(data.count(each, start, end) for each in _SEPARATORS)
