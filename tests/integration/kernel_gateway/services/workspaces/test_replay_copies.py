"""What is copied for a replay's session is gone when the session does not come to be."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

import msgspec

from sandcell.models.commands import CommandRequest
from sandcell.models.replays import ReplayRequest
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.replays.conftest import code, notebook
from workspace_sync.errors import ObjectNotFound


async def stopped_while_copying(gateway: Gateway, workspaces: Path) -> None:
    session = await gateway.start()
    await gateway.services.commands.run(gateway.me, session.id, CommandRequest("echo 1 > a; echo 2 > b; echo 3 > c"))
    await gateway.services.sessions.stop(gateway.me, session.id)
    before = sorted(workspaces.iterdir())
    reached, released, copies = threading.Event(), threading.Event(), list[str]()

    def before_put(key: str) -> None:
        if session.id not in key and not reached.is_set():
            copies.append(key.split("/")[2])
            reached.set()
            assert released.wait(120)

    gateway.store.before_put = before_put
    replays = gateway.services.replays
    request = ReplayRequest(notebook=msgspec.Raw(notebook(code("1"))), inputs=session.workspace_id)
    replay = await replays.start(gateway.me, request)
    assert await asyncio.to_thread(reached.wait, 60)
    stopping = asyncio.create_task(replays.stop(gateway.me, replay.id))
    await asyncio.sleep(0)
    released.set()
    async with asyncio.timeout(120):
        assert (await stopping).status == "stopped"

    mirrors = gateway.services.mirrors
    with contextlib.suppress(ObjectNotFound):  # it waits for the caller that copies
        await mirrors.run(lambda: mirrors.durable(copies[0]).delete("nothing"))

    async def as_before() -> bool:
        return [
            each for each in sorted(workspaces.iterdir()) if any(one.is_file() for one in each.rglob("*"))
        ] == before

    await gateway.until(as_before)


def test_a_replay_that_is_stopped_while_files_are_copied_leaves_none(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            await stopped_while_copying(gateway, Path(house.settings.data_dir) / "store" / "workspaces" / "sessions")

    asyncio.run(test())
