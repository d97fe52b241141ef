"""What two replays under the same inputs say about a difference between the first of them and the record. Pure.

A *place* is a token, found by alignment. A place that varies between the replays is noise, and there, and only there, a
difference from the record is put aside: when what the record shows is plausible by what the replays show. What both
replays show alike and the record does not is different. A time is put aside where it lies in its own run.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import msgspec

from kernels.replay.alignment import Alignment, Span, find_reordered
from kernels.replay.tokens import Clock, Kind, Token, amount, has_same_time_of_day, number, tokens_of

FROM_RUN_TO_RUN: Final = " from run to run"
_REACH: Final = 0.5
"""How far outside of what two replays span the record may lie, in parts of their distance.

Two runs say little about how far a third may lie off. A wider reach would take a real change for chance now and then.
"""
_FACTOR: Final = 50.0
"""By which factor a duration or a rate may differ from those of the replays: other machines, cold caches."""
_BRIEF_SECONDS: Final = 0.1
"""A duration up to which any other one is plausible: one stall is as long."""
_LONGEST_SECONDS: Final = 3_600.0
"""Up to which `0:12:30` that varies is a duration."""
_FULL_DIGITS: Final = 15
"""Significant digits from which on a fraction is written as exactly as the machine has it."""
_LEAST_DECIMALS: Final = 6
_ROUNDING: Final = 1e-12
_COUNTED: Final = frozenset({"pid", "ppid", "process", "port", "thread", "tid"})
_LARGEST_COUNT: Final = 1 << 22
_LONG: Final = 12
"""Digits from which on a whole number that varies is an identity, such as that of an object."""


class Standing(IntEnum):
    """How the record stands to the replays, from the best to the worst."""

    SAME = 0
    UNKNOWN = 1
    """Nothing shows whether it is the same."""
    VARIES = 2
    """The replays differ from each other there, and do not make plausible what the record shows."""
    DIFFERENT = 3


class Clocks(msgspec.Struct, frozen=True):
    """When the runs were, as far as it is known. `strict`: nothing is put aside."""

    recorded: Clock | None = None
    first: Clock | None = None
    second: Clock | None = None
    strict: bool = False


@dataclass
class Weighed:
    """`aside` counts what was put aside, by words for it; `keys` are the record's lines without what was put aside."""

    standing: Standing = Standing.SAME
    why: str = ""
    aside: Counter[str] = field(default_factory=Counter)
    keys: list[str] = field(default_factory=list)

    def add(self, standing: Standing, why: str = "") -> None:
        if standing > self.standing:
            self.standing, self.why = standing, why


def weigh(recorded: Sequence[str], first: Sequence[str], second: Sequence[str] | None, clocks: Clocks) -> Weighed:
    """Weigh the lines of a text; `second` is None as long as there is no second replay."""
    return _Weighing(recorded, first, second, clocks).weigh()


