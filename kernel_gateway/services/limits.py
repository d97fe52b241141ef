"""How often: token buckets, and the one of each principal's calls, one second's worth deep."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal

MOST_BUCKETS = 10_000


class Buckets:
    """A token bucket for each key, in memory; one that nobody has used for long is the first to go."""

    def __init__(self, per_second: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> float:
        """Take one and return 0; when there is none, the seconds until there is."""
        now = self._monotonic()
        left, since = self._buckets.pop(key, (self._burst, now))
        left = min(self._burst, left + max(now - since, 0.0) * self.per_second)
        allowed = left >= 1
        self._buckets[key] = (left - 1 if allowed else left, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.per_second


class Limits:
    """Invocation limits per principal."""

    def __init__(self, per_second: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._buckets = Buckets(per_second, max(per_second, 1.0), monotonic)

    def take_invocation(self, principal: Principal) -> None:
        """Count one invocation; raises RateLimited with the wait until the next is free."""
        wait = self._buckets.take(principal.id)
        if wait:
            raise RateLimited(f"more than {self.per_second:g} invocations a second", retry_after_seconds=round(wait, 3))
