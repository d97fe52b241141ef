"""Whose turn it is to be paged out, when some cannot be."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from kernel_gateway.services.sessions.idle_memory import REFUSED, RETRY_SECONDS, UNDER_PRESSURE, IdleMemory
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.settings import Settings
from kernel_gateway.storage.sessions import SessionRow
from kernels.host_memory import HostMemory
from kernels.sandbox import PagedOut
from tests.doubles.turned_clock import TurnedClock


class Swap:
    """A host whose swap has room for small sandboxes only, until it has for all."""

    def __init__(self) -> None:
        self.room = 1
        self.pressure = 0.0
        self.available = 1 << 60
        self.moved: list[str] = []

    def has_swap(self) -> bool:
        return True

    def pressure_percent(self) -> float:
        return self.pressure

    def available_bytes(self) -> int:
        return self.available


def make_session(number: int, size: int, swap: Swap, clock: TurnedClock) -> LiveSession:
    row = SessionRow(f"{number}", "p", "w", "", "python", 1, 0.0, float(number), 1e9, 10**9, 10**9, None, {})
    live = LiveSession(row, clock)
    sandbox: Any = SimpleNamespace(
        memory="resident",
        live_generation=1,
        workspace_ready=True,
        mirror=SimpleNamespace(state=SimpleNamespace(pending=False)),
    )

    async def page_out(_still_idle: object) -> PagedOut:
        if size > swap.room:
            return PagedOut(0, "no room")
        sandbox.memory = "paged_out"
        swap.moved.append(live.id)
        return PagedOut(size)

    sandbox.kernel = SimpleNamespace(page_out=page_out)
    live.sandbox = sandbox
    return live


def test_those_that_cannot_be_moved_do_not_keep_others_resident() -> None:
    clock, swap = TurnedClock(), Swap()
    clock.advance(10_000)
    sizes = [9] * REFUSED + [1, 1]
    sessions = [make_session(number, size, swap, clock) for number, size in enumerate(sizes)]
    idle = IdleMemory(
        settings=Settings(data_dir="/x", idle_memory_seconds=60),
        clock=clock,
        registry=cast("Any", sessions),
        host=cast("HostMemory", swap),
    )

    def moved() -> list[bool]:
        asyncio.run(idle.look())
        return [live.sandbox.memory == "paged_out" for live in sessions]

    assert moved() == [False] * len(sizes)
    assert moved() == [size == 1 for size in sizes]
    swap.room = 9
    clock.advance(RETRY_SECONDS - 1)
    assert moved() == [size == 1 for size in sizes], "each is asked again after a while only"
    clock.advance(1)
    assert all(moved())


def test_under_pressure_the_one_used_longest_ago_goes_first() -> None:
    """Before their time, a few at each look; for a start that needs memory, until there is enough."""
    clock, swap = TurnedClock(), Swap()
    sessions = [make_session(number, 1, swap, clock) for number in range(2 * UNDER_PRESSURE)]
    used = [str(each.id) for each in sessions]
    idle = IdleMemory(
        settings=Settings(data_dir="/x", idle_memory_seconds=10**12, memory_pressure_percent=10),
        clock=clock,
        registry=cast("Any", sessions[::-1]),
        host=cast("HostMemory", swap),
    )
    swap.pressure = 9.0
    asyncio.run(idle.look())
    assert swap.moved == []
    swap.pressure = 10.0
    asyncio.run(idle.look())
    assert swap.moved == used[:UNDER_PRESSURE]
    swap.pressure = 0.0
    asyncio.run(idle.relieve(lambda: len(swap.moved) >= UNDER_PRESSURE + 2))
    assert swap.moved == used[: UNDER_PRESSURE + 2]
    swap.available = 0
    asyncio.run(idle.look())
    assert swap.moved == used
