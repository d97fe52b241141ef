"""How many sandboxes a pool should have, and what it counts."""

from __future__ import annotations

from typing import cast

from kernel_gateway.services.pools.pool import LONGEST_PAUSE_SECONDS, USUAL_SIZE, Pool
from kernel_gateway.services.pools.spare_sandbox import SpareSandbox
from kernels.environment import Environment, PoolSize


class Spare:
    """Stands for a sandbox that is ready: here it is only counted."""

    usable = True
    memory_bytes = 60_000_000


def make_pool(least: int, most: int, ready: int = 0) -> Pool:
    pool = Pool(Environment("python", "/root", "sha256:0", pool=PoolSize(least, most)), window_seconds=60)
    pool.ready.extend(cast("SpareSandbox", Spare()) for _ in range(ready))
    return pool


def test_a_pool_is_as_large_as_what_was_asked_for_lately() -> None:
    pool = make_pool(1, 3)
    assert pool.target(0) == 1
    for _ in range(5):
        assert pool.take(10) is None
    assert pool.target(10) == 3
    assert pool.target(69) == 3
    assert pool.target(70) == 1
    info = pool.describe(70)
    assert (info.least, info.most, info.target, info.hits, info.misses) == (1, 3, 1, 0, 5)


def test_one_that_is_reserved_is_not_replaced_before_its_session_has_it() -> None:
    pool = make_pool(2, 2, ready=2)
    taken = pool.take(0)
    assert taken is not None
    assert pool.missing(0) == 0
    pool.put_back(taken)
    assert (pool.missing(0), pool.describe(0).hits, len(pool.ready)) == (0, 0, 2)
    assert pool.take(0) is taken, "the one that has waited longest"
    pool.reserved.clear()
    assert (pool.missing(0), pool.describe(0).hits) == (1, 1)


def test_it_is_known_since_when_there_is_none_left() -> None:
    pool = make_pool(2, 2, ready=2)
    assert pool.take(5) is not None
    assert pool.emptied < 0
    assert pool.take(6) is not None
    assert pool.take(7) is None
    assert pool.emptied == 6


def test_what_is_too_much_is_given_away_but_not_what_starts_hold() -> None:
    pool = make_pool(0, 5, ready=3)
    assert pool.take(0) is not None
    assert len(pool.take_surplus(0)) == 2
    assert pool.take_surplus(100) == []
    assert pool.missing(100) < 0


def test_failures_make_the_pool_wait_longer_each_time_until_one_starts() -> None:
    pool = make_pool(1, 1)
    pauses = []
    for _ in range(8):
        pool.note_failure(0)
        pauses.append(next(second for second in range(100) if pool.missing(second)))
    assert pauses == [1, 2, 4, 8, 16, 32, 60, LONGEST_PAUSE_SECONDS]
    assert pool.describe(0).failures == 8
    pool.note_started(0.5, 70_000_000)
    pool.note_failure(100)
    assert pool.missing(101) == 1


def test_memory_is_what_was_measured_and_for_those_that_start_what_the_last_one_took() -> None:
    pool = make_pool(1, 4, ready=1)
    pool.starting = 2
    assert pool.memory_bytes == 60_000_000 + 2 * USUAL_SIZE
    pool.note_started(0.5, 70_000_000)
    assert pool.memory_bytes == 60_000_000 + 2 * 70_000_000
    assert pool.next_bytes == 70_000_000
