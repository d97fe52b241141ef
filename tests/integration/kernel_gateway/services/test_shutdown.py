"""The orderly end of the service, and what may not hold it up."""

from __future__ import annotations

import asyncio

import pytest

from kernel_gateway.services import shutdown
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import House


def test_a_task_that_does_not_heed_its_cancellation_holds_up_no_shutdown(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutdown, "CANCEL_SECONDS", 0.1, raising=False)

    async def be_deaf(released: asyncio.Event) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    async def test() -> None:
        released = asyncio.Event()
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            await gateway.run(session, "x = 41")
            live = gateway.services.registry.get(session.id)
            assert live is not None
            assert live.timer_task is not None
            live.timer_task.cancel()
            deaf = live.timer_task = asyncio.create_task(be_deaf(released))
            await asyncio.sleep(0)
            try:
                async with asyncio.timeout(120):
                    await gateway.services.shutdown.run()
            finally:
                released.set()
            await deaf
        async with house.gateway() as gateway:
            assert await gateway.text(session, "x + 1") == "42"

    asyncio.run(test())


def test_a_session_that_cannot_be_let_go_costs_no_other_its_end(house: House) -> None:
    async def fail() -> None:
        raise OSError(5, "Input/output error")

    async def keep_two() -> list[Session]:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            kept = [await gateway.start() for _ in range(2)]
            for session in kept:
                await gateway.run(session, "x = 41")
            live = gateway.services.registry.get(kept[0].id)
            assert live is not None
            live.late.close = fail  # type: ignore[method-assign]
        return kept

    async def test() -> None:
        kept = await keep_two()
        async with house.gateway() as gateway:
            assert [await gateway.text(session, "x + 1") for session in kept] == ["42", "42"]

    asyncio.run(test())


def test_what_a_cell_had_printed_is_there_when_it_has_gone_on_printing_during_an_orderly_end(house: House) -> None:
    """Its session is let go of in several steps, each of which may take seconds."""
    code = "import time\nfor i in range(60):\n    print(i, flush=True)\n    time.sleep(0.05)"

    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True, drain_seconds=0.1) as gateway:
            session = await gateway.start()
            running = await gateway.submit(session, code)
            await gateway.until_running(session, running)
            live = gateway.services.registry.get(session.id)
            assert live is not None
            assert live.sandbox.kernel is not None
            hub, detach = live.sandbox.kernel.hub, live.sandbox.detach
            assert hub is not None

            async def detach_when_more_was_said() -> None:
                said = hub.position
                async with asyncio.timeout(120):
                    while hub.position < said + 10:
                        await asyncio.sleep(0.01)
                await live.late.flush()  # as its timer would
                await detach()

            live.sandbox.detach = detach_when_more_was_said  # type: ignore[method-assign]
        async with house.gateway() as gateway:

            async def has_ended() -> bool:
                shown = await gateway.services.executions.get(gateway.me, session.id, running.id)
                return shown.status not in ("queued", "running")

            await gateway.until(has_ended)
            outcome = await gateway.services.executions.get(gateway.me, session.id, running.id)
            assert (outcome.status, outcome.late) == ("ok", [])
            assert outcome.stdout == "".join(f"{i}\n" for i in range(60))

    asyncio.run(test())
