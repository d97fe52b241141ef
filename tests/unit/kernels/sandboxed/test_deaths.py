"""Why a kernel ended, when what the control group counted cannot be had in time."""

from __future__ import annotations

import asyncio

import pytest

from kernels.errors import DeadlineExceeded, SandboxGone
from kernels.guest_client.client import KernelExit
from kernels.sandbox import SandboxUsage
from kernels.sandboxed import deaths
from kernels.sandboxed.deaths import MemoryKills, kernel_death, sandbox_death

KILLED = KernelExit(generation=1, exit_code=None, signal="SIGKILL")


async def never() -> SandboxUsage:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_death_is_told_without_what_memory_has_to_do_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        kills = MemoryKills(never, answer_seconds=0.01)
        await kills.start()
        kills.note_life()
        assert (await kernel_death(KILLED, kills)).cause == "signal"
        assert (await sandbox_death(kills)).cause == "sandbox"
        with pytest.raises(DeadlineExceeded):
            await kills.since()
        await kills.aclose()
        assert "memory_kills_not_read" in caplog.text

    asyncio.run(scenario())


def test_a_reading_that_heeds_no_cancellation_holds_up_no_death() -> None:
    async def scenario() -> None:
        released = asyncio.Event()

        async def stubborn() -> SandboxUsage:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue
            raise SandboxGone("it comes too late")

        readings = iter([stubborn(), never()])
        kills = MemoryKills(lambda: next(readings), answer_seconds=0.01)
        kills.note_life()
        await asyncio.sleep(0)
        assert (await kernel_death(KILLED, kills)).cause == "signal"
        released.set()
        await kills.aclose()

    asyncio.run(scenario())


def test_kills_are_counted_again_once_memory_may_have_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deaths, "PAUSE_SECONDS", 0)

    async def scenario() -> None:
        crossings: int | None = None
        readings = 0

        async def read() -> SandboxUsage:
            nonlocal readings
            readings += 1
            return SandboxUsage(1, 1, 100, 0.0, 1, 0, 0, readings)

        async def live() -> int:
            kills.note_life()
            await asyncio.sleep(0.01)
            return readings

        kills = MemoryKills(read, lambda: crossings)
        assert [await live(), await live()] == [1, 2], "nobody knows whether it may have"
        crossings = 0
        assert [await live(), await live()] == [3, 3]
        crossings = 1
        assert [await live(), await live()] == [4, 4]
        await kills.aclose()

    asyncio.run(scenario())


def test_what_was_counted_a_moment_ago_is_not_counted_again_while_memory_stays_far_away() -> None:
    async def scenario() -> None:
        counted, crossings = list[None](), [3]

        async def usage() -> SandboxUsage:
            counted.append(None)
            return SandboxUsage(1, 1, 100, 0.0, 1, 7, 0, 0)

        kills = MemoryKills(usage, lambda: crossings[0])
        kills.note(7)
        kills.note_life()
        await asyncio.sleep(0)
        assert counted == []
        assert await kills.since() is None, "those were before"
        crossings[0] += 1
        before = len(counted)
        kills.note_life()
        await asyncio.sleep(0)
        assert len(counted) == before + 1
        await kills.aclose()

    asyncio.run(scenario())
