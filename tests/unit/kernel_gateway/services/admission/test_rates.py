"""The token bucket of a principal."""

from __future__ import annotations

import contextlib

import pytest

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.rates import Limits

ONE, OTHER = Principal("1", "one", admin=False), Principal("2", "other", admin=False)


def test_a_second_holds_as_many_as_the_limit_says_and_says_when_to_come_back() -> None:
    now = [100.0]
    limits = Limits(30, monotonic=lambda: now[0])
    for _ in range(30):
        limits.take_invocation(ONE)
    with pytest.raises(RateLimited) as refused:
        limits.take_invocation(ONE)
    limits.take_invocation(OTHER)
    assert 0 < refused.value.retry_after_seconds <= 0.034
    now[0] += refused.value.retry_after_seconds + 0.001
    limits.take_invocation(ONE)
    with pytest.raises(RateLimited):
        limits.take_invocation(ONE)


def test_a_long_rest_gives_no_more_than_one_second_holds() -> None:
    now = [0.0]
    limits = Limits(2, monotonic=lambda: now[0])
    now[0] = 1e6
    limits.take_invocation(ONE)
    limits.take_invocation(ONE)
    with pytest.raises(RateLimited):
        limits.take_invocation(ONE)


def test_less_than_one_a_second() -> None:
    now = [0.0]
    limits = Limits(0.1, monotonic=lambda: now[0])
    limits.take_invocation(ONE)
    with pytest.raises(RateLimited) as refused:
        limits.take_invocation(ONE)
    assert refused.value.retry_after_seconds == pytest.approx(10)


def test_requests_are_counted_apart_and_may_come_in_a_burst() -> None:
    now = [0.0]
    limits = Limits(1, 10, monotonic=lambda: now[0])
    limits.take_invocation(ONE)
    for _ in range(50):
        limits.take_request(ONE)
    with pytest.raises(RateLimited, match="10 requests a second"):
        limits.take_request(ONE)
    limits.take_request(OTHER)
    now[0] += 1
    for _ in range(10):
        limits.take_request(ONE)
    with pytest.raises(RateLimited):
        limits.take_request(ONE)


def test_who_fails_often_is_answered_later_and_no_other_address_is() -> None:
    now = [0.0]
    limits = Limits(1, 1, 2, monotonic=lambda: now[0])
    assert [limits.pause_after_failure("a") for _ in range(20)] == [0.0] * 20
    assert [limits.pause_after_failure("a") for _ in range(12)] == [min(0.5 * n, 5.0) for n in range(1, 13)]
    assert limits.pause_after_failure("b") == 0.0
    now[0] += 100
    assert limits.pause_after_failure("a") == 0.0


def test_gateways_together_let_through_what_one_would() -> None:
    now = [0.0]
    each = {name: Limits(30, monotonic=lambda: now[0]) for name in ("a", "b", "c")}
    counted: dict[tuple[str, str, str], int] = {}
    for limits in each.values():
        limits.share()
        limits.note_others({})
    let_through = 0
    for tick in range(6_000):  # a minute of asking at every gateway, a hundred times a second
        now[0] = tick / 100
        for limits in each.values():
            with contextlib.suppress(RateLimited):
                limits.take_invocation(ONE)
                let_through += 1
        if tick % 80 == 79:
            for name, limits in each.items():
                counted |= {(name, *what): count for what, count in limits.list_changed().items()}
                limits.note_others({what: count for what, count in counted.items() if what[0] != name})
    assert 0.95 * 30 * 60 <= let_through <= 30 * 60 + 3 * 2 * 30
    each["a"].take_invocation(OTHER)


def test_a_gateway_that_begins_or_begins_again_is_charged_for_nothing_of_before() -> None:
    now = [0.0]
    limits = Limits(30, monotonic=lambda: now[0])
    limits.share()
    limits.note_others({("a", "invocations", ONE.id): 1_000_000})
    for _ in range(30):
        limits.take_invocation(ONE)
    now[0] += 1
    limits.note_others({("a", "invocations", ONE.id): 10})  # the other one has begun again
    for _ in range(20):
        limits.take_invocation(ONE)
    with pytest.raises(RateLimited):
        limits.take_invocation(ONE)
    assert limits.list_changed() == {("invocations", ONE.id): 50}
    assert limits.list_changed() == {}


def test_what_the_others_could_not_be_told_is_told_next_time() -> None:
    limits = Limits(30)
    limits.share()
    limits.take_invocation(ONE)
    limits.pause_after_failure("192.0.2.1")
    changed = limits.list_changed()
    limits.take_invocation(ONE)
    limits.put_back(changed)
    assert limits.list_changed() == {("invocations", ONE.id): 2, ("failures", "192.0.2.1"): 1}
    assert limits.list_changed() == {}
