"""The token bucket of a principal."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.limits import Limits

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
