"""How long a mirror pauses after a flush that failed."""

from __future__ import annotations

from workspace_sync import TransferLimits


def test_pauses_double_up_to_the_longest() -> None:
    limits = TransferLimits(retry_seconds=0.5, retry_max_seconds=30.0)
    pauses = [limits.pause_seconds(failures, 1.0) for failures in range(1, 9)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert limits.pause_seconds(10**9, 1.0) == 30.0


def test_pauses_are_spread_over_half_their_length() -> None:
    limits = TransferLimits(retry_seconds=0.5, retry_max_seconds=30.0)
    assert [limits.pause_seconds(3, jitter) for jitter in (0.0, 0.5, 1.0)] == [1.0, 1.5, 2.0]
