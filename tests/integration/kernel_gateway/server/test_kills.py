"""Service, launcher or both are killed at random moments under load: what was acknowledged comes true, and once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable

import pytest

from tests.kill_trial.trial import Plan, run_trial
from tests.running_service import RunningService

SEED = "KILLS_SEED"
"""The variable that has a trial's random numbers drawn once more."""


@pytest.mark.parametrize(
    ("kills", "sessions"),
    [(3, 2), pytest.param(100, 8, marks=[pytest.mark.long, pytest.mark.timeout(7200)])],
)
def test_what_was_acknowledged_comes_true_once_whatever_is_killed(
    make_service: Callable[..., RunningService], capsys: pytest.CaptureFixture[str], kills: int, sessions: int
) -> None:
    seed = int(os.environ.get(SEED, random.SystemRandom().randrange(1_000_000)))
    verdict = run_trial(
        make_service(requests_per_second=10_000, invocations_per_second=10_000), Plan(seed, kills, sessions)
    )
    with capsys.disabled():
        print(f"\n{verdict.table()}")
    assert not verdict.findings, "\n".join([f"{SEED}={seed}", *verdict.findings])
    assert verdict.seen["cells ok"]
