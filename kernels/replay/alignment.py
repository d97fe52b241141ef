"""Where two sequences differ, and which stretches of three of them hold the same in another order. Pure.

Lines of a text and tokens of a line are aligned alike. Of two ways to lay one sequence next to the other that which has
more in common is taken, so that what was inserted at one place does not make all that follows look as if it varied.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

_MOST_PAIRS: Final = 500_000
"""Pairs of equal items that a search for the best alignment may look at; beyond it items are paired by their place."""
_MOST_SHAPES: Final = 300
"""Items of a stretch with more on one side that are distinguished by their shapes."""
_MOST_HULLS: Final = 60
"""Stretches that differ among which a mere change of order is looked for."""
_LONGEST_HULL: Final = 2_000


class Span(NamedTuple):
    """Items `start` to `end` of one sequence stand where `there` to `until` do in the other."""

    start: int
    end: int
    there: int
    until: int

    @property
    def is_pair(self) -> bool:
        return self.end - self.start == 1 == self.until - self.there


class Alignment:
    """Two sequences side by side; `spans` are where they differ, one to one where as many stand on both sides.

    `shape`: what of an item stays when its values vary, so that one that was added differs from its neighbours.
    """

    def __init__(self, left: Sequence[str], right: Sequence[str], shape: Callable[[str], str] | None = None) -> None:
        self.spans = list(_spans(left, right, shape))
        self._starts = [span.start for span in self.spans]

    def at(self, index: int) -> Span | None:
        """The span that an item of the left side is in."""
        found = bisect_right(self._starts, index) - 1
        while found >= 0 and self.spans[found].start == self.spans[found].end == index:
            found -= 1  # something was inserted before it
        return self.spans[found] if found >= 0 and self.spans[found].end > index else None

    def touches(self, start: int, end: int) -> bool:
        """Whether something differs within a stretch of the left side; what was inserted at its border does."""
        index = bisect_right(self._starts, end) - 1
        while index >= 0 and self.spans[index].end >= start:
            span = self.spans[index]
            if (span.start < end and start < span.end) or span.start == span.end:
                return True
            index -= 1
        return False

    def list_matches(self, length: int) -> Iterator[tuple[int, int]]:
        """The places of what both sides have, `length` being the left one's."""
        at = there = 0
        for span in self.spans:
            yield from zip(range(at, span.start), range(there, span.there), strict=True)
            at, there = span.end, span.until
        yield from ((each, each - at + there) for each in range(at, length))

    def place(self, at: int, *, behind: bool) -> int:
        """Where on the right a stretch of the left side begins at `at` or, `behind` what was inserted there, ends."""
        index = bisect_right(self._starts, at) - 1
        if index < 0:
            return at
        span = self.spans[index]
        if at > span.end or (at == span.end and (behind or span.end > span.start)):
            return span.until + at - span.end
        return span.there + min(at - span.start, span.until - span.there)


def _spans(left: Sequence[str], right: Sequence[str], shape: Callable[[str], str] | None) -> Iterator[Span]:
    start, end = common(left, right)
    mine, theirs = left[start : len(left) - end], right[start : len(right) - end]
    if not mine and not theirs:
        return
    for tag, i1, i2, j1, j2 in _best(mine, theirs):
        if tag == "equal":
            continue
        at, there = start + i1, start + j1
        for a, b, c, d in _by_shape(mine[i1:i2], theirs[j1:j2], shape):
            if b - a == d - c:
                pairs = zip(range(a, b), range(c, d), strict=True)
                unlike = [(i, j) for i, j in pairs if mine[i1 + i] != theirs[j1 + j]]
                yield from (Span(at + i, at + i + 1, there + j, there + j + 1) for i, j in unlike)
            else:
                yield Span(at + a, at + b, there + c, there + d)


def _by_shape(
    mine: Sequence[str], theirs: Sequence[str], shape: Callable[[str], str] | None
) -> Iterator[tuple[int, int, int, int]]:
    """Where more stand on one side than on the other, the stretches between items whose shape is there but once."""
    at = there = 0
    if shape is not None and len(mine) != len(theirs) and max(len(mine), len(theirs)) <= _MOST_SHAPES:
        shapes, others = [shape(item) for item in mine], [shape(item) for item in theirs]
        counts, their_counts = Counter(shapes), Counter(others)
        for index, each in enumerate(shapes):
            if counts[each] == their_counts[each] == 1 and (found := others.index(each)) >= there:
                if index > at or found > there:
                    yield at, index, there, found
                yield index, index + 1, found, found + 1
                at, there = index + 1, found + 1
    if len(mine) > at or len(theirs) > there:
        yield at, len(mine), there, len(theirs)


def _best(mine: Sequence[str], theirs: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    whole = [("replace", 0, len(mine), 0, len(theirs))]
    if not mine or not theirs:
        return whole
    beside = -1
    if len(mine) == len(theirs):
        unlike = [index for index, item in enumerate(mine) if item != theirs[index]]
        beside = len(mine) - len(unlike)
        if {mine[index] for index in unlike}.isdisjoint([theirs[index] for index in unlike]):
            return whole  # nothing has moved
    counts, others = Counter(mine), Counter(theirs)
    if sum(count * others[item] for item, count in counts.items()) > _MOST_PAIRS:
        return whole
    matcher = SequenceMatcher(None, mine, theirs, autojunk=False)
    if sum(block.size for block in matcher.get_matching_blocks()) <= beside:
        return whole
    return matcher.get_opcodes()


def common(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many items are equal at the start, and how many of the others at the end."""
    most = min(len(one), len(other))
    start = next((index for index in range(most) if one[index] != other[index]), most)
    most -= start
    end = next((index for index in range(most) if one[-1 - index] != other[-1 - index]), most)
    return start, end


def find_reordered(
    first: Sequence[str], runs: Alignment, second: Sequence[str], record: Alignment, recorded: Sequence[str]
) -> list[tuple[int, int]]:
    """Stretches of `first` that hold the same items in `second`, in another order, and so in `recorded`.

    `runs` and `record` are the alignments of `first` with the two others. Each stretch is as short as it can be.
    """
    edges = sorted((span.start, span.end) for span in (*runs.spans, *record.spans))
    found: list[tuple[int, int]] = []
    moved = {item for span in runs.spans for item in first[span.start : span.end]}
    if len(edges) > _MOST_HULLS or moved.isdisjoint(
        [item for span in runs.spans for item in second[span.there : span.until]]
    ):
        return found
    index = 0
    while index < len(edges):
        start, end = edges[index]
        for ahead in range(index, len(edges)):
            end = max(end, edges[ahead][1])
            if end - start > _LONGEST_HULL:
                break
            here, there, then = (
                first[start:end],
                second[runs.place(start, behind=False) : runs.place(end, behind=True)],
                recorded[record.place(start, behind=False) : record.place(end, behind=True)],
            )
            if end - start > 1 and here != there and Counter(here) == Counter(there) == Counter(then):
                found.append((start, end))
                index = ahead
                break
        index += 1
    return found
