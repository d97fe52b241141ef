"""A stream's text in lines as a terminal shows it, and what is left of it when its middle was cut. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

_ESCAPE: Final = re.compile(r"\x1b(?:\[[0-9;?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+(?:\x07|\x1b\\)?|[@-Z\\^_])")
_COLOUR: Final = re.compile(r"\x1b\[([0-9;:]*+)m")
_ERASED: Final = "\x1b[2K"
_ERASING: Final = re.compile(r"\x1b\[[012]?K")
_SLOWEST: Final = re.compile(
    r"^The slowest run took [\d.]{1,20} times longer[^\n]{0,200}\n(?=[^\n]{1,200} per loop \()", re.M
)
"""What `%timeit` says of itself in some runs and not in others."""
_CUT: Final = re.compile(r"\[\.\.\. ([\d,]{1,25}) bytes cut \.\.\.\]")
_CUT_SHARE: Final = 0.01
"""By how much two cuts may differ in size: what varies differs in width."""


def text_of(value: Any) -> str:
    """A text as nbformat keeps it: one string, or a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


def is_coloured(text: str) -> bool:
    return _COLOUR.search(text) is not None


def lines_of(text: str, *, coloured: bool = False) -> list[str]:
    """What a terminal shows, without what was overwritten and blanks at ends. `coloured`: colours stay, as marks."""
    if coloured:
        text = _COLOUR.sub(lambda match: f"\u27e8{match[1]}\u27e9", text)
    text = _SLOWEST.sub("", text) if "The slowest run took " in text else text
    lines = [
        _as_overwritten(line) if "\r" in line or "\b" in line else line
        for line in text.replace("\r\n", "\n").split("\n")
    ]
    lines = [_ESCAPE.sub("", line).rstrip() for line in lines]
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def _as_overwritten(line: str) -> str:
    """What is seen once each piece behind a carriage return was written over those before it."""
    line = re.sub("\b+", "\r", line)  # progress bars go back over all of their line
    shown = ""
    for piece in reversed(line.split("\r")):
        visible = _ESCAPE.sub("", piece.rpartition(_ERASED)[2])
        if len(visible) > len(shown):
            shown += visible[len(shown) :]
        if _ERASING.search(piece):
            break
    return shown


def cut_at(lines: Sequence[str]) -> tuple[int, int] | None:
    """Where the line stands that says how much was cut of a text, and how many bytes were."""
    for index, line in enumerate(lines):
        if line.startswith("[... ") and (match := _CUT.fullmatch(line)):
            return index, int(match[1].replace(",", "") or "0")
    return None


def without_cut(texts: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Of texts that were all cut at about the same place, as many lines of head and tail as all have whole."""
    found = [cut for lines in texts if (cut := cut_at(lines)) is not None]
    sizes = [size for _, size in found]
    if len(found) < len(texts) or max(sizes) - min(sizes) > _CUT_SHARE * max(sizes):
        return list(texts)
    head = max(0, min(at for at, _ in found) - 1)
    tail = max(0, min(len(lines) - at for lines, (at, _) in zip(texts, found, strict=True)) - 2)
    return [[*lines[:head], "[... bytes cut ...]", *lines[len(lines) - tail :]] for lines in texts]
