"""The memory that a call holds: as long as its work or its client may need it, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any, cast

from kernel_gateway.faces.agentcore.calls import Call, Face
from kernel_gateway.identity.principal import Caller, Principal
from kernel_gateway.services.admission.fair_shares import FairShares

Test = Callable[[Call, FairShares], Coroutine[Any, Any, None]]


def scene(test: Test) -> None:
    async def run() -> None:
        memory = FairShares("memory", 100, 100)
        face = cast("Face", SimpleNamespace(memory=memory))
        who = Caller(Principal("id", "name", admin=False), "run", "key")
        call = Call(face, who, "us-west-2", None, None, "", "", await memory.take(who.principal.id, 40))
        await test(call, memory)
        assert memory.held == 0

    asyncio.run(run())


def test_room_for_a_result_stays_taken_until_the_work_ends_although_its_client_has_gone() -> None:
    async def test(call: Call, memory: FairShares) -> None:
        body = call.hand_over()
        await call.take_room(50)
        call.end()
        assert memory.held == 90
        assert body is not None
        body.release()
        assert memory.held == 50
        call.end_work(20)

    scene(test)


def test_room_that_is_taken_after_the_client_has_gone_is_given_back_by_the_work() -> None:
    async def test(call: Call, memory: FairShares) -> None:
        body = call.hand_over()
        assert body is not None
        body.release()
        call.end()
        await call.take_room(50)
        assert memory.held == 50
        call.end_work(0)

    scene(test)


def test_a_result_takes_room_until_its_client_has_it() -> None:
    async def test(call: Call, memory: FairShares) -> None:
        body = call.hand_over()
        assert body is not None
        body.release()
        await call.take_room(50)
        call.end_work(20)
        assert memory.held == 20
        call.end()

    scene(test)


def test_a_call_without_work_of_its_own_gives_back_what_its_body_takes() -> None:
    async def test(call: Call, memory: FairShares) -> None:
        assert memory.held == 40
        call.end()

    scene(test)
