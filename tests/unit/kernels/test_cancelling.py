"""Tasks that are ended: waited for, but not for ever."""

from __future__ import annotations

import asyncio

import pytest

from kernels.cancelling import cancel_all


def test_tasks_end_and_one_that_goes_on_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        released = asyncio.Event()

        async def sleep() -> None:
            await asyncio.sleep(600)

        async def fail() -> None:
            raise ValueError

        async def go_on() -> None:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue

        heeds, failed, stubborn = (asyncio.create_task(each(), name=each.__name__) for each in (sleep, fail, go_on))
        await asyncio.sleep(0)
        assert await cancel_all([heeds, failed, stubborn], 0.05) == {stubborn}
        assert heeds.cancelled()
        assert failed.done()
        assert "task_goes_on go_on" in caplog.text
        released.set()
        await stubborn
        assert await cancel_all([stubborn, None, heeds]) == set()
        assert not stubborn.cancelled()
        assert await cancel_all([]) == set()

    asyncio.run(scenario())
