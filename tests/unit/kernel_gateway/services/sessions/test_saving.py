"""When a notebook is worth saving: what the store gets stays within a few times what is recorded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.services.sessions.notebooks import SAVED_BYTES_PER_SECOND, worth_saving

SWEEP_SECONDS = 30.0


@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=200))
def test_the_store_gets_a_few_times_what_is_recorded(grown: list[int]) -> None:
    recorded = saved = written = 0
    at = 0.0
    for number, more in enumerate(grown, start=1):
        recorded += more
        now = number * SWEEP_SECONDS
        if more and worth_saving(saved, recorded, now - at):
            written, saved, at = written + recorded, recorded, now
    assert written <= 3 * recorded + SAVED_BYTES_PER_SECOND * SWEEP_SECONDS * len(grown)


@pytest.mark.parametrize(
    ("saved", "total", "waited", "worth"),
    [
        (0, 1, 0.0, True),
        (100_000, 100_500, 30.0, True),
        (10**7, 10**7 + 500, 30.0, False),
        (10**7, 15_000_000, 0.0, True),
    ],
)
def test_a_small_notebook_is_saved_at_each_sweep_and_a_large_one_when_it_has_grown(
    saved: int, total: int, waited: float, worth: bool
) -> None:
    assert worth_saving(saved, total, waited) is worth
