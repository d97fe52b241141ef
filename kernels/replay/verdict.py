"""The verdict on a cell that was run again: a small table over what was recorded and what came of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from kernels.execution.outputs import Output
from kernels.replay.comparison import Comparison, Showing, compare
from kernels.replay.evidence import FROM_RUN_TO_RUN, Standing
from kernels.replay.text import text_of


class Verdict(StrEnum):
    """What a replay says of one cell."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_DETERMINISTIC = "not_deterministic"
    CANNOT_TELL = "cannot_tell"
    FAILED = "failed"
    NEEDS_HIDDEN_STATE = "needs_hidden_state"
    TIMED_OUT = "timed_out"
    NOT_RUN = "not_run"
    NEW = "new"
    """The record does not say what it shows: it was never run."""


@dataclass(frozen=True)
class CellVerdict:
    """`why` is a sentence, empty for most of what is the same; `diff` a bounded unified diff, record to replay."""

    verdict: Verdict
    why: str = ""
    diff: str = ""


_FAILURES: Final = frozenset({"error", "timeout", "interrupted", "died"})
_WORDS: Final = {
    "timeout": "It did not end within its time",
    "interrupted": "It was interrupted",
    "died": "It killed the kernel",
}
"""How an execution ends that is broken off; what it had shown by then is a matter of timing."""
_HOW_FAR: Final = "It ended in the same way; it is compared as far as all runs of it came."
_VARIES: Final = "Two replays differ from each other there, which does not explain the record."


def judge(
    recorded: Showing | None,
    status: str,
    first: Showing,
    second: Showing | None = None,
    missing_name: str | None = None,
    *,
    recorded_status: str | None = None,
    second_status: str | None = None,
    strict: bool = False,
) -> CellVerdict:
    """The verdict on a cell: `recorded` None when it was never run, `status` as of an execution of the first replay.

    `second`: what it showed in a second whole replay in another fresh session, when there was one, and `second_status`.
    `missing_name`: from `kernels.replay.missing_name`. `recorded_status`: of our own cells; a foreign one has None.
    A failure that the record shows too is no failure of the replay: the same one is the same, another is different.
    """
    if status not in _FAILURES and status != "ok":
        return CellVerdict(Verdict.NOT_RUN, "It was not run again.")
    failed = _judge_failure(status, first.outputs)
    if recorded is None:
        return failed or CellVerdict(Verdict.NEW, "The record does not say what it shows.")
    before = recorded_status or ("error" if _error(recorded.outputs) is not None else "ok")
    runs = [recorded, first] if second is None or second_status not in (None, status) else [recorded, first, second]
    broken_off = before == status and status in _WORDS
    found = compare(*(as_far_as_all(runs) if broken_off else runs), strict=strict)
    if before == status and found.standing is Standing.SAME:
        why = [_HOW_FAR if broken_off else "", put_aside(found.aside), found.why]
        return CellVerdict(Verdict.SAME, " ".join(each for each in why if each))
    if failed is not None and missing_name is not None:
        needs = f"It needs the name {missing_name!r}, which no cell of the record up to here defines."
        return CellVerdict(Verdict.NEEDS_HIDDEN_STATE, needs, found.diff)
    if second_status not in (None, status) and status != "timeout":
        ended = f"It ended as {status!r} in one replay and as {second_status!r} in another."
        return CellVerdict(Verdict.NOT_DETERMINISTIC, ended, found.diff)
    return _unlike(found) if before == status else _judge_other_end(found, before, status, failed)


def _judge_other_end(found: Comparison, before: str, status: str, failed: CellVerdict | None) -> CellVerdict:
    if failed is not None:
        return CellVerdict(failed.verdict, failed.why, found.diff)
    ended = f"It ended as {before!r} in the record and as {status!r} now."
    return CellVerdict(Verdict.DIFFERENT, f"{ended} {found.why}".rstrip(), found.diff)


def as_far_as_all(runs: Sequence[Showing]) -> list[Showing]:
    """What all runs of a cell showed before it was broken off: whole lines, as many as each has, and displays."""
    kept: dict[str, int] = {}
    for name in ("stdout", "stderr"):
        kept[name] = min(_stream(run, name).count("\n") for run in runs)
    displays = [[each for each in run.outputs if _kind(each) in ("display_data", "execute_result")] for run in runs]
    most = min(map(len, displays))
    found = []
    for run, shown in zip(runs, displays, strict=True):
        texts = {name: "\n".join(_stream(run, name).split("\n")[:lines]) for name, lines in kept.items()}
        streams: list[Output] = [{"output_type": "stream", "name": name, "text": text} for name, text in texts.items()]
        found.append(replace(run, outputs=[*streams, *shown[:most]], digests={}))
    return found


def put_aside(aside: Counter[str]) -> str:
    """What was put aside, in a sentence."""
    varying, others = [], []
    for what, count in sorted(aside.items()):
        if what.endswith(FROM_RUN_TO_RUN):
            varying.append(_count_in_words(what.removesuffix(FROM_RUN_TO_RUN), count))
        else:
            others.append(_count_in_words(what, count))
    if varying:
        *most, last = varying
        joined = f"{', '.join(most)} and {last}" if most else last
        others.insert(0, f"{joined} that {'differs' if _varying(aside) == 1 else 'differ'} from run to run")
    return f"Put aside: {'; '.join(others)}." if others else ""


def _varying(aside: Counter[str]) -> int:
    return sum(count for what, count in aside.items() if what.endswith(FROM_RUN_TO_RUN))


def _count_in_words(what: str, count: int) -> str:
    noun, space, rest = what.partition(" ")
    plural = noun if count == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{count:,} {plural}{space}{rest}"


def _unlike(found: Comparison) -> CellVerdict:
    """The verdict on a cell that ended as in the record and did not show the same."""
    aside = put_aside(found.aside)
    if found.standing is Standing.VARIES:
        return CellVerdict(Verdict.NOT_DETERMINISTIC, f"{found.why} {_VARIES}", found.diff)
    verdict = Verdict.CANNOT_TELL if found.standing is Standing.UNKNOWN else Verdict.DIFFERENT
    return CellVerdict(verdict, f"{found.why} {aside}".rstrip(), found.diff)


def _stream(run: Showing, name: str) -> str:
    return "".join(
        text_of(each.get("text")) for each in run.outputs if _kind(each) == "stream" and each.get("name") == name
    )


def _kind(output: Output) -> object:
    return output.get("output_type") if isinstance(output, dict) else None


def _judge_failure(status: str, outputs: Sequence[Output]) -> CellVerdict | None:
    """How the replay of a cell failed, if it did."""
    if status == "ok":
        return None
    error = _error(outputs)
    if status == "timeout":
        return CellVerdict(Verdict.TIMED_OUT, f"{_WORDS[status]}.")
    if status == "error" and error is not None:
        text = f"{text_of(error.get('ename'))}: {text_of(error.get('evalue'))}"
        return CellVerdict(Verdict.FAILED, f"It raised {text[:500]}")
    return CellVerdict(Verdict.FAILED, f"{_WORDS.get(status, 'It failed')}.")


def _error(outputs: Sequence[Output]) -> Output | None:
    return next((each for each in outputs if _kind(each) == "error"), None)
