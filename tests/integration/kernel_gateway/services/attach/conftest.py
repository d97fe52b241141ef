"""One gateway in this process for a module, and `attached(test)`, which runs a test with a session of its own on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from kernel_gateway.settings import Settings
from tests.integration.kernel_gateway.services.attach.client import Room
from tests.integration.kernel_gateway.services.conftest import TOKEN, House
from tests.shared_guest import share_guest

Test = Callable[[Room], Awaitable[None]]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, short_directory: Path, environments_dir: Path) -> House:
    return House(
        Settings(
            data_dir=str(share_guest(tmp_path_factory.mktemp("data"), short_directory)),
            run_dir=str(short_directory / "run"),
            environments_dir=str(environments_dir),
            token=TOKEN,
            interrupt_grace_seconds=3.0,
            flush_deadline_seconds=1.0,
            drain_seconds=5.0,
            attach_replay_bytes=1_000_000,
            attach_message_bytes=200_000,
            idle_memory_seconds=0,
            keep_variables="off",
        )
    )


@pytest.fixture(scope="module")
def on_gateway(house: House) -> Iterator[Callable[[Test], None]]:
    """Runs coroutine functions, one after another, on one gateway and one loop."""
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        gateway = runner.run(stack.enter_async_context(house.gateway()))
        session = runner.run(gateway.start())

        async def run(test: Test) -> None:
            async with Room(gateway, session) as room:
                await test(room)

        yield lambda test: runner.run(run(test))
        runner.run(stack.aclose())
