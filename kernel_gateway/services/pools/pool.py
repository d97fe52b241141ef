"""The pool of one environment: what is ready, how many there should be, what happened so far. Pure.

Its size follows demand: as many as were asked for within the last `window_seconds`, but at least `least` and at most
`most` of the environment.
"""

from __future__ import annotations

from collections import deque

from kernel_gateway.services.pools.spare_sandbox import SpareSandbox
from kernels.environment import Environment
from sandcell.models.environments import PoolInfo

USUAL_SIZE = 100_000_000
"""What a sandbox with an idle kernel is taken to use until one of the pool was measured."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0


class Pool:
    """Counts are since the service began."""

    def __init__(self, environment: Environment, window_seconds: float) -> None:
        self.environment = environment
        self.ready: deque[SpareSandbox] = deque()
        self.reserved: set[SpareSandbox] = set()
        """Taken by starts that have neither got them nor been refused yet."""
        self.starting = 0
        self.emptied = float("-inf")
        """When the last one that was ready was taken."""
        self._window_seconds = window_seconds
        self._asked: deque[float] = deque()
        self._hits = self._misses = self._failures = 0
        self._seconds_to_ready: float | None = None
        self._each_bytes = USUAL_SIZE
        self._pause_seconds = 0.0
        self._not_before = float("-inf")

    def take(self, now: float) -> SpareSandbox | None:
        """The one that has waited longest; None is a miss."""
        self._asked.append(now)
        while len(self._asked) > self.environment.pool.most:  # more make no difference
            self._asked.popleft()
        spare = next((each for each in self.ready if each.usable), None)
        if spare is None:
            self._misses += 1
            return None
        self._hits += 1
        self.ready.remove(spare)
        self.reserved.add(spare)
        if not self.ready:
            self.emptied = now
        return spare

    def put_back(self, spare: SpareSandbox) -> None:
        """One that was taken and not used: its start was refused."""
        self._hits -= 1
        self.reserved.discard(spare)
        self.ready.appendleft(spare)

    def target(self, now: float) -> int:
        """How many there should be."""
        while self._asked and self._asked[0] <= now - self._window_seconds:
            self._asked.popleft()
        size = self.environment.pool
        return min(max(size.least, len(self._asked)), size.most)

    def missing(self, now: float) -> int:
        """How many more should be started now."""
        if now < self._not_before:
            return 0
        return self.target(now) - len(self.ready) - len(self.reserved) - self.starting

    def take_surplus(self, now: float) -> list[SpareSandbox]:
        """Those ready beyond what there should be, which are the caller's to remove."""
        surplus = len(self.ready) + len(self.reserved) - self.target(now)
        return [self.ready.pop() for _ in range(min(surplus, len(self.ready)))]

    def take_all(self) -> list[SpareSandbox]:
        """All that are ready, which are the caller's to remove."""
        found = list(self.ready)
        self.ready.clear()
        return found

    @property
    def memory_bytes(self) -> int:
        """What it uses, with what those that start will use."""
        return sum(each.memory_bytes for each in self.ready) + self.starting * self._each_bytes

    @property
    def next_bytes(self) -> int:
        """What one more will use."""
        return self._each_bytes

    def note_started(self, seconds: float, memory_bytes: int) -> None:
        """One became ready."""
        self._seconds_to_ready, self._each_bytes, self._pause_seconds = seconds, memory_bytes, 0.0

    def note_failure(self, now: float) -> None:
        """One could not be started: the next try waits, longer each time."""
        self._failures += 1
        self._pause_seconds = min(max(self._pause_seconds * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        self._not_before = now + self._pause_seconds

    def describe(self, now: float) -> PoolInfo:
        """As administrators see it."""
        return PoolInfo(
            least=self.environment.pool.least,
            most=self.environment.pool.most,
            target=self.target(now),
            ready=len(self.ready),
            starting=self.starting,
            hits=self._hits,
            misses=self._misses,
            failures=self._failures,
            seconds_to_ready=None if self._seconds_to_ready is None else round(self._seconds_to_ready, 3),
            memory_bytes=self.memory_bytes,
        )
