"""How long a sandbox may take to be saved or restored, by what it holds."""

from __future__ import annotations

from kernels.launcher import client, server, wire
from kernels.oci.checkpoints import SAVING_SECONDS, find_deadline
from kernels.sandbox import MOST_SAVING_SECONDS

GB = 1_000_000_000


def test_what_holds_more_may_take_longer_up_to_a_limit_that_whoever_waits_for_it_outlasts() -> None:
    assert find_deadline(0) == SAVING_SECONDS
    assert find_deadline(2 * GB) == SAVING_SECONDS + 200
    assert find_deadline(100 * GB) == MOST_SAVING_SECONDS
    for verb in (wire.Save, wire.Thaw):
        assert MOST_SAVING_SECONDS < server._SECONDS[verb] < client._SAVING_SECONDS