class _Weighing:
    def __init__(
        self, recorded: Sequence[str], first: Sequence[str], second: Sequence[str] | None, clocks: Clocks
    ) -> None:
        self._recorded, self._first = recorded, first
        self._second = first if second is None else second
        self._has_second = second is not None
        self._clocks = clocks
        self._record = Alignment(first, recorded, _shape)
        self._runs = Alignment(first, self._second, _shape)
        self._found = Weighed(keys=list(recorded))

    def weigh(self) -> Weighed:
        orders = self._find_reordered(self._first, self._runs, self._second, self._record, self._recorded)
        self._measured = set(self._shapes_measured())
        for start, end in orders:
            self._put_aside("line in another order", end - start)
        for span in self._record.spans:
            if any(start <= span.start and span.end <= end for start, end in orders):
                continue
            if not span.is_pair:
                self._found.add(self._standing_of(varies=_explains(self._runs, span, self._first, self._recorded)))
                continue
            before = self._found.standing, self._found.why
            self._found.standing = Standing.SAME
            self._line(span.start, self._recorded[span.there])
            if self._found.standing is Standing.SAME:
                self._found.keys[span.there] = self._first[span.start]
            if self._found.standing <= before[0]:
                self._found.standing, self._found.why = before
        return self._found

    def _line(self, at: int, recorded: str) -> None:
        across = self._runs.at(at)
        if across is not None and not across.is_pair:
            self._found.add(Standing.VARIES)
            return
        first, second = self._first[at], self._second[across.there] if across is not None else self._first[at]
        line = _Line(tokens_of(recorded), tokens_of(first), tokens_of(second))
        orders = self._find_reordered(
            line.texts(line.first), line.runs, line.texts(line.second), line.record, line.texts(line.recorded)
        )
        for start, end in orders:
            self._put_aside("value in another order", sum(each.kind is not Kind.MARK for each in line.first[start:end]))
        holes: set[int] = set()
        for span in line.record.spans:
            if any(start <= span.start and span.end <= end for start, end in orders):
                holes.update(range(span.start, span.end))
            elif span.is_pair:
                holes.add(span.start)
                self._hole(line, span.start, span.there)
            else:
                fixed = line.texts(line.first), line.texts(line.recorded)
                self._found.add(self._standing_of(varies=_explains(line.runs, span, *fixed)))
        self._blanks(line, holes)

    def _hole(self, line: _Line, at: int, there: int) -> None:
        """A place of a line, and the blanks before it: of a column that is put right their number is the width's."""
        first, recorded, second = line.first[at], line.recorded[there], line.in_second(at)
        self._place(line, at, recorded)
        wide = [len(token.gap) + len(token.text) for token in (first, recorded)]
        if first.gap != recorded.gap and wide[0] != wide[1]:
            self._found.add(self._standing_of(varies=second is None or second.gap != first.gap))

    def _place(self, line: _Line, at: int, recorded: Token) -> None:
        """One token of the first replay, in whose place the record has another one."""
        first, second = line.first[at], line.in_second(at)
        clocks = self._clocks
        if not clocks.strict:
            if same_number(first.text, recorded.text):
                return
            if first.kind is recorded.kind is Kind.SOURCE:
                self._put_aside("name of a cell's own file", 1)
                return
            if self._in_their_runs(recorded, first, second):
                self._put_aside("time of the run's own clock", 1)
                return
            if second is None:
                self._found.add(Standing.VARIES)
                return
            if second.text != first.text or line.shape(at) in self._measured:
                if self._is_plausible(recorded, first, second, line.word_before(at)):
                    self._put_aside(line.name(at) + FROM_RUN_TO_RUN, 1)
                else:
                    self._found.add(Standing.VARIES, _beyond(recorded, first, second))
                return
            if self._may_be_now(recorded, first):
                self._found.add(Standing.UNKNOWN, f"{first.text!r} and {recorded.text!r} may be the time of their runs")
                return
        self._found.add(Standing.DIFFERENT)

    def _in_their_runs(self, recorded: Token, first: Token, second: Token | None) -> bool:
        """Whether each is a time of its own run."""
        runs = [(self._clocks.recorded, recorded), (self._clocks.first, first)]
        if self._has_second:
            if second is None:
                return False
            runs.append((self._clocks.second, second))
        return all(clock is not None and clock.covers(token) for clock, token in runs)

    def _is_plausible(self, recorded: Token, first: Token, second: Token, before: str) -> bool:
        """As `plausible`; where both replays show their own times, only a record without a clock may show another."""
        times = (self._clocks.first, first), (self._clocks.second, second)
        if first.kind is Kind.TIME and all(clock is not None and clock.covers(token) for clock, token in times):
            return self._clocks.recorded is None and recorded.kind is Kind.TIME
        return plausible(recorded, first, second, before)

    def _may_be_now(self, recorded: Token, first: Token) -> bool:
        """Whether it is a day's date, or a time that no record's clock can be held against: evidence of nothing."""
        then, now = self._clocks.recorded, self._clocks.first
        if now is None or recorded.kind is not first.kind:
            return False
        if first.kind in (Kind.DATE, Kind.TIME) and has_same_time_of_day(recorded, first):
            return now.is_today(first) and (then is None or then.is_today(recorded))
        return self._has_second and then is None and first.kind is Kind.TIME and now.covers(first)

    def _blanks(self, line: _Line, holes: set[int]) -> None:
        """Blanks count, but for those that fill a column by what was put aside, as what follows is where it was."""
        for at, there in line.record.list_matches(len(line.first)):
            if line.first[at].gap == line.recorded[there].gap:
                continue
            second = line.in_second(at)
            if at - 1 not in holes or not line.keeps_column(at, there):
                self._found.add(self._standing_of(varies=second is None or second.gap != line.first[at].gap))

    def _find_reordered(
        self, first: Sequence[str], runs: Alignment, second: Sequence[str], record: Alignment, recorded: Sequence[str]
    ) -> list[tuple[int, int]]:
        return [] if self._clocks.strict else find_reordered(first, runs, second, record, recorded)

    def _standing_of(self, *, varies: bool) -> Standing:
        return Standing.VARIES if varies and not self._clocks.strict else Standing.DIFFERENT

    def _put_aside(self, what: str, count: int) -> None:
        self._found.aside[what] += count

    def _shapes_measured(self) -> Iterator[str]:
        """Places of durations and rates that vary in some line: in lines of the same words they may be equal.

        A duration of few digits is often the same twice: of a loop's many lines some are evidence for all.
        """
        for span in self._runs.spans if self._has_second else ():
            if span.is_pair:
                first, second = tokens_of(self._first[span.start]), tokens_of(self._second[span.there])
                line = _Line(first, first, second)
                for each in line.runs.spans:
                    if each.is_pair and first[each.start].kind is second[each.there].kind in (Kind.DURATION, Kind.RATE):
                        yield line.shape(each.start)


