"""A sandbox runs once it has been woken, in whatever order the runtime takes what it is asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from kernels.errors import NotListening, SandboxFailed, SandboxGone
from kernels.guest_client import client as guest_client
from kernels.guest_client.client import GuestClient
from kernels.sandbox import PagedOut, SandboxRuntime
from kernels.sandboxed import residence as residence_module
from kernels.sandboxed.residence import IN_USE, MOST_WAKING, Residence, WakingTurns


class SlowRuntime:
    """Moves memory when it is let, whatever was asked for since; the first `failures` thaws fail."""

    def __init__(self, moved_bytes: int = 5, failures: int = 0) -> None:
        self.frozen = False
        self.move = asyncio.Event()
        self.moved_bytes = moved_bytes
        self.failures = failures
        self.thaws = True

    async def page_out(self, _sandbox_id: str) -> PagedOut:
        await self.move.wait()
        self.frozen = self.moved_bytes > 0
        return PagedOut(self.moved_bytes, "" if self.moved_bytes else "no room")

    async def thaw(self, _sandbox_id: str) -> None:
        if self.failures:
            self.failures -= 1
            raise SandboxFailed("not now")
        if not self.thaws:
            await asyncio.Event().wait()
        self.frozen = False
        self.move.set()  # only now does the move begin that was asked for first


def on(runtime: SlowRuntime, test: Callable[[Residence, list[bool]], Awaitable[None]]) -> None:
    async def run() -> None:
        changes: list[bool] = []
        residence = Residence(cast("SandboxRuntime", runtime), "s", lambda: changes.append(residence.stopped))
        async with asyncio.timeout(120):
            await test(residence, changes)
            await residence.aclose()

    asyncio.run(run())


def test_a_move_that_begins_after_the_thaw_does_not_leave_it_stopped() -> None:
    runtime = SlowRuntime()

    async def test(residence: Residence, changes: list[bool]) -> None:
        moving = asyncio.ensure_future(residence.page_out())
        await asyncio.sleep(0)
        assert residence.stopped
        assert await residence.page_out() is IN_USE
        await residence.awake()
        assert (runtime.frozen, residence.stopped, residence.memory) == (False, False, "resident")
        assert await moving is IN_USE
        assert (runtime.frozen, changes) == (False, [True, False])

    on(runtime, test)


def test_what_was_moved_stays_until_it_is_woken() -> None:
    runtime = SlowRuntime()
    runtime.move.set()

    async def test(residence: Residence, changes: list[bool]) -> None:
        assert (await residence.page_out()).moved_bytes == 5
        assert (runtime.frozen, residence.memory, changes) == (True, "paged_out", [True])
        await asyncio.gather(residence.awake(), residence.awake())
        assert (runtime.frozen, residence.memory, changes) == (False, "resident", [True, False])

    on(runtime, test)


def test_nothing_moved_is_not_paged_out() -> None:
    runtime = SlowRuntime(moved_bytes=0)
    runtime.move.set()

    async def test(residence: Residence, changes: list[bool]) -> None:
        assert (await residence.page_out()).why == "no room"
        assert (residence.stopped, residence.memory, changes) == (False, "resident", [True, False])

    on(runtime, test)


def test_who_waits_for_a_sandbox_that_is_let_go_hears_that() -> None:
    """A cancellation would end those who wait: the worker of a session, the loop that looks for idle ones."""
    runtime = SlowRuntime()

    async def test(residence: Residence, _changes: list[bool]) -> None:
        moving = asyncio.ensure_future(residence.page_out())
        await asyncio.sleep(0)
        runtime.thaws = False
        waking = asyncio.ensure_future(residence.awake())
        await asyncio.sleep(0.01)
        await residence.aclose()
        assert await moving is IN_USE
        with pytest.raises(SandboxGone):
            await waking
        with pytest.raises(SandboxGone):
            await residence.awake()

    on(runtime, test)


def test_who_wakes_it_hears_of_a_failure_and_the_next_one_tries_again() -> None:
    runtime = SlowRuntime(failures=1)
    runtime.move.set()

    async def test(residence: Residence, _changes: list[bool]) -> None:
        await residence.page_out()
        with pytest.raises(SandboxFailed):
            await residence.awake()
        assert (runtime.frozen, residence.stopped) == (True, True)
        await residence.awake()
        assert (runtime.frozen, residence.stopped) == (False, False)

    on(runtime, test)


def test_the_deadline_of_a_call_begins_once_the_sandbox_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guest_client, "PROBE_SECONDS", 0.0)

    async def dial(_name: str, *, patience_seconds: float = 0) -> socket.socket:
        raise NotListening(f"nothing listens for {patience_seconds:g} s")

    async def be_slow() -> None:
        await asyncio.sleep(0.01)
        raise SandboxFailed("it does not go on")

    async def run() -> None:
        guest = GuestClient(dial)
        guest.awake = be_slow
        with pytest.raises(SandboxFailed, match="does not go on"):
            await guest.runs_commands()
        await guest.aclose()

    asyncio.run(run())


def waking(count: int, *, short: bool) -> list[Residence]:
    """Sandboxes in swap that share their turns."""
    turns = WakingTurns(lambda: short)
    found = []
    for _ in range(count):
        runtime = SlowRuntime()
        runtime.move.set()
        found.append(Residence(cast("SandboxRuntime", runtime), "s", lambda: None))
        found[-1].turns = turns
    return found


@pytest.mark.parametrize(("short", "awake"), [(False, 4), (True, MOST_WAKING)])
def test_few_come_back_at_a_time_while_memory_is_short(
    monkeypatch: pytest.MonkeyPatch, *, short: bool, awake: int
) -> None:
    monkeypatch.setattr(residence_module, "WAKING_SECONDS", 3600)
    monkeypatch.setattr(residence_module, "LONGEST_TURN_SECONDS", 3600)

    async def test() -> None:
        sandboxes = waking(4, short=short)
        for each in sandboxes:
            await each.page_out()
        waits = [asyncio.ensure_future(each.awake()) for each in sandboxes]
        await asyncio.wait(waits[:awake], timeout=120)
        await asyncio.sleep(0.02)
        assert [each.memory for each in sandboxes].count("resident") == awake
        for each in sandboxes:
            await each.aclose()
        await asyncio.wait(waits)

    asyncio.run(test())


@pytest.mark.parametrize("name", ["WAKING_SECONDS", "LONGEST_TURN_SECONDS"])
def test_all_come_back_in_the_end(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As others have what they held, and where those take too long."""
    for each in ("WAKING_SECONDS", "LONGEST_TURN_SECONDS"):
        monkeypatch.setattr(residence_module, each, 0.01 if each == name else 3600)

    async def test() -> None:
        async with asyncio.timeout(120):
            sandboxes = waking(5, short=True)
            for each in sandboxes:
                await each.page_out()
            await asyncio.gather(*[each.awake() for each in sandboxes])

    asyncio.run(test())
