"""Service, launcher or both are killed at random moments under load: what was acknowledged comes true, and once."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable

import pytest

from tests.kill_trial.kills import KINDS
from tests.kill_trial.trial import Plan, run_trial
from tests.running_service import RunningService

SEED = "KILLS_SEED"
"""The variable that has a trial's random numbers drawn once more."""
LONG = (pytest.mark.long, pytest.mark.timeout(7200))


@pytest.mark.parametrize(
    ("kills", "sessions", "database", "kinds"),
    [
        (3, 2, "sqlite", KINDS),
        pytest.param(100, 8, "sqlite", ("service",), marks=LONG, id="100 of the service"),
        pytest.param(100, 8, "sqlite", ("launcher",), marks=LONG, id="100 of the launcher"),
        pytest.param(100, 8, "sqlite", ("both",), marks=LONG, id="100 of both"),
        pytest.param(30, 8, "sqlite", KINDS, marks=LONG),
        pytest.param(30, 8, "postgresql", KINDS, marks=LONG),
    ],
)
def test_what_was_acknowledged_comes_true_once_whatever_is_killed(
    make_service: Callable[..., RunningService],
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    kills: int,
    sessions: int,
    database: str,
    kinds: Iterable[str],
) -> None:
    url = "" if database == "sqlite" else request.getfixturevalue("postgresql").create_database()
    seed = int(os.environ.get(SEED, random.SystemRandom().randrange(1_000_000)))
    service = make_service(requests_per_second=10_000, invocations_per_second=10_000, database=url)
    verdict = run_trial(service, Plan(seed, kills, sessions, kinds=tuple(kinds)))
    with capsys.disabled():
        print(f"\n{verdict.table()}")
    assert not verdict.findings, "\n".join([f"{SEED}={seed}", *verdict.findings])
    assert verdict.seen["cells ok"]