class _Line:
    """One line of the record and of both replays, in tokens."""

    def __init__(self, recorded: Sequence[Token], first: Sequence[Token], second: Sequence[Token]) -> None:
        self.recorded, self.first, self.second = recorded, first, second
        self.record = Alignment(self.texts(first), self.texts(recorded))
        self.runs = Alignment(self.texts(first), self.texts(second))

    @staticmethod
    def texts(tokens: Sequence[Token]) -> list[str]:
        return [token.text for token in tokens]

    def in_second(self, at: int) -> Token | None:
        """What the second replay has in the place of a token of the first; None where no token is in its place."""
        span = self.runs.at(at)
        if span is None:
            return self.second[self.runs.place(at, behind=True)]
        return self.second[span.there] if span.is_pair else None

    def keeps_column(self, at: int, there: int) -> bool:
        """Whether a token that both have ends in the column in which it does in the record."""
        widths = [
            sum(len(token.gap) + len(token.text) for token in tokens[: end + 1])
            for tokens, end in ((self.first, at), (self.recorded, there))
        ]
        return widths[0] == widths[1]

    def word_before(self, at: int) -> str:
        words = [token.text for token in self.first[max(0, at - 3) : at] if token.kind is Kind.WORD]
        return words[-1].lower() if words else ""

    def name(self, at: int) -> str:
        """What a place is called: a part of a path, else by its token's kind."""
        beside = [self.first[each].text for each in (at - 1, at + 1) if 0 <= each < len(self.first)]
        kind = self.first[at].kind
        if any("/" in text for text in beside) and kind in (Kind.WORD, Kind.IDENTIFIER, Kind.NUMBER):
            return "path"
        return kind.value

    def shape(self, at: int) -> str:
        """The line's words and marks, and a place in it; `%time` writes two lines that were measured at once."""
        if self.first[at].text.startswith("CPU times: ") or self.texts(self.first[:3]) == ["Wall", "time", ":"]:
            return "%time"
        words = _words(self.first)
        return f"{at} {words}" if self.first[at].kind in (Kind.DURATION, Kind.RATE) else ""


def _shape(line: str) -> str:
    return _words(tokens_of(line[:2_000]))


def _words(tokens: Sequence[Token]) -> str:
    """What of a line stays when its values vary."""
    return " ".join(token.text if token.kind in (Kind.WORD, Kind.MARK) else "#" for token in tokens[:200])


