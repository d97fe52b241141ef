"""How often: token buckets of each principal's calls, and of each address's failures to say who it is."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal
from kernel_gateway.settings import Settings

MOST_BUCKETS = 10_000
REQUESTS_BURST_SECONDS = 5.0
"""So many seconds' worth of requests may come at once: a client that shows a list asks for what is in it."""
FAILURES_BURST_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 5.0
"""How long a failed authentication is answered later at most."""


class Buckets:
    """A token bucket for each key, in memory; one that has not been used for long is the first to go."""

    def __init__(self, per_second: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> float:
        """Take one and return 0; when there is none, the seconds until there is."""
        left = self._level(key)
        allowed = left >= 1
        self._set(key, left - 1 if allowed else left)
        return 0.0 if allowed else (1 - left) / self.per_second

    def owe(self, key: Hashable, most_seconds: float) -> float:
        """Take one in any case; the seconds until it is paid for, at most these."""
        left = max(self._level(key) - 1, -most_seconds * self.per_second)
        self._set(key, left)
        return max(0.0, -left) / self.per_second

    def _level(self, key: Hashable) -> float:
        now = self._monotonic()
        left, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + max(now - since, 0.0) * self.per_second)

    def _set(self, key: Hashable, left: float) -> None:
        self._buckets[key] = (left, self._monotonic())
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)


class Limits:
    """How often a principal may ask, and start something; how often an address may fail to say who it is."""

    def __init__(
        self,
        invocations: float,
        requests: float = 1_000.0,
        failures: float = 1_000.0,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._invocations = Buckets(invocations, max(invocations, 1.0), monotonic)
        self._requests = Buckets(requests, max(requests * REQUESTS_BURST_SECONDS, 1.0), monotonic)
        self._failures = Buckets(failures, max(failures * FAILURES_BURST_SECONDS, 1.0), monotonic)

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Those that the settings say."""
        invocations, requests = settings.invocations_per_second, settings.requests_per_second
        return cls(invocations, requests, settings.failed_authentications_per_second)

    def take_invocation(self, principal: Principal) -> None:
        """Count one invocation; raises RateLimited with the wait until the next is free."""
        _take(self._invocations, principal, "invocations")

    def take_request(self, principal: Principal) -> None:
        """Count one request of any kind; raises RateLimited."""
        _take(self._requests, principal, "requests")

    def pause_after_failure(self, address: str) -> float:
        """Count one credential that does not count; the seconds after which that is to be answered.

        Who fails often waits. No caller is refused for it, nor is one who comes from the same address with a credential
        that counts: a whole company may have one address.
        """
        return self._failures.owe(address, LONGEST_PAUSE_SECONDS)


def _take(buckets: Buckets, principal: Principal, what: str) -> None:
    wait = buckets.take(principal.id)
    if wait:
        raise RateLimited(f"more than {buckets.per_second:g} {what} a second", retry_after_seconds=round(wait, 3))
