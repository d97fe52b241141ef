"""The budget of large requests: in turn, with a deadline, and nothing of it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from kernel_gateway.errors import LimitReached
from kernel_gateway.faces.agentcore.body_memory import BodyMemory


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_who_does_not_fit_waits_and_comes_in_turn() -> None:
    async def scene() -> None:
        memory, order = BodyMemory(100), []

        async def use(name: str, size: int) -> None:
            reservation = await memory.reserve(size)
            order.append(name)
            await asyncio.sleep(0)
            reservation.release()

        first = await memory.reserve(60)
        waiting = [asyncio.create_task(use(name, size)) for name, size in (("large", 90), ("small", 10))]
        await asyncio.sleep(0.01)
        assert order == []  # the small one would fit, and does not overtake
        first.shrink(20)
        await asyncio.sleep(0.01)
        assert order == []
        first.release()
        first.release()
        await asyncio.gather(*waiting)
        assert order == ["large", "small"]
        assert memory.held_bytes == 0

    run(scene())


def test_one_that_is_larger_than_the_budget_goes_alone() -> None:
    async def scene() -> None:
        memory = BodyMemory(100)
        reservation = await memory.reserve(1_000)
        assert memory.held_bytes == 100
        reservation.release()
        assert memory.held_bytes == 0

    run(scene())


def test_the_turn_has_a_deadline() -> None:
    async def scene() -> None:
        memory = BodyMemory(100, turn_seconds=0.05)
        held = await memory.reserve(100)
        with pytest.raises(LimitReached) as caught:
            await memory.reserve(1)
        assert caught.value.retry_after_seconds > 0
        held.release()
        (await memory.reserve(100)).release()
        assert memory.held_bytes == 0

    run(scene())


def test_who_gives_up_lets_the_next_one_in() -> None:
    async def scene() -> None:
        memory = BodyMemory(100)
        held = await memory.reserve(50)
        large = asyncio.create_task(memory.reserve(100))
        small = asyncio.create_task(memory.reserve(50))
        await asyncio.sleep(0)
        large.cancel()
        (await small).release()
        held.release()
        assert memory.held_bytes == 0

    run(scene())


def test_a_turn_that_comes_while_its_owner_is_cancelled_is_given_back() -> None:
    async def scene() -> None:
        memory = BodyMemory(100)
        held = await memory.reserve(100)
        waiting = asyncio.create_task(memory.reserve(100))
        await asyncio.sleep(0)
        held.release()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert memory.held_bytes == 0

    run(scene())
