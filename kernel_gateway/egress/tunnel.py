"""Bytes both ways between two streams until both have ended, one fails, or nothing has moved for too long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kernel_gateway.egress.budget import Meter
from kernel_gateway.egress.stream import Stream


class Idle:
    """A deadline that every piece that moves puts off."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout = asyncio.timeout(seconds)

    def restart(self) -> None:
        """Start the wait again."""
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)

    def hurry(self, seconds: float) -> None:
        """Wait no longer than this from now on."""
        self._seconds = min(self._seconds, seconds)
        self.restart()

    async def over(self, *both: Coroutine[Any, Any, None]) -> None:
        """Run these concurrently to their end; the first that fails ends all. Raises TimeoutError when idle."""
        tasks = [asyncio.create_task(one) for one in both]
        try:
            async with self._timeout:
                await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def carry(inside: Stream, outside: Stream, meter: Meter) -> None:
    """Carry both directions; the end of one is passed on while the other goes on. Raises OSError, `OverBudget`."""
    idle = Idle(meter.limits.idle_seconds)
    await idle.over(_pump(inside, outside, meter.send, idle), _pump(outside, inside, meter.receive, idle))


async def _pump(source: Stream, target: Stream, count: Callable[[int], None], idle: Idle) -> None:
    while piece := await source.read():
        count(len(piece))
        await target.write(piece)
        idle.restart()
    target.end()
