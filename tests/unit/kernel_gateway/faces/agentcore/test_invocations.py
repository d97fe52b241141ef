"""Joining of repeated invocations: one run for all of them, its result for a while, and no more memory than said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kernel_gateway.faces.agentcore import invocations
from kernel_gateway.faces.agentcore.invocations import Invocations
from kernel_gateway.services.background import Background

KEY = ("principal", "session", "hash")
Test = Callable[[Invocations, list[float]], Coroutine[Any, Any, None]]


def scene(test: Test) -> None:
    async def run() -> None:
        background, now = Background(), [0.0]
        await test(Invocations(background, lambda: now[0]), now)
        await background.aclose()

    asyncio.run(run())


class Work:
    """Counts its runs; ends when told."""

    def __init__(self, payload: bytes = b"{}") -> None:
        self.runs = 0
        self.payload = payload
        self.may_end = asyncio.Event()

    async def __call__(self) -> bytes:
        self.runs += 1
        await self.may_end.wait()
        return self.payload


def test_repeats_join_while_it_runs_and_afterwards() -> None:
    async def test(found: Invocations, now: list[float]) -> None:
        work = Work(b"once")
        first, second = found.run(KEY, work), found.run(KEY, work)
        assert first is second
        work.may_end.set()
        assert await first == b"once"
        assert await found.run(KEY, work) == b"once"
        assert work.runs == 1
        now[0] = invocations.KEPT_SECONDS + 1
        assert found.find(KEY) is None
        await found.run(KEY, work)
        assert work.runs == 2

    scene(test)


def test_others_are_not_joined() -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        work = Work()
        work.may_end.set()
        keys = [KEY, ("other", *KEY[1:]), (KEY[0], "other", KEY[2]), (*KEY[:2], "other"), None, None]
        await asyncio.gather(*(found.run(key, work) for key in keys))
        assert work.runs == len(keys)

    scene(test)


def test_who_waits_cancels_nothing() -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        work = Work(b"whole")
        task = found.run(KEY, work)

        async def client() -> None:
            await asyncio.wait({task})

        gone = asyncio.create_task(client())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        work.may_end.set()
        assert await task == b"whole"

    scene(test)


def test_what_is_kept_is_bounded_in_bytes() -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        quarter = Work(bytes(invocations.KEPT_BYTES // 4))
        quarter.may_end.set()
        keys = [("p", "s", str(number)) for number in range(6)]
        for key in keys:
            await found.run(key, quarter)
        await asyncio.sleep(0)
        assert [found.find(key) is not None for key in keys] == [False, False, True, True, True, True]

    scene(test)


@pytest.mark.parametrize(("more", "kept"), [(0, True), (1, False)])
def test_a_large_result_that_can_be_had_again_is_not_kept(more: int, kept: bool) -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        work = Work(bytes(invocations.MOST_REPEATABLE_BYTES + more))
        first = found.run(KEY, work, repeatable=True)
        assert found.run(KEY, work, repeatable=True) is first
        work.may_end.set()
        await first
        await asyncio.sleep(0)
        assert (found.find(KEY) is not None) is kept

    scene(test)


def test_an_invocation_that_was_ended_with_the_service_is_not_kept() -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        task = found.run(KEY, Work())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert found.find(KEY) is None

    scene(test)


def test_a_session_settles_when_all_that_clients_wait_for_has_ended() -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        first, second = Work(), Work()
        for work in (first, second):
            found.wait_for("session", found.run(None, work))
        settled = asyncio.ensure_future(found.settle("session", 600))
        first.may_end.set()
        await asyncio.sleep(0.01)
        assert not settled.done()
        second.may_end.set()
        await settled
        await found.settle("another session", 600)

    scene(test)


def test_what_nobody_waits_for_holds_up_nothing() -> None:
    async def test(found: Invocations, _now: list[float]) -> None:
        task = found.run(None, Work())
        stays, leaves = found.wait_for("session", task), found.wait_for("session", task)
        found.leave(leaves)
        await found.settle("session", 0.01)
        assert not stays.over.is_set()
        settled = asyncio.ensure_future(found.settle("session", 600))
        await asyncio.sleep(0)
        found.leave(stays)
        found.leave(stays)
        await settled
        assert not task.done()

    scene(test)
