"""When a sandbox's memory is looked at: on an event, again and again where none would come, and never while idle."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from kernels.errors import SandboxFailed
from kernels.sandbox import SandboxRuntime, SandboxUsage
from kernels.sandboxed import memory_watch
from kernels.sandboxed.memory_watch import MemoryWatch

PERCENTS = (85, 95)


class CountedMemory:
    """A runtime whose sandbox uses what a test says, of 100 bytes; with `event` its kernel can say so."""

    def __init__(self, *, event: bool) -> None:
        self.held = self.used = 10
        self.looks = 0
        self.looked = asyncio.Event()
        self.event = os.eventfd(0, os.EFD_NONBLOCK) if event else None

    async def watch_memory(self, _sandbox_id: str, percents: tuple[int, ...]) -> int:
        assert percents == PERCENTS
        if self.event is None:
            raise SandboxFailed("not here")
        return os.dup(self.event)

    async def usage(self, _sandbox_id: str) -> SandboxUsage:
        self.looks += 1
        self.looked.set()
        return SandboxUsage(self.used, self.used, 100, 0.0, 1, 0, 0, 0, memory_held_bytes=self.held)

    def signal(self) -> None:
        assert self.event is not None
        os.eventfd_write(self.event, 1)


Test = Callable[[CountedMemory, MemoryWatch], Awaitable[None]]


def on_watch(test: Test, *, event: bool) -> None:
    async def run() -> None:
        memory = CountedMemory(event=event)
        watch = MemoryWatch(cast("SandboxRuntime", memory), "s")
        try:
            async with asyncio.timeout(120):
                await watch.open(PERCENTS)
                watch.begin(lambda _usage, _began: None)  # the first code of a sandbox: what is held is not known yet
                await memory.looked.wait()
                await asyncio.sleep(0)
                watch.end()
                await test(memory, watch)
        finally:
            await watch.aclose()
            if memory.event is not None:
                os.close(memory.event)

    asyncio.run(run())


async def look(memory: CountedMemory, times: int = 1) -> None:
    for _ in range(times):
        memory.looked.clear()
        await memory.looked.wait()


def test_an_event_is_looked_at_while_code_runs() -> None:
    async def test(memory: CountedMemory, watch: MemoryWatch) -> None:
        seen: asyncio.Queue[tuple[int, bool]] = asyncio.Queue()
        watch.begin(lambda usage, began: seen.put_nowait((usage.memory_held_bytes, began)))
        memory.held = memory.used = 90
        memory.signal()
        assert await seen.get() == (90, False)
        watch.end()
        before = memory.looks
        memory.held = memory.used = 96
        memory.signal()
        await asyncio.sleep(0.05)
        assert memory.looks == before, "nothing is asked while no code runs"
        watch.begin(lambda usage, began: seen.put_nowait((usage.memory_held_bytes, began)))
        assert await seen.get() == (96, True), "what is there when code begins is told as that"

    on_watch(test, event=True)


def test_little_memory_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, "POLL_SECONDS", 0.001)

    async def test(memory: CountedMemory, watch: MemoryWatch) -> None:
        before = memory.looks
        watch.begin(lambda _usage, _began: None)
        await asyncio.sleep(0.05)
        assert memory.looks == before

    on_watch(test, event=True)


@pytest.mark.parametrize(("event", "used"), [(False, 10), (True, 90)], ids=["no events", "pages of files hide them"])
def test_it_is_asked_again_and_again_where_no_event_would_come(
    monkeypatch: pytest.MonkeyPatch, event: bool, used: int
) -> None:
    monkeypatch.setattr(memory_watch, "POLL_SECONDS", 0.001)

    async def test(memory: CountedMemory, watch: MemoryWatch) -> None:
        watch.begin(lambda _usage, _began: None)
        memory.used = used
        if event:
            memory.signal()
        await look(memory, times=5)
        watch.end()
        before = memory.looks
        await asyncio.sleep(0.05)
        assert memory.looks <= before + 1, "one look may have been under way"

    on_watch(test, event=event)


def test_what_ended_is_told_nothing_and_what_began_meanwhile_its_own() -> None:
    async def test(memory: CountedMemory, watch: MemoryWatch) -> None:
        told: list[str] = []
        memory.held = memory.used = 96
        memory.signal()
        watch.begin(lambda _usage, _began: told.append("first"))
        await look(memory)
        watch.end()
        done = asyncio.Event()

        def take(_usage: SandboxUsage, began: bool) -> None:
            told.append(f"second {began}")
            done.set()

        watch.begin(take)
        await done.wait()
        assert told[-1] == "second True"

    on_watch(test, event=True)


def test_events_without_end_are_not_read_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    read, reads = os.read, list[int]()

    def count(descriptor: int, size: int) -> bytes:
        reads.append(descriptor)
        return read(descriptor, size)

    async def test(memory: CountedMemory, watch: MemoryWatch) -> None:
        async def signal_and_wait(times: int) -> None:
            for _ in range(times):
                memory.signal()
                await asyncio.sleep(0)

        monkeypatch.setattr(os, "read", count)
        await signal_and_wait(100)
        assert len(reads) == 1, "one event while no code runs says all there is"
        monkeypatch.setattr(memory_watch, "EVENT_SECONDS", 3600.0)
        watch.begin(lambda _usage, _began: None)
        await signal_and_wait(100)
        assert len(reads) == 2, "those that came meanwhile are one"
        watch.end()
        monkeypatch.setattr(memory_watch, "EVENT_SECONDS", 0.001)
        watch.begin(lambda _usage, _began: None)
        while len(reads) < 10:  # and while code runs they are listened to again and again
            await signal_and_wait(1)

    on_watch(test, event=True)


def test_what_passed_a_share_is_known_before_it_is_looked_at() -> None:
    async def test(memory: CountedMemory, watch: MemoryWatch) -> None:
        before = watch.crossings
        assert before is not None
        watch.begin(lambda _usage, _began: None)
        assert watch.crossings == before
        memory.signal()
        assert watch.crossings is None, "nobody has read it yet"
        await look(memory)
        await asyncio.sleep(0)
        assert watch.crossings == before + 1, "it was far away again at the look"

    on_watch(test, event=True)


@pytest.mark.parametrize("event", [True, False])
def test_one_that_was_prepared_is_not_asked_for_when_the_first_code_begins(event: bool) -> None:
    async def test() -> None:
        memory = CountedMemory(event=event)
        watch = MemoryWatch(cast("SandboxRuntime", memory), "s")
        try:
            assert (await watch.prepare(PERCENTS)).memory_held_bytes == 10
            assert watch.crossings == (0 if event else None)
            await watch.open(PERCENTS)
            watch.begin(lambda _usage, _began: None)
            await asyncio.sleep(0.05)
            assert memory.looks == (1 if event else 2), "without events it cannot be known"
            if event:
                memory.looked.clear()
                memory.signal()
                async with asyncio.timeout(120):
                    await memory.looked.wait()
        finally:
            await watch.aclose()
            if memory.event is not None:
                os.close(memory.event)

    asyncio.run(test())


def test_where_no_event_comes_nothing_is_known() -> None:
    async def test(_memory: CountedMemory, watch: MemoryWatch) -> None:
        assert watch.crossings is None

    on_watch(test, event=False)
