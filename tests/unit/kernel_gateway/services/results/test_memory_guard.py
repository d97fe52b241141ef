"""What is said of an execution whose memory runs short: its own end waits for that, and no other's does."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from kernel_gateway.services.background import Background
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.results.memory_guard import SessionMemory
from kernels.environment import MemoryLevels
from kernels.sandbox import SandboxUsage

FULL = SandboxUsage(99, 99, 100, 0.0, 1, 0, 0, 0, memory_held_bytes=99)


class SlowGuest:
    """Takes the word that memory runs out, and answers when a test says so."""

    def __init__(self) -> None:
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.answered = False

    async def guard_memory(self, _held_bytes: int, _limit_bytes: int, *, seconds: float) -> None:
        assert seconds > 0
        self.asked.set()
        await self.go_on.wait()
        self.answered = True


async def _do_nothing(_shortage: object) -> None:
    """What is said of the shortage is no matter here."""


def job_of(number: int) -> Job:
    row = SimpleNamespace(id=str(number), runtime="python")
    return cast("Job", SimpleNamespace(row=row, memory=None, note_memory=_do_nothing))


def test_the_end_of_another_execution_cancels_nothing() -> None:
    async def run() -> None:
        guest, background = SlowGuest(), Background()
        watch = SimpleNamespace(begin=lambda _take: None, end=lambda: None)
        kernel = cast("Any", SimpleNamespace(guest=guest, memory=watch, hub=None))
        find = cast("Any", None)
        memory = SessionMemory("s", find_environment=find, background=background, say=lambda _text: None)
        memory._kernel, memory._levels = kernel, MemoryLevels(85, 95)
        runs, waits = job_of(1), job_of(2)
        try:
            with memory.guard(runs, kernel):
                memory._take(FULL, False)
                await guest.asked.wait()
                await memory.settle(waits)  # one that was refused in the queue, or interrupted there
                guest.go_on.set()
            await memory.settle(runs)
            assert guest.answered
        finally:
            await background.aclose()

    asyncio.run(run())
