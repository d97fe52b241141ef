"""Images of added packages are made one at a time, and one that nobody waits for is given up, begun or not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from kernels.errors import EnvironmentBuildFailed
from kernels.images.layer import GIVEN_UP
from kernels.launcher.layers import Turn, Work


def work_until_given_up(begun: Event) -> Work:
    def work(given_up: Callable[[], bool]) -> None:
        begun.set()
        while not given_up():
            Event().wait(0.01)
        raise EnvironmentBuildFailed(GIVEN_UP)

    return work


def never(_: Callable[[], bool]) -> None:
    raise AssertionError("it was given up before it began")


def test_what_is_given_up_ends_and_what_waits_behind_it_is_never_begun() -> None:
    async def run(thread: ThreadPoolExecutor) -> None:
        first, second, begun = Turn(), Turn(), Event()
        async with asyncio.timeout(120):
            working = asyncio.create_task(first.take(thread, work_until_given_up(begun)))
            waiting = asyncio.create_task(second.take(thread, never))
            await asyncio.to_thread(begun.wait)
            second.give_up()
            with pytest.raises(EnvironmentBuildFailed, match=GIVEN_UP):
                await waiting
            assert not working.done()
            first.give_up()
            with pytest.raises(EnvironmentBuildFailed, match=GIVEN_UP):
                await working

    with ThreadPoolExecutor(1) as thread:
        asyncio.run(run(thread))


def test_a_caller_who_is_cancelled_waits_for_the_end_of_the_work() -> None:
    async def run(thread: ThreadPoolExecutor) -> None:
        begun = Event()
        async with asyncio.timeout(120):
            working = asyncio.create_task(Turn().take(thread, work_until_given_up(begun)))
            await asyncio.to_thread(begun.wait)
            working.cancel()
            await asyncio.wait([working])
        assert working.cancelled()
        assert await asyncio.wrap_future(thread.submit(lambda: "idle")) == "idle"

    with ThreadPoolExecutor(1) as thread:
        asyncio.run(run(thread))


def test_one_that_is_given_up_before_it_has_a_turn_does_nothing() -> None:
    async def run(thread: ThreadPoolExecutor) -> None:
        turn, seen = Turn(), []
        turn.give_up()
        await turn.take(thread, lambda given_up: seen.append(given_up()))
        assert seen == [True]

    with ThreadPoolExecutor(1) as thread:
        asyncio.run(run(thread))
