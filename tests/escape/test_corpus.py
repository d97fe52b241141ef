"""The escape corpus: every attempt of every family, under each runtime, in a first and in a reused position.

Under runc also in a sandbox that was ready in a warm pool before its session asked for it. Under gVisor `make escape`
draws a part of those in a reused position: each was made in the first one, and `make test-long` makes all.
"""

from __future__ import annotations

import warnings

import pytest

from tests.escape.attempt import RUNTIMES, Attempt
from tests.escape.conftest import Place, Stand
from tests.escape.families import NAMES, all_families
from tests.escape.position import Scene

pytestmark = pytest.mark.corpus
SANDBOX_ENDED = "died: sandbox"
NOTHING_TOLD = (SANDBOX_ENDED, "timeout")
"""Outcomes that say nothing of the attempt itself, perhaps of what an earlier one has left: it is made again, once."""
MAY_END = {("runsc", "resources"), ("runsc", "call_tables")}
"""Families whose attempts gVisor's sandbox, one process to the host, may end of as a whole: nobody else is harmed."""
FAMILIES = all_families()
TURNS = {"runc": ("first", "reused", "claimed"), "runsc": ("first", "reused")}
SAMPLED = ("runsc", "reused")
EACH = [
    pytest.param(
        place,
        attempt,
        id=f"{place}-{attempt.slug}",
        marks=[pytest.mark.sample("again under gVisor")] * ((runtime, turn) == SAMPLED),
    )
    for runtime in RUNTIMES
    for family in FAMILIES
    for turn in TURNS[runtime]
    for place in [Place(runtime, family, turn)]
    for attempt in family.attempts
]


@pytest.mark.parametrize(("stand", "attempt"), EACH, indirect=["stand"], scope="module")
def test_an_attempt_is_refused_and_nobody_is_harmed(stand: Stand, attempt: Attempt) -> None:
    """The exact answer, the same in the place of a predecessor of whom nothing is to be found."""
    position, yard = stand.position, stand.yard
    assert stand.found == []
    if position.predecessor and attempt.seek:
        assert position.seek(attempt).outcome == "done"
    told = position.attempt(attempt)
    if told.outcome in NOTHING_TOLD and told.outcome not in attempt.refusals(yard.runtime):
        warnings.warn(f"{attempt.name}: {told.outcome}; made again", stacklevel=1)
        told = position.attempt(attempt)
    if told.outcome == SANDBOX_ENDED and (yard.runtime, position.family) in MAY_END:
        assert position.session.run("1", timeout_seconds=180).ok
    else:
        assert told.outcome in attempt.refusals(yard.runtime), told
        assert yard.host.secret not in told.stdout + told.stderr + told.outcome
        assert yard.neighbour.secret not in told.stdout + told.stderr + told.outcome
        if attempt.check is not None:
            attempt.check(Scene(position, told, yard.host, yard.neighbour))
    stand.unharmed()


def test_every_family_of_the_issue_has_attempts() -> None:
    assert {family.name: family.issue for family in FAMILIES} == NAMES
    assert [family.name for family in FAMILIES if not family.attempts] == []


def test_there_are_at_least_150_attempts() -> None:
    assert sum(len(family.attempts) for family in FAMILIES) >= 150
