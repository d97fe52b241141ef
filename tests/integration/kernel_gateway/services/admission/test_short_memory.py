"""A host that runs out of memory while a service lives on it: what starts is refused, what runs goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernel_gateway.errors import NoMemory
from kernel_gateway.services.admission.memory_room import START_BYTES
from kernels.host_memory import HostMemory
from sandcell.models.commands import CommandRequest
from sandcell.models.datasets import RegisterDataset
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.pools.test_pools import declare, find_spares, show_pool, until_ready


class Host:
    """Where there is room for so many starts."""

    def __init__(self, house: House, patch: pytest.MonkeyPatch) -> None:
        self.starts = 100
        reserve = house.settings.memory_reserve_bytes
        patch.setattr(HostMemory, "available_bytes", lambda _: reserve + self.starts * START_BYTES)


@pytest.fixture
def host(house: House, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(house, monkeypatch)


def test_no_sandbox_is_started_where_memory_is_short(house: House, host: Host) -> None:
    """Neither in the place of one that died, nor to describe a file in; what lives does as it did."""

    async def test() -> None:
        async with house.gateway() as gateway:
            services, me = gateway.services, gateway.me
            session = await gateway.start()
            await services.files.write(me, session.id, "kept.csv", _once(b"a\n1\n"))
            await lose_sandbox(house, gateway, session)
            host.starts = 0
            refused = await gateway.run(session, "1")
            assert refused.status == "rejected"
            assert refused.error is not None
            assert refused.error.name == "NoMemory"
            with pytest.raises(NoMemory):
                await services.commands.run(me, session.id, CommandRequest("true"))
            host.starts = 1
            assert await gateway.text(session, "open('kept.csv').read()") == "'a\\n1\\n'"
            host.starts = 0
            await services.sessions.restart(me, session.id)
            assert await gateway.text(session, "6 * 7") == "42", (
                "a kernel in the place of another takes no more than it"
            )
            await services.sessions.stop(me, session.id)
            wanted = RegisterDataset("it", "kept.csv", "csv")
            with pytest.raises(NoMemory):
                await services.datasets.register(me, session.workspace_id, wanted)
            host.starts = 1
            await services.datasets.register(me, session.workspace_id, wanted)

    asyncio.run(test())


@pytest.mark.long
def test_a_pool_gives_a_session_the_memory_that_it_was_about_to_take(house: House, host: Host) -> None:
    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        host.starts = 1
        async with house.gateway() as gateway:
            await gateway.services.upkeep.sweep()
            info = await show_pool(gateway)
            assert (info.ready, info.starting) == (0, 0), "the last room is for who asks for it"
            host.starts = 2

            async def begun() -> bool:
                return (await show_pool(gateway)).starting == 1

            await gateway.until(begun)
            host.starts = 1
            session = await gateway.start()
            info = await show_pool(gateway)
            assert (info.ready, info.starting, info.failures) == (0, 0, 0)
            assert await find_spares(gateway) == set()
            assert await gateway.text(session, "6 * 7") == "42"
            host.starts = 2
            await until_ready(gateway, 1)

    asyncio.run(test())


async def lose_sandbox(house: House, gateway: Gateway, session: Session) -> None:
    pid = Path(house.settings.data_dir, "sandboxes", session.id, "bundle", "pid").read_text()
    os.kill(int(pid), signal.SIGKILL)

    async def lost() -> bool:
        await gateway.services.upkeep.sweep()
        return (await gateway.show(session)).memory is None

    await gateway.until(lost)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
