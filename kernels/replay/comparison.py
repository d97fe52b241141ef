"""Whether two runs of a cell showed the same. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernels.outputs import Output


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
    return Comparison(same=list(recorded) == list(replayed))
