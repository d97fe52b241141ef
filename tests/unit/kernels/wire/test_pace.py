"""How long a kernel that floods its channels is left unread."""

from __future__ import annotations

import pytest

from kernels.wire.channel import LONGEST_REST_SECONDS, REST, TURN_SECONDS, Pace


def test_a_short_turn_needs_no_rest() -> None:
    assert Pace().rest_after(10.0, 10.0 + TURN_SECONDS / 2) == 0


def test_long_turns_of_all_channels_add_up() -> None:
    pace, turn = Pace(), 2 * TURN_SECONDS
    assert pace.rest_after(10.0, 10.0 + turn) == pytest.approx(REST * turn)
    assert pace.rest_after(10.0, 10.0 + turn) == pytest.approx(2 * REST * turn)


def test_a_machine_that_stood_still_during_a_turn_does_not_silence_the_kernel() -> None:
    pace = Pace()
    assert pace.rest_after(10.0, 70.0) == LONGEST_REST_SECONDS
    assert pace.rest_after(70.5, 130.0) == LONGEST_REST_SECONDS
