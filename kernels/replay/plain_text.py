"""Two texts line by line: what a terminal would show, volatile parts aside, numbers within their last digits. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kernels.replay.budget import Budget
from kernels.replay.volatile import Moments, masked, without_identifiers

_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]*+[ -/]*+[@-~]|\][^\x07\x1b]*+\x07?|[@-Z\\^_])")
_NUMBER: Final = re.compile(r"((?<![\w.])[-+]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d{1,4})?(?!\w))")
_BLANK: Final = re.compile(r"[ \t]++")
_CUT: Final = re.compile(r"\[\.\.\. ([\d,]{1,25}) bytes cut \.\.\.\]")
_RELATIVE: Final = 1e-9
_SHOWN_DIGITS: Final = 6
_CUT_SHARE: Final = 0.01
"""By how much two cuts may differ in size: masked parts differ in width."""


@dataclass(frozen=True)
class Manner:
    """How lines are compared. `dates`: dates of an unknown time are "now". `identifiers`: made-up ones count too."""

    moments: Moments
    dates: bool = True
    identifiers: bool = True


@dataclass(frozen=True)
class Lines:
    """A part of what is shown, and the words by which its lines are told apart in a diff."""

    shown: Sequence[str]
    keys: Sequence[str]


def lines_of(text: str) -> list[str]:
    """A text as lines of a terminal: without colours, with what a carriage return overwrote gone, ends trimmed."""
    text = _ANSI.sub("", text).replace("\r\n", "\n")
    lines = text.split("\n")
    if "\r" in text:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    lines = [line.rstrip() for line in lines]
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    return lines[:end]


def differing(
    recorded: Sequence[str], replayed: Sequence[str], manner: Manner, budget: Budget, what: str
) -> tuple[Lines, Lines] | None:
    """Both sides prepared for a diff, or None when they are the same."""
    recorded, replayed = _without_cut(recorded, replayed)
    start, end = _common(recorded, replayed)
    left, right = recorded[start : len(recorded) - end], replayed[start : len(replayed) - end]
    if not left and not right:
        return None
    if not budget.take_text(sum(map(len, left)) + sum(map(len, right)), what):
        return Lines(recorded, recorded), Lines(replayed, replayed)
    keys = [_key(line, manner.moments.recorded, manner) for line in left]
    others = [_key(line, manner.moments.replayed, manner) for line in right]
    if len(keys) == len(others):
        others = [one if one == other or _close(one, other) else other for one, other in zip(keys, others, strict=True)]
        if keys == others:
            return None
    before, after = recorded[:start], recorded[len(recorded) - end :]
    return Lines(recorded, [*before, *keys, *after]), Lines(replayed, [*before, *others, *after])


def same_number(one: str, other: str) -> bool:
    """Whether two numbers as they are written mean the same: integers exactly, fractions within their last digit."""
    if one == other:
        return True
    fractions = any(mark in one + other for mark in ".eE")
    try:
        left, right = float(one), float(other)
    except ValueError:
        return False
    if not fractions or not (math.isfinite(left) and math.isfinite(right)):
        return left == right and len(one) < 16
    if math.isclose(left, right, rel_tol=_RELATIVE):
        return True
    unit = max(_last_place(one), _last_place(other))
    digits = min(_significant(one), _significant(other))
    return digits >= _SHOWN_DIGITS and abs(left - right) <= 1.01 * unit


def _key(line: str, day: int | None, manner: Manner) -> str:
    if manner.identifiers:
        return masked(line, day, dates=manner.dates)
    return without_identifiers(masked(line, day, dates=manner.dates))


def _close(one: str, other: str) -> bool:
    """Whether two lines differ only in the last digits of numbers, and in the blanks that line them up."""
    left, right = _NUMBER.split(one), _NUMBER.split(other)
    if len(left) != len(right):
        return False
    for index, (mine, theirs) in enumerate(zip(left, right, strict=True)):
        if mine == theirs:
            continue
        same = same_number(mine, theirs) if index % 2 else _BLANK.sub(" ", mine) == _BLANK.sub(" ", theirs)
        if not same:
            return False
    return True


def _last_place(number: str) -> float:
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    return 10.0 ** max(-300, min(300, int(exponent or "0") - decimals))


def _significant(number: str) -> int:
    return len(number.lower().partition("e")[0].lstrip("+-").replace(".", "").lstrip("0"))


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many lines are equal at the start, and how many of the others at the end."""
    most = min(len(one), len(other))
    start = next((index for index in range(most) if one[index] != other[index]), most)
    most -= start
    end = next((index for index in range(most) if one[-1 - index] != other[-1 - index]), most)
    return start, end


def _without_cut(one: Sequence[str], other: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Of two texts that were both cut: as many lines of head and tail as both have whole, when the cuts are alike."""
    found = [_cut_of(lines) for lines in (one, other)]
    if found[0] is None or found[1] is None:
        return one, other
    (at, cut), (there, their_cut) = found[0], found[1]
    if abs(cut - their_cut) > _CUT_SHARE * max(cut, their_cut):
        return one, other
    head = max(0, min(at, there) - 1)
    tail = max(0, min(len(one) - at, len(other) - there) - 2)
    mark = ["[... bytes cut ...]"]
    return (
        [*one[:head], *mark, *one[len(one) - tail :]],
        [*other[:head], *mark, *other[len(other) - tail :]],
    )


def _cut_of(lines: Sequence[str]) -> tuple[int, int] | None:
    for index, line in enumerate(lines):
        if line.startswith("[... ") and (match := _CUT.fullmatch(line)):
            return index, int(match[1].replace(",", "") or "0")
    return None
