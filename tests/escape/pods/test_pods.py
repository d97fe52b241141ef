"""The corpus in pods: each attempt is answered as on a host under runc, or as `differences.py` says, and harms nobody.

Pods are not made in the place of an earlier one, whose users they would get: one position for each family.
"""

from __future__ import annotations

import pytest

from tests.escape.attempt import Attempt
from tests.escape.families import all_families
from tests.escape.pods.conftest import PodStand
from tests.escape.pods.differences import DIFFERENCES, FAMILIES_NOT_MADE, NOT_MADE
from tests.escape.position import Scene

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
NOTHING_TOLD = ("died: sandbox", "timeout")
FAMILIES = [family for family in all_families() if family.name not in FAMILIES_NOT_MADE]
EACH = [
    pytest.param(family, attempt, id=f"{family.name}-{attempt.slug}")
    for family in FAMILIES
    for attempt in family.attempts
    if attempt.slug not in NOT_MADE.get(family.name, {})
]


def expected(family: str, attempt: Attempt) -> str:
    """The outcome in a pod; one that ends with a star begins so."""
    differing = [kind[family][attempt.slug] for kind in DIFFERENCES if attempt.slug in kind.get(family, {})]
    return differing[0] if differing else attempt.expected("runc")


@pytest.mark.parametrize(("pod_stand", "attempt"), EACH, indirect=["pod_stand"], scope="module")
def test_an_attempt_in_a_pod_harms_nobody(pod_stand: PodStand, attempt: Attempt) -> None:
    wanted = expected(pod_stand.position.family, attempt)
    told = pod_stand.position.attempt(attempt)
    if told.outcome in NOTHING_TOLD and told.outcome != wanted:  # by what an earlier one has left
        told = pod_stand.position.attempt(attempt)
    assert told.outcome.startswith(wanted[:-1]) if wanted.endswith("*") else told.outcome == wanted, told
    for secret in (pod_stand.host.secret, pod_stand.neighbour.secret):
        assert secret not in told.stdout + told.stderr + told.outcome
    if attempt.check is not None:
        attempt.check(Scene(pod_stand.position, told, pod_stand.host, pod_stand.neighbour))
    pod_stand.unharmed()


def test_what_is_said_of_pods_is_said_of_attempts_that_there_are() -> None:
    known = {family.name: {attempt.slug for attempt in family.attempts} for family in all_families()}
    for said in (*DIFFERENCES, NOT_MADE):
        assert {name: slugs for name, slugs in said.items() if not slugs.keys() <= known[name]} == {}
    assert FAMILIES_NOT_MADE.keys() <= known.keys()
