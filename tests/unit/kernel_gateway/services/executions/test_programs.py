"""How fast output of programs is taken."""

from __future__ import annotations

import pytest

from kernel_gateway.services.executions.programs import BURST_SECONDS, MOST_BYTES_PER_SECOND, Pace


def test_a_burst_is_taken_at_once_and_what_follows_in_its_time() -> None:
    pace, now = Pace(), 1_000.0
    at_once = int(MOST_BYTES_PER_SECOND * BURST_SECONDS)
    assert pace.take(at_once, now) == 0
    assert pace.take(MOST_BYTES_PER_SECOND, now) == pytest.approx(1)
    assert pace.take(MOST_BYTES_PER_SECOND, now + 1) == pytest.approx(1)
    assert pace.take(1, now + 100) == 0


def test_rest_is_not_saved_for_longer_than_a_burst() -> None:
    pace = Pace()
    assert pace.take(1, 10.0) == 0
    assert pace.take(int(MOST_BYTES_PER_SECOND * (BURST_SECONDS + 2)), 1_000.0) == pytest.approx(2)
