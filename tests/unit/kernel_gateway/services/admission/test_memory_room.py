"""Starts are let in by what is available, what others were promised, and what idle sessions give up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kernel_gateway.errors import NoMemory
from kernel_gateway.services.admission.memory_room import START_BYTES, MemoryRoom
from kernels.host_memory import HostMemory

RESERVE = 1_000


class Host:
    """So much is available; each idle session that is moved gives up as much as a start takes."""

    def __init__(self, starts: int, idle: int = 0) -> None:
        self.available = RESERVE + starts * START_BYTES
        self.idle = idle
        self.room = MemoryRoom(RESERVE, lambda: self.available, relieve=self.relieve, held=lambda: (self.idle, 77))

    async def relieve(self, enough: Callable[[], bool]) -> None:
        while self.idle and not enough():
            self.idle -= 1
            self.available += START_BYTES


async def admitted(host: Host, wanted: int) -> int:
    """How many of so many starts at once are let in."""
    async with AsyncExitStack() as stack:
        for number in range(wanted):
            try:
                await stack.enter_async_context(host.room.start())
            except NoMemory:
                return number
        return wanted


@pytest.mark.parametrize(("starts", "idle", "expected"), [(0, 0, 0), (3, 0, 3), (0, 2, 2), (2, 1, 3)])
def test_as_many_start_as_there_is_room_for(starts: int, idle: int, expected: int) -> None:
    host = Host(starts, idle)
    assert asyncio.run(admitted(host, 5)) == expected
    assert asyncio.run(admitted(host, 5)) == expected, "what was promised is given back"


def test_what_is_made_for_one_start_is_not_taken_by_another() -> None:
    """Both find the host full at the same moment: idle sessions are moved for each of them, and nobody is refused."""

    class Slow(Host):
        async def relieve(self, enough: Callable[[], bool]) -> None:
            await asyncio.sleep(0)
            await super().relieve(enough)
            await asyncio.sleep(0)

    host = Slow(0, idle=3)

    async def start(done: asyncio.Event) -> None:
        async with host.room.start():
            assert not host.room.has_room_to_spare()
            await done.wait()

    async def test() -> None:
        done = asyncio.Event()
        async with asyncio.TaskGroup() as starts:
            for _ in range(3):
                starts.create_task(start(done))
            while host.idle:
                await asyncio.sleep(0)
            with pytest.raises(NoMemory):
                await host.room.start().__aenter__()
            done.set()
        assert host.room.has_room()

    asyncio.run(test())


def test_what_nobody_waits_for_leaves_room_for_one_that_somebody_will() -> None:
    host = Host(2)
    assert host.room.has_room_to_spare()
    with host.room.start_spare():
        assert not host.room.has_room_to_spare()
        assert asyncio.run(admitted(host, 2)) == 1
    assert asyncio.run(admitted(host, 3)) == 2


def test_nothing_is_started_to_spare_while_somebody_waits_for_room() -> None:
    host = Host(0)

    async def relieve(_enough: Callable[[], bool]) -> None:
        host.available += 5 * START_BYTES
        assert host.room.has_room()
        assert not host.room.has_room_to_spare()

    host.relieve = relieve  # type: ignore[method-assign]
    host.room = MemoryRoom(RESERVE, lambda: host.available, relieve=host.relieve, held=lambda: (0, 0))
    assert asyncio.run(admitted(host, 1)) == 1
    assert host.room.has_room_to_spare()


def test_a_refusal_says_who_holds_what() -> None:
    host = Host(0)

    async def start() -> None:
        with pytest.raises(NoMemory) as refused:
            await host.room.start().__aenter__()
        details = refused.value.details
        assert (details["available_bytes"], details["reserve_bytes"]) == (RESERVE, RESERVE)
        assert (details["held_bytes"], details["holding_sessions"]) == (77, 0)

    asyncio.run(start())


def test_nobody_is_moved_while_there_is_room() -> None:
    host = Host(3, idle=2)
    asyncio.run(admitted(host, 3))
    assert host.idle == 2


@pytest.mark.parametrize(("most", "let_in"), [(10.0, False), (25.5, True), (0.0, True)])
def test_nothing_starts_while_all_wait_for_memory(most: float, *, let_in: bool) -> None:
    """There would be room, and more where idle sessions are moved: they are wanted back as fast."""
    host = Host(3, idle=2)
    host.room = MemoryRoom(
        RESERVE,
        lambda: host.available,
        relieve=host.relieve,
        held=lambda: (7, 77),
        stalled=lambda: 25.0,
        most_stalled=most,
    )

    async def start() -> None:
        if let_in:
            async with host.room.start():
                return
        with pytest.raises(NoMemory) as refused:
            await host.room.start().__aenter__()
        assert refused.value.retryable
        assert refused.value.details["stalled_percent"] == 25.0
        assert "25 % of the last ten seconds" in refused.value.message

    asyncio.run(start())
    assert (host.idle, host.room.has_room_to_spare()) == (2, let_in)


def test_without_a_reserve_memory_is_not_looked_at() -> None:
    async def start() -> None:
        async def relieve(_enough: Callable[[], bool]) -> None:
            raise AssertionError

        async with MemoryRoom(0, lambda: 0, relieve=relieve, held=lambda: (0, 0)).start():
            pass

    asyncio.run(start())


def test_the_host_says_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "meminfo").write_text("MemTotal:  8 kB\nMemAvailable:   4 kB\nHugePages_Total:  0\nSwapFree:   0 kB\n")
    host = HostMemory(tmp_path)
    assert (host.available_bytes(), host.has_swap(), host.pressure_percent()) == (4096, False, 0.0)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/memory").write_text("some avg10=12.50 avg60=1.00 total=9\nfull avg10=3.00 avg60=0 total=1\n")
    (tmp_path / "meminfo").write_text("SwapFree:   1 kB\n")
    assert (host.has_swap(), host.pressure_percent()) == (True, 12.5)


@pytest.mark.parametrize(("available_kb", "expected"), [(80, 31.5), (100, 31.5), (101, 0.0)])
def test_who_waits_for_memory_while_there_is_much_waits_for_its_own(
    tmp_path: Path, available_kb: int, expected: float
) -> None:
    (tmp_path / "meminfo").write_text(f"MemTotal:  800 kB\nMemAvailable:   {available_kb} kB\n")
    host = HostMemory(tmp_path)
    assert host.stalled_percent() == 0.0, "the kernel does not say"
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/memory").write_text("some avg10=50.00 avg60=1.00 total=9\nfull avg10=31.50 avg60=0 total=1\n")
    assert (host.pressure_percent(), host.stalled_percent()) == (50.0, expected)
