"""Tasks that a service owns: how they are ended."""

from __future__ import annotations

import asyncio

from kernel_gateway.services.background import Background, cancel_all


async def ignore_cancellation(released: asyncio.Event) -> str:
    while not released.is_set():
        try:
            await released.wait()
        except asyncio.CancelledError:
            continue
    return "ended"


def test_tasks_are_cancelled_and_one_that_ignores_it_is_not_waited_for() -> None:
    async def test() -> None:
        released = asyncio.Event()
        deaf = asyncio.create_task(ignore_cancellation(released))
        obedient = asyncio.create_task(asyncio.Event().wait())
        done = asyncio.create_task(asyncio.sleep(0))
        await done
        async with asyncio.timeout(120):
            await cancel_all([None, done, obedient, deaf], 0.01)
        assert obedient.cancelled()
        assert not done.cancelled()
        assert not deaf.done()
        released.set()
        assert await deaf == "ended"
        await cancel_all([], 0.0)

    asyncio.run(test())


def test_an_owner_that_closes_ends_all_of_its_tasks_but_the_one_that_closes_it() -> None:
    async def test() -> None:
        background = Background()
        waits = background.spawn(asyncio.Event().wait(), "waits")
        await background.spawn(background.aclose(), "closes")
        assert waits.cancelled()

    asyncio.run(test())
