"""Text as a terminal shows it, to HTML: colours become spans, what was written over is gone. Pure, in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Final

_COLOURS: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_LEVELS: Final = (0, 95, 135, 175, 215, 255)

_COLOUR: Final = re.compile(r"\x1b\[([0-9;:]{0,200})m")
_OTHER: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*(?:[@-l]|[n-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@dataclass
class _Look:
    """What holds for the text that comes next; a colour is a class's name or an rgb() value."""

    foreground: str = ""
    background: str = ""
    bold: bool = False
    underline: bool = False
    inverse: bool = False

    def take(self, codes: list[int]) -> None:
        """Follow the numbers of one escape sequence."""
        while codes:
            code = codes.pop(0)
            if code == 0:
                self.__init__()  # type: ignore[misc]
            elif code in _SWITCHES:
                setattr(self, *_SWITCHES[code])
            elif code in (38, 48):
                setattr(self, "foreground" if code == 38 else "background", _read_extended(codes))
            elif code in (39, 49):
                setattr(self, "foreground" if code == 39 else "background", "")
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self.foreground = _name_colour(code % 10, intense=code >= 90)
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self.background = _name_colour(code % 10, intense=code >= 100)

    def around(self, text: str) -> str:
        """The text, escaped, in a span when it looks like anything."""
        front, back = self.foreground, self.background
        if self.inverse:
            front, back = back or "inverse", front or "inverse"
        classes, styles = [], []
        for colour, end, rule in ((front, "fg", "color"), (back, "bg", "background-color")):
            if colour.startswith("rgb"):
                styles.append(f"{rule}: {colour}")
            elif colour:
                classes.append(f"ansi-{colour}-{end}")
        classes += ["ansi-bold"] * self.bold + ["ansi-underline"] * self.underline
        if not classes and not styles:
            return escape(text)
        attributes = (f' class="{" ".join(classes)}"' if classes else "") + (
            f' style="{"; ".join(styles)}"' if styles else ""
        )
        return f"<span{attributes}>{escape(text)}</span>"


_SWITCHES: Final[dict[int, tuple[str, bool]]] = {
    1: ("bold", True),
    4: ("underline", True),
    5: ("bold", True),
    7: ("inverse", True),
    21: ("bold", False),
    22: ("bold", False),
    24: ("underline", False),
    27: ("inverse", False),
}


def colour_text(text: str) -> str:
    """HTML of a stream, a traceback or a plain text."""
    pieces = _COLOUR.split(_overwrite(_OTHER.sub("", text)))
    look = _Look()
    made = [look.around(_CONTROL.sub("", pieces[0]))]
    for codes, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        look.take([int(each[:4] or 0) for each in codes.replace(":", ";").split(";")])
        if piece:
            made.append(look.around(_CONTROL.sub("", piece)))
    return "".join(made)


def _overwrite(text: str) -> str:
    """Of each line what came after its last carriage return, as of a progress bar."""
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def _name_colour(number: int, *, intense: bool) -> str:
    return _COLOURS[number] + ("-intense" if intense else "")


def _read_extended(codes: list[int]) -> str:
    """One of the 256 colours, or red, green and blue; what cannot be meant is no colour."""
    kind = codes.pop(0) if codes else None
    if kind == 2 and len(codes) >= 3:
        rgb = [codes.pop(0) for _ in range(3)]
        return f"rgb({rgb[0]}, {rgb[1]}, {rgb[2]})" if max(rgb) < 256 else ""
    if kind != 5 or not codes:
        codes.clear()
        return ""
    number = codes.pop(0)
    if number < 16:
        return _name_colour(number % 8, intense=number >= 8)
    if number < 232:
        number -= 16
        return f"rgb({_LEVELS[number // 36]}, {_LEVELS[number // 6 % 6]}, {_LEVELS[number % 6]})"
    grey = 8 + (number - 232) * 10
    return f"rgb({grey}, {grey}, {grey})" if number < 256 else ""
