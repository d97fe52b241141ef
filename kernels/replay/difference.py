"""A unified diff of two prepared texts, bounded in lines, in line length and in bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

import msgspec

from kernels.replay.alignment import common

MOST_DIFF: Final = 16_000
"""Characters of one cell's diff."""
_MOST_LINES: Final = 300
_LONGEST_LINE: Final = 300
_CONTEXT: Final = 3
_MORE: Final = "[... the rest of the difference is not shown ...]"


class Lines(msgspec.Struct, frozen=True):
    """A part of what is shown, and the words that distinguish its lines in a diff."""

    shown: Sequence[str]
    keys: Sequence[str]


def make_unified_diff(recorded: Lines, replayed: Lines, what: str, most: int = MOST_DIFF) -> str:
    """What differs between two texts of a cell; lines are as they were shown, matched by their keys."""
    start, _ = common(recorded.keys, replayed.keys)
    first = max(0, start - _CONTEXT)
    last = first + _MOST_LINES
    matcher = SequenceMatcher(None, recorded.keys[first:last], replayed.keys[first:last], autojunk=False)
    made = [f"--- recorded {what}", f"+++ replayed {what}"]
    room = most - sum(map(len, made))
    for line in _hunks(matcher, recorded.shown[first:last], replayed.shown[first:last], first):
        room -= len(line) + 1
        if room < len(_MORE):
            made.append(_MORE)
            return "\n".join(made)
        made.append(line)
    if max(len(recorded.keys), len(replayed.keys)) > last and recorded.keys[last:] != replayed.keys[last:]:
        made.append(_MORE)
    return "\n".join(made)


def _hunks(matcher: SequenceMatcher[str], left: Sequence[str], right: Sequence[str], offset: int) -> Iterator[str]:
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        (_, a, _, b, _), (_, _, c, _, d) = group[0], group[-1]
        yield f"@@ -{offset + a + 1},{c - a} +{offset + b + 1},{d - b} @@"
        for kind, start, end, there, until in group:
            if kind == "equal":
                yield from (" " + _short(line) for line in right[there:until])
                continue
            mine, theirs = left[start:end], right[there:until]
            column = _first_column(mine, theirs)
            yield from ("-" + _short(line, column) for line in mine)
            yield from ("+" + _short(line, column) for line in theirs)


def _short(line: str, column: int = 0) -> str:
    """A line, or the part of it around where it differs."""
    if len(line) <= _LONGEST_LINE:
        return line
    start = max(0, column - _LONGEST_LINE // 3)
    end = start + _LONGEST_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


def _first_column(mine: Sequence[str], theirs: Sequence[str]) -> int:
    if len(mine) != 1 or len(theirs) != 1:
        return 0
    one, other = mine[0], theirs[0]
    most = min(len(one), len(other))
    return next((index for index in range(most) if one[index] != other[index]), most)
