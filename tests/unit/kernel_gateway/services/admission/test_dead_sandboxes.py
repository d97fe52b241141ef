"""Removals of sandboxes: who waits for which, and how long the service's end does."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import cast

import pytest

from kernel_gateway.services.admission import dead_sandboxes
from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernels.sandbox import SandboxRuntime


class HungRemovals:
    """A runtime whose sandboxes go when they are let go, as where a mount is busy."""

    def __init__(self) -> None:
        self.let_go: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def destroy(self, sandbox_id: str) -> None:
        await self.let_go[sandbox_id].wait()


def removing(runtime: HungRemovals, **owners: str) -> DeadSandboxes:
    dead = DeadSandboxes(cast("SandboxRuntime", runtime))
    for sandbox_id, principal_id in owners.items():
        dead.remove(sandbox_id, principal_id)
    return dead


def test_only_removals_of_the_principal_are_waited_for() -> None:
    async def wait() -> None:
        runtime = HungRemovals()
        dead = removing(runtime, mine="me", other="you")
        assert not await dead.wait_for_one("nobody")
        waiting = asyncio.create_task(dead.wait_for_one("me"))
        await asyncio.sleep(0)
        runtime.let_go["other"].set()
        assert await dead.wait_for_one("you")
        assert not waiting.done()
        runtime.let_go["mine"].set()
        assert await waiting
        assert dead.count() == 0

    asyncio.run(wait())


def test_a_removal_that_hangs_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left is the next start's: it stays on the list, and nothing goes on with it."""
    monkeypatch.setattr(dead_sandboxes, "CLOSE_SECONDS", 0.01)

    async def close() -> None:
        dead = removing(HungRemovals(), hung="me")
        assert await dead.wait_for_one(seconds=0.01)
        await dead.aclose()
        assert "hung" in dead
        assert not await dead.wait_for_one()

    asyncio.run(close())


def test_a_removal_rests_first_and_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops a session has the processors for what is still done for the answer."""
    monkeypatch.setattr(dead_sandboxes, "REST_SECONDS", 0.01)

    async def rest() -> None:
        runtime = HungRemovals()
        dead = removing(runtime, mine="me")
        assert dead.count("me") == 1
        for _ in range(10):  # turns of the loop take no time to speak of
            await asyncio.sleep(0)
        assert not runtime.let_go
        runtime.let_go["mine"].set()
        assert await dead.wait_for_one("me")
        assert dead.count("me") == 0

    asyncio.run(rest())


def test_the_end_leaves_room_for_the_drain_and_the_last_flushes() -> None:
    assert dead_sandboxes.CLOSE_SECONDS <= 30
