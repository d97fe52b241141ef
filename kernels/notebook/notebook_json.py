"""The bytes of a notebook file to the JSON object in them, within bounds. Pure; knows no notebooks beyond the word.

Tools write what is no JSON (NaN, numbers too large, half surrogate pairs, a byte order mark): that is read all
the same, and what comes out is always JSON that can be written again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

import msgspec

from kernels.errors import InvalidNotebook
from kernels.json_values import more_values_than

NOTEBOOK_BYTES: Final = 100_000_000
MOST_VALUES: Final = 5_000_000
"""Values of the JSON text: each takes up to a hundred bytes once it is decoded, whatever its size in the file."""
MOST_LEVELS: Final = 100
"""Of objects and lists in each other: what reads a notebook goes down into them by recursion."""

_BEGINNINGS: Final = {
    b"\x1f\x8b": "it is gzipped; unpack it first",
    b"PK\x03\x04": "it is a zip archive; unpack it first",
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
    b"<": "it is HTML or XML; download the notebook itself",
}
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


def read_object(data: bytes, most_bytes: int = NOTEBOOK_BYTES) -> dict[str, Any]:
    """The JSON object that the file holds; raises `InvalidNotebook`."""
    return _read(data, most_bytes, _decode)


def read_as_written(data: bytes, most_bytes: int = NOTEBOOK_BYTES) -> dict[str, Any]:
    """The same with every number and text as it stands in the file, to be held against a hash of it."""
    return _read(data, most_bytes, json.loads)


def _read(data: bytes, most_bytes: int, decode: Callable[[bytes], Any]) -> dict[str, Any]:
    if len(data) > most_bytes:
        raise InvalidNotebook(f"the notebook has {len(data):,} bytes, and at most {most_bytes:,} are read")
    data = data.removeprefix(_BYTE_ORDER_MARK)
    for beginning, why in _BEGINNINGS.items():
        if data.startswith(beginning):
            raise InvalidNotebook(f"this is no notebook: {why}")
    if not data.strip():
        raise InvalidNotebook("the notebook is empty: a file with no bytes but white space is no notebook")
    if more_values_than(MOST_VALUES, data):
        raise InvalidNotebook(f"the notebook holds more than {MOST_VALUES:,} JSON values; clear its largest outputs")
    try:
        made = decode(data)
    except RecursionError:
        raise _too_deep() from None
    except UnicodeDecodeError as error:
        raise InvalidNotebook(f"the notebook is not UTF-8: {error.reason} at byte {error.start:,}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno:,}, column {error.colno:,}"
        raise InvalidNotebook(f"the notebook is not JSON: {error.msg} in {place}; is the file whole?") from None
    except ValueError as error:
        raise InvalidNotebook(f"the notebook is not JSON: {str(error)[:200]}") from None
    if not isinstance(made, dict):
        raise InvalidNotebook("this is no notebook: a notebook is a JSON object with a list of cells")
    _require_levels(made)
    return made


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return _decode_leniently(data)


def _decode_leniently(data: bytes) -> Any:
    """What msgspec refuses and Python's reader takes; the second reading is of text that UTF-8 can carry."""
    made = json.loads(data, parse_constant=_nothing, parse_float=_number, parse_int=_number)
    return msgspec.json.decode(json.dumps(made, ensure_ascii=False).encode("utf-8", "replace"))


def _nothing(_: str) -> None:
    """For NaN and the infinities, which JSON has no word for."""


def _number(text: str) -> int | float | None:
    if len(text) < 19 and text.lstrip("-").isdigit():
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else None


def _require_levels(made: dict[str, Any]) -> None:
    level: list[Any] = [made]
    for _ in range(MOST_LEVELS):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inner for each in values if isinstance(each, dict | list)]
        if not level:
            return
    raise _too_deep()


def _too_deep() -> InvalidNotebook:
    return InvalidNotebook(f"the notebook is nested in more than {MOST_LEVELS} levels")
