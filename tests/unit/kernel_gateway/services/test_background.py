"""Tasks that a service owns: how they are ended."""

from __future__ import annotations

import asyncio

from kernel_gateway.services.background import Background


def test_an_owner_that_closes_ends_all_of_its_tasks_but_the_one_that_closes_it() -> None:
    async def test() -> None:
        background = Background()
        waits = background.spawn(asyncio.Event().wait(), "waits")
        await background.spawn(background.aclose(), "closes")
        assert waits.cancelled()

    asyncio.run(test())
