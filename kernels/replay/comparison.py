"""What a cell shows, in the record and in one or two replays of it, part by part. Pure.

A cell shows two streams, each as one text however it was cut into pieces, the displays in their order, and an error.
How streams and displays lie between each other does not count: that is a matter of who flushed first.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kernels.execution.outputs import Output
from kernels.replay.alignment import common
from kernels.replay.budget import MOST_OUTPUTS, Budget
from kernels.replay.difference import MOST_DIFF, Lines, make_unified_diff
from kernels.replay.evidence import FROM_RUN_TO_RUN, Clocks, Standing, Weighed, weigh
from kernels.replay.pictures import why_images_differ
from kernels.replay.structure import lines_of_json, lines_of_markup
from kernels.replay.text import cut_at, is_coloured, lines_of, text_of, without_cut
from kernels.replay.tokens import Clock

_BYTES: Final = re.compile(r"(?:image/(?!svg)|audio/|video/|font/)[\w.+-]+|application/(?:pdf|zip|octet-stream)")
_MARKUP: Final = frozenset({"text/html", "image/svg+xml", "application/xml", "text/xml"})
_NAME: Final = re.compile(r"<[^<>\n]{1,200}>")
_OF_FRONTENDS: Final = re.compile(
    r"application/vnd\.(?:(?:google\.colaboratory|microsoft|deepnote|databricks)\.[\w.+-]+|jupyter\.widget-state\+json)"
)
"""Types that an editor adds for itself; and the state of widgets, of which texts and views say what is alike."""
_SHOWN_METADATA: Final = ("width", "height", "alt", "isolated")
_ERROR: Final = re.compile(
    r"[ |+-]{0,40}[A-Za-z_][\w.]{0,100}(?:Error|Exception|Warning|Interrupt|Exit|Group)\w{0,40}: "
)
_BLANKS: Final = re.compile(r"[ \t]++")
_PLAIN: Final = "text/plain"
_MOST_TYPES: Final = 100
_NOT_KNOWN: Final = "the part of it that was cut cannot be compared, as the record does not have its SHA-256"


@dataclass(frozen=True)
class Showing:
    """What a cell showed in one run. `digests`: the SHA-256 of streams in full whose text here is cut."""

    outputs: Sequence[Output]
    clock: Clock | None = None
    digests: Mapping[str, str] = field(default_factory=dict)


class Comparison(msgspec.Struct, frozen=True):
    """How the record stands to the replays. `aside` counts what was put aside, by words for it.

    `diff` is a bounded unified diff, record to first replay, empty when the same; `why` says in sentences what differs
    and what could not be looked at closely.
    """

    standing: Standing = Standing.SAME
    aside: Counter[str] = msgspec.field(default_factory=Counter)
    diff: str = ""
    why: str = ""


def compare(recorded: Showing, first: Showing, second: Showing | None = None, *, strict: bool = False) -> Comparison:
    """Compare the record with one replay or two; all are nbformat outputs, trimmed to the same caps. Never raises."""
    runs = [recorded, first] if second is None else [recorded, first, second]
    clocks = Clocks(recorded.clock, first.clock, None if second is None else second.clock, strict)
    budget = Budget()
    try:
        parts = list(_Comparing([_Shown.of(run) for run in runs], clocks, budget).parts())
    except (RecursionError, MemoryError) as problem:
        return Comparison(Standing.DIFFERENT, why=f"The outputs cannot be compared ({type(problem).__name__}).")
    aside = sum((part.weighed.aside for part in parts), Counter[str]())
    odd = [part for part in parts if part.weighed.standing is not Standing.SAME]
    if not odd:
        return Comparison(aside=aside, why=_sentences(budget.notes))
    odd.sort(key=lambda part: -part.weighed.standing)
    return Comparison(odd[0].weighed.standing, aside, _diff(odd), _sentences([_why(odd), *budget.notes]))


@dataclass
class _Shown:
    """What a cell shows, put in order."""

    digests: Mapping[str, str]
    streams: dict[str, str] = field(default_factory=dict)
    displays: list[Output] = field(default_factory=list)
    error: str = ""

    @classmethod
    def of(cls, run: Showing) -> _Shown:
        shown = cls(run.digests)
        texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        for output in run.outputs:
            kind = output.get("output_type") if isinstance(output, dict) else None
            if kind == "stream":
                texts["stderr" if output.get("name") == "stderr" else "stdout"].append(text_of(output.get("text")))
            elif kind == "error":
                shown.error = _error_text(output)
            elif kind in ("display_data", "execute_result"):
                shown.displays.append(output)
        shown.streams = {name: "".join(pieces) for name, pieces in texts.items()}
        return shown


class _Part(msgspec.Struct, frozen=True):
    """Something of a cell that is not shown alike: what it is, and its two texts for a diff where it has some."""

    what: str
    weighed: Weighed
    lines: tuple[Lines, Lines] | None = None

    @property
    def why(self) -> str:
        return self.weighed.why or f"{self.what} differs"


class _Comparing:
    """`runs` are the record, the first replay, and the second one if there is one."""

    def __init__(self, runs: Sequence[_Shown], clocks: Clocks, budget: Budget) -> None:
        self._runs, self._clocks, self._budget = runs, clocks, budget

    def parts(self) -> Iterator[_Part]:
        for name in ("stdout", "stderr"):
            yield from self._stream(name)
        counts = [len(run.displays) for run in self._runs]
        if counts[0] != counts[1]:
            yield self._odd("displays", counts, f"{counts[1]:,} displays instead of {counts[0]:,}")
        for number in range(min(*counts, MOST_OUTPUTS)):
            what = "the display" if counts[0] == 1 else f"display {number + 1}"
            yield from self._display([run.displays[number] for run in self._runs], what)
        rest = [run.displays[MOST_OUTPUTS:] for run in self._runs]
        if rest[0] != rest[1]:
            yield self._odd("displays", rest, f"the displays after the first {MOST_OUTPUTS:,} differ")
        yield from self._text([run.error for run in self._runs], "error")

    def _stream(self, name: str) -> Iterator[_Part]:
        digests = [run.digests.get(name) for run in self._runs]
        if digests[0] is not None and digests[0] == digests[1]:
            return
        yield from self._text([run.streams[name] for run in self._runs], name, digests)

    def _text(self, texts: Sequence[str], what: str, digests: Sequence[str | None] = (None, None)) -> Iterator[_Part]:
        if texts[0] == texts[1] and " bytes cut ...]" not in texts[0]:
            return
        coloured = all(is_coloured(text) for text in texts[:2])
        lines = [lines_of(text, coloured=coloured) for text in texts]
        cut = all(cut_at(each) is not None for each in lines[:2])
        part = self._lines(without_cut(lines) if cut else lines, what)
        if not texts[0] or not texts[1]:
            part.weighed.why = f"there is no {what}" if texts[0] else f"there was no {what}"
        if cut and digests[0] is not None and digests[1] is not None:
            part.weighed.add(self._varying(digests), f"the part of {what} that was cut differs, by its SHA-256")
        elif cut:
            part.weighed.add(Standing.UNKNOWN, _NOT_KNOWN)
        if part.weighed.standing is not Standing.SAME or part.weighed.aside:
            yield part

    def _display(self, outputs: Sequence[Output], what: str) -> Iterator[_Part]:
        bundles = [_bundle(output) for output in outputs]
        types = [frozenset(each) for each in bundles]
        if types[0] != types[1]:
            names = [", ".join(sorted(each)[:5])[:200] or "nothing" for each in types]
            yield self._odd(what, types, f"{what} is {names[1]} instead of {names[0]}")
        both = sorted(types[0] & types[1])
        rest = [[bundle.get(each) for each in both[_MOST_TYPES:]] for bundle in bundles]
        if rest[0] != rest[1]:
            yield self._odd(what, rest, f"{what} differs in a type after the first {_MOST_TYPES}")
        for media_type in both[:_MOST_TYPES]:
            values = [bundle.get(media_type, "") for bundle in bundles]
            if media_type == _PLAIN and len(both) > 1 and all(_NAME.fullmatch(text_of(each)) for each in values[:2]):
                continue  # of a figure it is a name; what is richer is the figure
            if media_type == _PLAIN and "text/html" in both:  # a copy, in columns as wide as what is in them
                values = [_BLANKS.sub(" ", text_of(each)) for each in values]
            named = f"{what} ({media_type[:80]})"
            yield from self._value(media_type, values, named)
            yield from self._metadata([_metadata(output, media_type) for output in outputs], named)

    def _value(self, media_type: str, values: Sequence[Any], what: str) -> Iterator[_Part]:
        if not all(_is_text(value) for value in values) or re.fullmatch(r"application/(?:[\w.+-]+\+)?json", media_type):
            yield self._lines([lines_of_json(value) for value in values], what)
            return
        texts = [text_of(value) for value in values]
        if texts[0] == texts[1] and " bytes cut ...]" not in texts[0]:
            return
        if _BYTES.fullmatch(media_type):
            yield from self._bytes(media_type, texts, what)
            return
        taken_apart = [lines_of_markup(text) if media_type in _MARKUP else None for text in texts]
        whole = [lines for lines in taken_apart if lines is not None]
        if len(whole) == len(texts):
            yield self._lines(whole, what)
        else:
            yield from self._text(texts, what)

    def _metadata(self, values: Sequence[Mapping[str, Any]], what: str) -> Iterator[_Part]:
        if values[0] != values[1]:
            yield self._odd(what, values, f"{what} is shown in another size or manner")

    def _bytes(self, media_type: str, texts: Sequence[str], what: str) -> Iterator[_Part]:
        plain = ["".join(text.split()) for text in texts]
        if plain[0] == plain[1]:
            return
        looks = media_type == "image/png" and not self._clocks.strict

        def why(one: int, other: int) -> str:
            if looks:
                return why_images_differ(plain[one], plain[other], self._budget, what)
            return "its bytes differ" if plain[one] != plain[other] else ""

        if not (found := why(0, 1)):
            return
        weighed = Weighed()
        if len(plain) > 2 and not why(0, 2):
            weighed.aside["image" + FROM_RUN_TO_RUN] += 1
        else:
            varies = len(plain) > 2 and bool(why(1, 2))
            weighed.add(Standing.VARIES if varies else Standing.DIFFERENT, f"{what}: {found}")
        yield _Part(what, weighed)

    def _lines(self, texts: Sequence[Sequence[str]], what: str) -> _Part:
        weighed = self._weigh(texts, what)
        shown = Lines(texts[0], weighed.keys or texts[0]), Lines(texts[1], texts[1])
        return _Part(what, weighed, shown)

    def _weigh(self, texts: Sequence[Sequence[str]], what: str) -> Weighed:
        cost = sum(_length_differing(texts[1], other) for other in (texts[0], *texts[2:]))
        if not self._budget.take_text(cost, what):
            weighed = Weighed()
            weighed.add(self._varying(texts))
            return weighed
        return weigh(texts[0], texts[1], texts[2] if len(texts) > 2 else None, self._clocks)

    def _odd(self, what: str, values: Sequence[object], why: str) -> _Part:
        weighed = Weighed()
        weighed.add(self._varying(values), why)
        return _Part(what, weighed)

    def _varying(self, values: Sequence[object]) -> Standing:
        """The standing of a record that differs as a whole, by whether the replays do from each other."""
        varies = len(values) > 2 and values[1] != values[2] and not self._clocks.strict
        return Standing.VARIES if varies else Standing.DIFFERENT


def _error_text(output: Output) -> str:
    """An error's name and message and those of the errors it came from; where they were raised is the code's matter."""
    said = f"{text_of(output.get('ename'))}: {text_of(output.get('evalue'))}"
    traceback = output.get("traceback")
    pieces = [each for each in traceback if isinstance(each, str)] if isinstance(traceback, list) else []
    lines = [line for each in pieces for line in lines_of(each)]
    others = [line for line in lines if _ERROR.match(line) and line not in said]
    return "\n".join([said, *others])


def _length_differing(one: Sequence[str], other: Sequence[str]) -> int:
    start, end = common(one, other)
    return sum(sum(map(len, lines[start : len(lines) - end])) for lines in (one, other))


def _bundle(output: Output) -> Mapping[str, Any]:
    data = output.get("data")
    if not isinstance(data, dict):
        return {}
    return {key: value for key, value in data.items() if isinstance(key, str) and not _OF_FRONTENDS.fullmatch(key)}


def _metadata(output: Output, media_type: str) -> dict[str, Any]:
    """What the metadata say of how a representation is to be shown."""
    about = output.get("metadata")
    found = about.get(media_type) if isinstance(about, dict) else None
    return {name: found[name] for name in _SHOWN_METADATA if name in found} if isinstance(found, dict) else {}


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(line, str) for line in value))


def _why(parts: Sequence[_Part]) -> str:
    more = f", and {len(parts) - 1:,} more" if len(parts) > 1 else ""
    return parts[0].why + more


def _diff(parts: Sequence[_Part]) -> str:
    made: list[str] = []
    room = MOST_DIFF
    for part in parts:
        if room < 1_000:
            break
        text = make_unified_diff(*part.lines, part.what, room) if part.lines else f"# {part.why}"
        made.append(text)
        room -= len(text) + 1
    return "\n".join(made)


def _sentences(words: Sequence[str]) -> str:
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in words if each)
