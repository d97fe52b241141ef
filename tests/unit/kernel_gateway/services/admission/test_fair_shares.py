"""What is scarce is shared between owners: in turn, none holds all of it, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.errors import LimitReached
from kernel_gateway.services.admission.fair_shares import FairShares, FairThreads, Turns, share_of


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def settle(shares: FairShares, owner: str, size: int = 1) -> asyncio.Task[Any]:
    return asyncio.create_task(shares.take(owner, size))


def test_owners_are_served_in_turn_however_much_one_of_them_asks_for() -> None:
    turns, order = Turns[str](total=1, share=1), list[str]()
    for number in range(4):
        turns.ask("greedy", 1, f"greedy {number}")
    turns.ask("modest", 1, "modest")
    for _ in range(5):
        (item,) = turns.due()
        order.append(item)
        turns.give_back(item.split()[0], 1)
    assert order == ["greedy 0", "modest", "greedy 1", "greedy 2", "greedy 3"]


def test_one_owner_never_holds_everything_and_does_not_hold_up_others_at_its_share() -> None:
    async def scene() -> None:
        shares = FairShares("a place", 4)
        held = [await shares.take("greedy") for _ in range(3)]
        more = settle(shares, "greedy")
        await asyncio.sleep(0)
        assert not more.done()
        async with asyncio.timeout(120), shares.place("modest"):
            assert shares.held == 4
        held[0].release()
        held[0].release()
        (await more).release()
        for each in held:
            each.release()
        assert shares.held == 0

    run(scene())


def test_nobody_overtakes_one_who_waits_for_what_others_hold() -> None:
    async def scene() -> None:
        shares, order = FairShares("memory", 100, 90), list[str]()

        async def use(owner: str, size: int) -> None:
            async with shares.place(owner, size):
                order.append(owner)

        first = await shares.take("first", 60)
        waiting = [asyncio.create_task(use(owner, size)) for owner, size in (("large", 90), ("small", 10))]
        await asyncio.sleep(0)
        first.shrink(20)
        await asyncio.sleep(0)
        assert order == []  # the small one would fit
        first.release()
        await asyncio.gather(*waiting)
        assert order == ["large", "small"]
        assert shares.held == 0

    run(scene())


def test_more_than_a_share_is_a_share() -> None:
    async def scene() -> None:
        shares = FairShares("memory", 100, 60)
        async with shares.place("one", 1_000):
            assert shares.held == 60

    run(scene())


def test_a_turn_has_a_deadline_and_a_line_a_length() -> None:
    async def scene() -> None:
        shares = FairShares("a place", 1, wait_seconds=0.05, most_waiting=1)
        held = await shares.take("one")
        waiting = settle(shares, "one")
        await asyncio.sleep(0)
        with pytest.raises(LimitReached, match="1 of your requests wait for a place"):
            await shares.take("one")
        with pytest.raises(LimitReached, match="for a place") as caught:
            await waiting
        assert caught.value.retry_after_seconds > 0
        held.release()
        (await shares.take("one")).release()
        assert shares.held == 0

    run(scene())


@pytest.mark.parametrize("release_first", [True, False])
def test_who_gives_up_lets_the_next_one_in(release_first: bool) -> None:
    async def scene() -> None:
        shares = FairShares("a place", 1)
        held = await shares.take("one")
        gives_up, stays = settle(shares, "two"), settle(shares, "three")
        await asyncio.sleep(0)
        if release_first:  # its turn comes while it is being cancelled
            held.release()
        gives_up.cancel()
        held.release()
        (await stays).release()
        assert shares.held == 0

    run(scene())


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 7)), max_size=40), st.integers(1, 10))
def test_whatever_is_asked_for_is_served_once_within_bounds_and_given_back(
    asked: list[tuple[str, int]], total: int
) -> None:
    turns = Turns[tuple[str, int, int]](total, share_of(total))
    for number, (owner, size) in enumerate(asked):
        turns.ask(owner, min(size, turns.share), (owner, min(size, turns.share), number))
    served, held = [], list(turns.due())
    while held:
        assert turns.free >= 0
        assert all(turns.held_by(owner) <= turns.share for owner in "abc")
        served.append(held.pop(0))
        turns.give_back(served[-1][0], served[-1][1])
        held += turns.due()
    assert sorted(number for _, _, number in served) == list(range(len(asked)))
    assert turns.free == total


def test_threads_are_shared_in_turn_and_what_waits_is_cancelled_at_the_end() -> None:
    threads, hold, order = FairThreads(2, "tests"), threading.Event(), list[str]()
    first = threads.submit("greedy", hold.wait)
    greedy: list[Future[Any]] = [threads.submit("greedy", lambda: order.append("greedy")) for _ in range(3)]
    threads.of("modest").submit(order.append, "modest").result(120)
    assert order == ["modest"]  # one of two threads is never a single owner's
    hold.set()
    assert [each.result(120) for each in (first, *greedy)] == [True, None, None, None]
    failing = threads.submit("modest", lambda: 1 // 0)
    assert isinstance(failing.exception(60), ZeroDivisionError)
    hold.clear()
    busy, waits = threads.submit("one", hold.wait), threads.submit("one", hold.wait)
    threads.close()
    assert waits.cancelled()
    hold.set()
    assert busy.result(120)
    with pytest.raises(RuntimeError):
        threads.submit("one", hold.wait)
