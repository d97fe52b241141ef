"""A value that code holds under a name as a whole: an array as a picture, anything as its text; between cells.

Loaded by `kernel_main.py` from its directory, at each request, and called in the thread that runs code: a value's own
`__repr__` may run. Nothing is imported for a picture: who has an array of numpy's has numpy.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import base64
import sys
from typing import Any

MOST_PIXELS = 256
"""Of a picture, each way: of more rows or columns evenly chosen ones."""
MOST_CHARACTERS = 100_000
DEEPEST = 100
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}


def show(names: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """The reply's content; `picture` is None for what cannot be one."""
    name = str(asked["name"])
    if name not in names:
        return {"status": "ok", "found": False}
    if asked["show"] == "picture":
        return {"status": "ok", "found": True, "picture": draw(names[name])}
    text = Text()
    text.write(names[name])
    return {"status": "ok", "found": True, "text": text.join(), "cut": text.cut}


class Text:
    """What `repr` says, in so many characters: of Python's own collections no more is made than has room."""

    def __init__(self) -> None:
        self.cut = False
        self._pieces: list[str] = []
        self._room = MOST_CHARACTERS
        self._within: list[int] = []

    def write(self, value: Any) -> None:
        """Add a value, with what is in it."""
        kind = type(value)
        if kind in BRACKETS and value:
            self._write_items(value, *BRACKETS[kind])
        elif kind is str or kind is bytes:
            self._add(repr(value[: self._room]))  # the quotes have no room then
        else:
            self._add(_describe(value))

    def join(self) -> str:
        """All of it, as any message can carry it."""
        return "".join(self._pieces).encode("utf-8", "backslashreplace").decode()[:MOST_CHARACTERS]

    def _write_items(self, value: Any, first: str, last: str) -> None:
        if id(value) in self._within or len(self._within) >= DEEPEST:
            self.cut = self.cut or id(value) not in self._within
            self._add(f"{first}...{last}")
            return
        self._within.append(id(value))
        self._add(first)
        for at, each in enumerate(value):
            if not self._room:
                break
            if at:
                self._add(", ")
            self.write(each)
            if type(value) is dict:
                self._add(": ")
                self.write(value[each])
        self._add(f",{last}" if type(value) is tuple and len(value) == 1 else last)
        self._within.pop()

    def _add(self, piece: str) -> None:
        self.cut = self.cut or len(piece) > self._room
        self._pieces.append(piece[: self._room])
        self._room -= len(self._pieces[-1])


def _describe(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:
        if type(value) is not int:
            raise
        return hex(value)  # it has more digits than Python writes


def draw(value: Any) -> dict[str, Any] | None:
    """Rows of pixels, each grey or red, green and blue, and how opaque: 0 where a number is missing.

    Grey is from the least finite number that is drawn to the greatest. Colours are from 0 to 255 where they are whole
    numbers, from 0 to 1 otherwise, as `imshow` of matplotlib takes them.
    """
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or value.dtype.kind not in "biuf":
        return None
    is_colour = len(value.shape) == 3 and value.shape[2] in (3, 4)
    if not (is_colour or len(value.shape) == 2) or min(value.shape[:2]) < 2:
        return None
    down, across = (-(-length // MOST_PIXELS) for length in value.shape[:2])
    part = value[::down, ::across]
    numbers = part.astype("f8")
    # What a mask hides is missing, and a matrix is a plain array.
    numbers = numbers.filled(numpy.nan) if hasattr(numbers, "filled") else numpy.asarray(numbers)
    known = numbers[numpy.isfinite(numbers)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    with numpy.errstate(all="ignore"):
        if is_colour:
            scaled = numbers if part.dtype.kind in "iu" else numbers * 255
        else:  # by halves: the whole distance may be more than a number can be
            half = high / 2 - low / 2
            scaled = (numbers / 2 - low / 2) / half * 255 if half else numbers * 0 + 127
    levels = numpy.clip(numpy.nan_to_num(scaled, posinf=255, neginf=0), 0, 255).round()
    there = ~numpy.isnan(numbers)
    if is_colour:
        opaque = numpy.where(there.all(axis=2), levels[:, :, 3] if value.shape[2] == 4 else 255, 0)
        pixels = numpy.dstack([levels[:, :, :3], opaque])
    else:
        pixels = numpy.dstack([levels, there * 255])
    ends = {"minimum": f"{low:.15g}", "maximum": f"{high:.15g}"} if known.size else {"minimum": "", "maximum": ""}
    data = base64.b64encode(pixels.astype("u1").tobytes()).decode()
    height, width, channels = (int(each) for each in pixels.shape)
    size = {"height": height, "width": width, "channels": channels, "down": down, "across": across}
    return {**size, **ends, "data": data}
