"""Executions of one sandbox take turns, in the order in which they came, and no more of them wait than may."""

from __future__ import annotations

import asyncio

import pytest

from kernel_gateway.errors import QueueFull
from kernel_gateway.faces.agent_engine.calls import Turns


async def have(turns: Turns, number: int, had: list[int], go: asyncio.Event) -> None:
    async with turns.take():
        had.append(number)
        await go.wait()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_after_the_other_and_a_bounded_number_of_them() -> None:
    async def test() -> None:
        turns, go, had = Turns(2), asyncio.Event(), list[int]()
        tasks = [asyncio.create_task(have(turns, number, had, go)) for number in range(3)]
        await settle()
        assert had == [0]
        with pytest.raises(QueueFull):
            await have(turns, 3, had, go)
        go.set()
        await asyncio.gather(*tasks)
        await have(turns, 4, had, go)
        assert had == [0, 1, 2, 4]

    asyncio.run(test())


def test_one_that_is_cancelled_while_it_waits_leaves_its_place() -> None:
    async def test() -> None:
        turns, go, had = Turns(1), asyncio.Event(), list[int]()
        first, second = (asyncio.create_task(have(turns, number, had, go)) for number in range(2))
        await settle()
        second.cancel()
        await settle()
        third = asyncio.create_task(have(turns, 2, had, go))
        await settle()
        go.set()
        await asyncio.gather(first, third)
        assert had == [0, 2]

    asyncio.run(test())
