"""The verdict on a cell that was run again: a small table over what was recorded and what came of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kernels.outputs import Output
from kernels.replay.bundles import text_of
from kernels.replay.comparison import Comparison, compare


class Verdict(StrEnum):
    """What a replay says of one cell."""

    SAME = "same"
    DIFFERENT = "different"
    NOT_DETERMINISTIC = "not_deterministic"
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
_HOW_FAR: Final = "It ended in the same way; how far it had come is not compared."


def judge(
    recorded: Sequence[Output] | None,
    replayed_status: str,
    replayed_outputs: Sequence[Output],
    second: Sequence[Output] | None = None,
    missing_name: str | None = None,
    *,
    recorded_status: str | None = None,
    recorded_at: str | None = None,
    replayed_at: str | None = None,
) -> CellVerdict:
    """The verdict on a cell: `recorded` None when it was never run, `replayed_status` as of an execution.

    `second`: what the cell showed in a second whole run in another fresh session, when there was one.
    `missing_name`: from `kernels.replay.missing_name`. `recorded_status`: of our own cells; a foreign one has None.
    A failure that the record shows too is no failure of the replay: the same one is the same, another is different.
    """
    if replayed_status not in _FAILURES and replayed_status != "ok":
        return CellVerdict(Verdict.NOT_RUN, "It was not run again.")
    failed = _failed(replayed_status, replayed_outputs)
    if recorded is None:
        return failed or CellVerdict(Verdict.NEW, "The record does not say what it shows.")
    before = recorded_status or ("error" if _error(recorded) is not None else "ok")
    found = compare(recorded, replayed_outputs, recorded_at=recorded_at, replayed_at=replayed_at)
    if before == replayed_status and (found.same or replayed_status in _WORDS):
        return CellVerdict(Verdict.SAME, found.why if found.same else _HOW_FAR)
    if failed is not None and missing_name is not None:
        why = f"It needs the name {missing_name!r}, which no cell of the record up to here defines."
        return CellVerdict(Verdict.NEEDS_HIDDEN_STATE, why, found.diff)
    if second is not None and replayed_status != "timeout":
        again = compare(replayed_outputs, second, recorded_at=replayed_at, replayed_at=replayed_at)
        if not again.same:
            return CellVerdict(Verdict.NOT_DETERMINISTIC, f"Two runs of it differ. {again.why}", found.diff)
    return _different(found, before, replayed_status, failed)


def _different(found: Comparison, before: str, status: str, failed: CellVerdict | None) -> CellVerdict:
    if before == status:
        return CellVerdict(Verdict.DIFFERENT, found.why, found.diff)
    if failed is not None:
        return CellVerdict(failed.verdict, failed.why, found.diff)
    ended = f"It ended as {before!r} in the record and as {status!r} now."
    return CellVerdict(Verdict.DIFFERENT, f"{ended} {found.why}".rstrip(), found.diff)


def _failed(status: str, outputs: Sequence[Output]) -> CellVerdict | None:
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
    return next((each for each in outputs if isinstance(each, dict) and each.get("output_type") == "error"), None)