def _explains(runs: Alignment, span: Span, first: Sequence[str], recorded: Sequence[str]) -> bool:
    """Whether it may be for what varies that a stretch of the record has more or fewer items than the replays.

    Not when it lacks some of those that both replays have there.
    """
    if not runs.touches(span.start, span.end):
        return False
    shown = iter(recorded[span.there : span.until])
    return all(first[at] in shown for at in range(span.start, span.end) if runs.at(at) is None)


def plausible(recorded: Token, first: Token, second: Token, before: str = "") -> bool:
    """Whether the record's token may have come out where two replays show the other two.

    It may when one of them shows it. Otherwise it must be of their kind, and a number must be written as theirs are
    (whole or not) and lie within reach of what they span; of words none is more likely than another.
    """
    if recorded.text in (first.text, second.text):
        return True
    if not recorded.kind is first.kind is second.kind:
        return False
    if first.kind in (Kind.NUMBER, Kind.DURATION, Kind.RATE, Kind.TIME):
        near = _within_reach if first.kind is Kind.NUMBER else _within_factor
        return near(recorded, first, second, before)
    if first.kind in (Kind.ADDRESS, Kind.IDENTIFIER):
        return len(recorded.text) in (len(first.text), len(second.text))
    if first.kind is Kind.MARK and recorded.text[0] == first.text[0] == second.text[0]:
        low, high = sorted((len(first.text), len(second.text)))
        return low - 1 <= len(recorded.text) <= high + 1
    return False


def _within_reach(recorded: Token, first: Token, second: Token, before: str) -> bool:
    one, other, then = number(first.text), number(second.text), number(recorded.text)
    if one is None or other is None or then is None or not all(map(math.isfinite, (one, other, then))):
        return False
    whole = [_is_whole(token.text) for token in (recorded, first, second)]
    if whole[0] != (whole[1] and whole[2]):
        return False
    if whole[0] and min(len(first.text), len(second.text)) >= _LONG:
        return abs(len(recorded.text) - len(first.text)) <= 1
    if whole[0] and before in _COUNTED and all(0 < each <= _LARGEST_COUNT for each in (one, other, then)):
        return True
    low, high = min(one, other), max(one, other)
    reach = _REACH * (high - low)
    return low - reach <= then <= high + reach


def _within_factor(recorded: Token, first: Token, second: Token, _before: str) -> bool:
    amounts = [amount(token) for token in (recorded, first, second)]
    if None in amounts:
        return False
    then, one, other = (each or 0.0 for each in amounts)
    if first.kind is Kind.TIME and max(then, one, other) > _LONGEST_SECONDS:
        return False  # a time of day, and none of the run
    brief = _BRIEF_SECONDS if first.kind is not Kind.RATE else 0.0
    low, high = min(one, other), max(one, other)
    return (then <= brief or then <= high * _FACTOR) and (low <= brief or low <= then * _FACTOR)


def same_number(one: str, other: str) -> bool:
    """Whether two fractions are the same but for how a machine rounds: one is written with all its digits.

    What is written with fewer digits is text: the code that rounded it meant each digit.
    """
    if one == other:
        return True
    if (
        max(_significant(one), _significant(other)) < _FULL_DIGITS
        or max(_decimals(one), _decimals(other)) < _LEAST_DECIMALS
    ):
        return False
    left, right = number(one), number(other)
    return left is not None and right is not None and math.isclose(left, right, rel_tol=_ROUNDING)


def _is_whole(text: str) -> bool:
    return not any(mark in text for mark in ".eE")


def _significant(text: str) -> int:
    digits = text.lower().partition("e")[0].lstrip("+-").replace(".", "").lstrip("0")
    return len(digits) if digits.isdigit() else 0


def _decimals(text: str) -> int:
    return len(text.lower().partition("e")[0].partition(".")[2])


def _beyond(recorded: Token, first: Token, second: Token) -> str:
    shown = [repr(token.text[:40]) for token in (recorded, first, second)]
    return f"the record has {shown[0]} where two replays have {shown[1]} and {shown[2]}"
