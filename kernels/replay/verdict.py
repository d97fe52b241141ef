"""The verdict on a cell that was run again. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kernels.outputs import Output


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
    """
    return CellVerdict(Verdict.NOT_RUN)
