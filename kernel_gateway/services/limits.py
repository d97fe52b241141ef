"""How often a principal may call: a token bucket each, one second's worth deep."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal

MOST_BUCKETS = 10_000


class Limits:
    """Invocation limits per principal, in memory; a bucket that nobody has used for long is the first to go."""

    def __init__(self, per_second: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = max(per_second, 1.0)
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take_invocation(self, principal: Principal) -> None:
        """Count one invocation; raises RateLimited with the wait until the next is free."""
        now = self._monotonic()
        left, since = self._buckets.pop(principal.id, (self._burst, now))
        left = min(self._burst, left + (now - since) * self.per_second)
        allowed = left >= 1
        self._buckets[principal.id] = (left - 1 if allowed else left, now)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        if not allowed:
            raise RateLimited(
                f"more than {self.per_second:g} invocations a second",
                retry_after_seconds=round((1 - left) / self.per_second, 3),
            )
