"""How often: token buckets of each principal's calls, and of each address's failures to say who it is.

They are in memory, so that a call costs no query. Several gateways tell each other, as often as they look at one
another, what they have let through; each takes that from its own buckets afterwards, which may leave them in debt. So
all together let through, over any time, what one would, and each a bucket more until it has heard of the others.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping

from kernel_gateway.errors import RateLimited
from kernel_gateway.identity.principal import Principal
from kernel_gateway.settings import Settings

MOST_BUCKETS = 10_000
REQUESTS_BURST_SECONDS = 5.0
"""So many seconds' worth of requests may come at once: a client that shows a list asks for what is in it."""
FAILURES_BURST_SECONDS = 10.0
MOST_DEBT_SECONDS = 5.0
"""How long a bucket at most has nothing for what other gateways have let through."""
FORGET_SECONDS = 30.0
"""What was counted for others and has not changed for so long begins at nothing."""
LONGEST_PAUSE_SECONDS = 5.0
"""How long a failed authentication is answered later at most."""


class Buckets:
    """A token bucket for each key, in memory; one that has not been used for long is the first to go."""

    def __init__(self, per_second: float, burst: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()
        self.counted: Counted | None = None
        """What was let through here, for other gateways; None where there are none."""

    def take(self, key: Hashable) -> float:
        """Take one and return 0; when there is none, the seconds until there is."""
        left = self._level(key)
        allowed = left >= 1
        self._set(key, left - 1 if allowed else left)
        if allowed and self.counted is not None:
            self.counted.add(key)
        return 0.0 if allowed else (1 - left) / self.per_second

    def owe(self, key: Hashable, most_seconds: float) -> float:
        """Take one in any case; the seconds until it is paid for, at most these."""
        left = max(self._level(key) - 1, -most_seconds * self.per_second)
        self._set(key, left)
        if self.counted is not None:
            self.counted.add(key)
        return max(0.0, -left) / self.per_second

    def give_away(self, key: Hashable, count: int) -> None:
        """So many were let through elsewhere."""
        self._set(key, max(self._level(key) - count, -MOST_DEBT_SECONDS * self.per_second))

    def _level(self, key: Hashable) -> float:
        now = self._monotonic()
        left, since = self._buckets.get(key, (self._burst, now))
        return min(self._burst, left + max(now - since, 0.0) * self.per_second)

    def _set(self, key: Hashable, left: float) -> None:
        self._buckets[key] = (left, self._monotonic())
        self._buckets.move_to_end(key)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)


class Counted:
    """How many were let through by each key; what has changed since it was asked for."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._changed: set[str] = set()

    def add(self, key: Hashable) -> None:
        name, now = str(key), self._monotonic()
        count, since = self._counts.get(name, (0, now))
        self._counts[name] = (count + 1 if now - since < FORGET_SECONDS else 1, now)
        self._counts.move_to_end(name)
        self._changed.add(name)
        if len(self._counts) > MOST_BUCKETS:
            gone, _ = self._counts.popitem(last=False)
            self._changed.discard(gone)

    def take_changed(self) -> dict[str, int]:
        changed, self._changed = self._changed, set()
        return {name: self._counts[name][0] for name in changed}

    def put_back(self, name: str) -> None:
        """Its change was not heard of."""
        if name in self._counts:
            self._changed.add(name)


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
        self._monotonic = monotonic
        self._by_name = {"invocations": self._invocations, "requests": self._requests, "failures": self._failures}
        self._seen: OrderedDict[tuple[str, str, str], int] | None = None

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Those that the settings say."""
        invocations, requests = settings.invocations_per_second, settings.requests_per_second
        return cls(invocations, requests, settings.failed_authentications_per_second)

    def share(self) -> None:
        """Other gateways are to be told from now on."""
        for each in self._by_name.values():
            each.counted = Counted(self._monotonic)

    @property
    def heard(self) -> bool:
        """Whether it is known what others have counted so far: they are to be charged for more only."""
        return self._seen is not None

    def list_changed(self) -> dict[tuple[str, str], int]:
        """What was let through, since it is counted, where that has changed since this was last asked."""
        counted = {name: each.counted.take_changed() for name, each in self._by_name.items() if each.counted}
        return {(name, key): count for name, counts in counted.items() for key, count in counts.items()}

    def put_back(self, changed: Iterable[tuple[str, str]]) -> None:
        """What was listed as changed and the others could not be told."""
        for name, key in changed:
            counted = self._by_name[name].counted
            if counted is not None:
                counted.put_back(key)

    def note_others(self, counted: Mapping[tuple[str, str, str], int]) -> None:
        """What others have let through since they count, by gateway, name and key; one's first look only learns it.

        That one is to have all that may go on to be counted, whenever it changed.
        """
        first, self._seen = self._seen is None, self._seen or OrderedDict()
        for (gateway, name, key), count in counted.items():
            seen = self._seen.pop((gateway, name, key), 0)
            self._seen[gateway, name, key] = count
            news = count - seen if count >= seen else count
            if news and not first and name in self._by_name:
                self._by_name[name].give_away(key, news)
        while len(self._seen) > 3 * MOST_BUCKETS:
            self._seen.popitem(last=False)

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
