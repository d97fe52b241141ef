"""Cells of attached clients in the session's one queue: whose they are, who hears of them, what becomes of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.integration.kernel_gateway.services.attach.client import Room

OnGateway = Callable[[Callable[[Room], Awaitable[None]]], None]


def test_a_cell_runs_on_the_agents_kernel_under_its_own_header_and_is_recorded(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        await room.run("answer = 42")
        ann = await room.attach("ann")
        cell = await ann.execute("print(answer)")
        assert (await ann.done(cell))["status"] == "ok"
        assert ann.stdout(cell) == "42\n"
        assert ann.of(cell, "execute_input")[0].channel == "iopub"
        assert [each.stdout for each in await room.recorded(1)] == ["42\n"]

    on_gateway(test)


def test_two_clients_and_an_agent_share_one_queue(on_gateway: OnGateway) -> None:
    async def test(room: Room) -> None:
        ann, ben = await room.attach("ann"), await room.attach("ben")
        await room.run("order = []")
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(ann.execute(f"order.append('ann{number}')"))
                group.create_task(room.run(f"order.append('agent{number}')"))
                group.create_task(ben.execute(f"order.append('ben{number}')"))
        last = await ben.execute("print(len(order), len(set(order)))")
        await ben.done(last)
        assert ben.stdout(last) == "15 15\n"
        await ann.until(lambda: "idle" in ann.states(last))
        assert not ann.of(last, "execute_reply"), "a reply is for the one who asked"
        assert ann.stdout(last) == "15 15\n"

    on_gateway(test)
