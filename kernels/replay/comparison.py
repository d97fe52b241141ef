"""Whether two runs of a cell showed the same. Pure.

A cell shows two streams, each as one text however it was cut into pieces, the displays in their order, and an error.
How streams and displays lie between each other does not count: that is a matter of who flushed first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kernels.outputs import Output
from kernels.replay.budget import MOST_OUTPUTS, Budget
from kernels.replay.bundles import Part, differing_parts, text_of
from kernels.replay.difference import MOST_DIFF, unified
from kernels.replay.plain_text import Manner, differing, lines_of
from kernels.replay.volatile import Moments


@dataclass(frozen=True)
class Comparison:
    """`diff` is a bounded unified diff, record to replay, empty when the same; `why` says in a sentence what differs.

    `why` of what is the same is empty, or says what could not be looked at closely and was compared byte for byte.
    """

    same: bool
    diff: str = ""
    why: str = ""


def compare(
    recorded: Sequence[Output],
    replayed: Sequence[Output],
    *,
    recorded_at: str | None = None,
    replayed_at: str | None = None,
) -> Comparison:
    """Whether the replay showed what the record shows; both are nbformat outputs, trimmed to the same caps.

    `recorded_at`, `replayed_at`: when each run of the cell began (RFC 3339). With both, a date that is printed counts
    as "now" only when it is near its own run; without, every date does. Never raises.
    """
    budget = Budget()
    try:
        if list(recorded) == list(replayed):
            return Comparison(same=True)
        parts = list(_differing(_Shown.of(recorded), _Shown.of(replayed), Moments.of(recorded_at, replayed_at), budget))
    except (RecursionError, MemoryError) as problem:
        return Comparison(same=False, why=f"The outputs cannot be compared ({type(problem).__name__}).")
    if not parts:
        return Comparison(same=True, why=_sentences(budget.notes))
    return Comparison(same=False, diff=_diff(parts), why=_sentences([_why(parts), *budget.notes]))


@dataclass
class _Shown:
    """What a cell shows, put in order."""

    streams: dict[str, str] = field(default_factory=lambda: {"stdout": "", "stderr": ""})
    displays: list[Output] = field(default_factory=list)
    error: Output | None = None

    @classmethod
    def of(cls, outputs: Sequence[Output]) -> _Shown:
        shown = cls()
        texts: dict[str, list[str]] = {"stdout": [], "stderr": []}
        for output in outputs:
            kind = output.get("output_type") if isinstance(output, dict) else None
            if kind == "stream":
                texts["stderr" if output.get("name") == "stderr" else "stdout"].append(text_of(output.get("text")))
            elif kind == "error":
                shown.error = output
            elif kind in ("display_data", "execute_result"):
                shown.displays.append(output)
        shown.streams = {name: "".join(pieces) for name, pieces in texts.items()}
        return shown


def _differing(left: _Shown, right: _Shown, moments: Moments, budget: Budget) -> Iterator[Part]:
    for name in ("stdout", "stderr"):
        if part := _text(left.streams[name], right.streams[name], name, moments, budget):
            yield part
    if len(left.displays) != len(right.displays):
        yield Part("displays", f"{len(right.displays):,} displays instead of {len(left.displays):,}")
    pairs = zip(left.displays[:MOST_OUTPUTS], right.displays[:MOST_OUTPUTS], strict=False)
    for number, (one, other) in enumerate(pairs, 1):
        what = "the display" if len(left.displays) == 1 else f"display {number}"
        yield from differing_parts(one, other, what, moments, budget)
    if left.displays[MOST_OUTPUTS:] != right.displays[MOST_OUTPUTS:]:
        yield Part("displays", f"the displays after the first {MOST_OUTPUTS:,} differ")
    if part := _text(_error(left), _error(right), "error", moments, budget):
        yield part


def _text(left: str, right: str, what: str, moments: Moments, budget: Budget) -> Part | None:
    if left == right:
        return None
    found = differing(lines_of(left), lines_of(right), Manner(moments), budget, what)
    if found is None:
        return None
    missing = f"there is no {what}" if not right else f"there was no {what}" if not left else f"{what} differs"
    return Part(what, missing, found)


def _error(shown: _Shown) -> str:
    """An error is its name and its message; where it was raised is the code's matter."""
    if shown.error is None:
        return ""
    return f"{text_of(shown.error.get('ename'))}: {text_of(shown.error.get('evalue'))}"


def _why(parts: Sequence[Part]) -> str:
    more = f", and {len(parts) - 1:,} more" if len(parts) > 1 else ""
    return parts[0].why + more


def _diff(parts: Sequence[Part]) -> str:
    made: list[str] = []
    room = MOST_DIFF
    for part in parts:
        if room < 1_000:
            break
        text = unified(*part.lines, part.what, room) if part.lines else f"# {part.why}"
        made.append(text)
        room -= len(text) + 1
    return "\n".join(made)


def _sentences(words: Sequence[str]) -> str:
    return " ".join(f"{each[:1].upper()}{each[1:]}." for each in words if each)
