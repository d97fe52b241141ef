"""A session is READY before its files are there, and nothing that could miss one happens before they are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kernel_gateway.errors import WorkspaceRestoring
from kernel_gateway.server import sandboxes
from sandcell.models.commands import CommandRequest
from sandcell.models.replays import ReplayRequest
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.attach.client import Room
from tests.integration.kernel_gateway.services.conftest import Gateway, House, house_in
from tests.integration.kernel_gateway.services.replays.conftest import code, notebook, stream
from workspace_sync import DurableWorkspace
from workspace_sync.errors import StoreUnavailable

Run = Callable[[Callable[[Gateway], Coroutine[Any, Any, None]]], None]
SIZE = 100_000
FILES = f"""
import os
os.mkdir('d')
open('d/small', 'w').write('small')
open('spare', 'w').write('spare spare')
os.chmod('d/small', 0o640)
open('large', 'w').write('x' * {SIZE})
os.utime('large', (1_500_000_000, 1_500_000_000))
os.symlink('large', 'link')
os.chmod('d', 0o750)
"""
LOOK = (
    "import os; print(oct(os.stat('d').st_mode & 0o777), oct(os.stat('d/small').st_mode & 0o777),"
    " int(os.stat('large').st_mtime), os.stat('large').st_size, os.readlink('link'))"
)
LOOKED = f"0o750 0o640 1500000000 {SIZE} large\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, short_directory: Path, environments_dir: Path) -> Iterator[Run]:
    """Runs coroutine functions, one after another, on one gateway and one loop."""
    house = house_in(tmp_path_factory.mktemp("data"), short_directory, environments_dir)
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        gateway = runner.run(stack.enter_async_context(house.gateway()))
        yield lambda scenario: runner.run(scenario(gateway))
        runner.run(stack.aclose())


class Gate:
    """Holds the large file back; `gets` counts what was read of the workspace's files."""

    def __init__(self, gateway: Gateway, workspace_id: str) -> None:
        self.opened = threading.Event()
        self.away = False
        self.gets: list[str] = []
        self._files = f"{workspace_id}/workspace/"
        gateway.store.before_get = self._before_get

    def _before_get(self, key: str) -> None:
        if self._files not in key:
            return
        self.gets.append(key.partition(self._files)[2])
        if key.endswith("/large"):
            while not self.opened.wait(0.05):
                if self.away:
                    raise StoreUnavailable("the store does not answer")


async def left(gateway: Gateway) -> Session:
    """A session that has ended, and its workspace in the store."""
    session = await gateway.start()
    assert (await gateway.run(session, FILES)).status == "ok"
    return await gateway.services.sessions.stop(gateway.me, session.id)


def durable(gateway: Gateway, session: Session) -> dict[str, int]:
    store = DurableWorkspace(gateway.store, f"workspaces/sessions/{session.workspace_id}")
    return {each.path: each.size for each in store.list()}


ALL = {"d": 0, "d/small": 5, "large": SIZE, "link": 0, "spare": 11}


@contextlib.asynccontextmanager
async def restoring(gateway: Gateway, workspace_id: str, **body: Any) -> AsyncIterator[tuple[Session, Gate]]:
    """A session whose large file does not come, once everything else has."""
    gate = Gate(gateway, workspace_id)
    try:
        session = await gateway.start(workspace_id=workspace_id, **body)
        assert session.status == "READY"

        async def all_but_one() -> bool:
            left = (await gateway.show(session)).sync.restoring
            assert left is not None
            return (left.files_left, left.bytes_left) == (1, SIZE)

        await gateway.until(all_but_one)
        yield session, gate
    finally:
        gate.opened.set()


async def pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content


def looks(gateway: Gateway, session: Session) -> dict[str, Coroutine[Any, Any, Any]]:
    """Everything that can run code or see a file."""
    services, me = gateway.services, gateway.me
    return {
        "code": gateway.run(session, LOOK),
        "javascript": gateway.run(session, "Deno.statSync('large').size", language="javascript"),
        "command": services.commands.run(me, session.id, CommandRequest("wc -c < large")),
        "task": services.commands.run(me, session.id, CommandRequest("wc -c < large", background=True)),
        "list": services.files.list(me, session.id, recursive=True),
        "read": services.files.read_whole(me, session.id, "large", 10**9),
        "write": services.files.write(me, session.id, "written", pieces(b"written")),
        "write_all": services.files.write_all(me, session.id, [("many", b"many")]),
        "remove": services.files.remove(me, session.id, "spare"),
        "variables": services.inspection.variables(me, session.id),
    }


def test_whatever_could_miss_a_file_waits_for_it(shared: Run) -> None:
    async def scenario(gateway: Gateway) -> None:
        before = await left(gateway)
        assert durable(gateway, before) == ALL
        async with restoring(gateway, before.workspace_id) as (session, gate), Room(gateway, session) as room:
            ann = await room.attach("ann")
            restarted = await gateway.services.sessions.restart(gateway.me, session.id)
            assert restarted.generation == 2
            told = await ann.reply(await ann.send("shell", "kernel_info_request", {}), "kernel_info_reply")
            assert told["status"] == "ok", "a client attaches all the same"
            cell = await ann.execute("print(len(open('large').read()))")
            waiting = {name: asyncio.create_task(look) for name, look in looks(gateway, session).items()}
            typed = asyncio.create_task(ann.send("shell", "complete_request", {"code": "open('lar", "cursor_pos": 9}))
            await asyncio.sleep(0.5)  # for what would not wait
            page = await gateway.services.executions.list(gateway.me, session.id)
            assert {each.status for each in page.items} == {"queued"}
            assert [name for name, task in waiting.items() if task.done()] == []
            assert not typed.done()
            assert not ann.of(cell, "execute_input")
            assert gate.gets[0] == "d/small", "the smallest come first"
            gate.opened.set()
            async with asyncio.timeout(120):
                answers = {name: await task for name, task in waiting.items()}
            assert answers["code"].stdout == LOOKED, answers["code"]
            assert answers["command"].stdout == f"{SIZE}\n"
            assert answers["javascript"].outputs[-1]["data"]["text/plain"] == str(SIZE), answers["javascript"]
            assert len(answers["read"]) == SIZE
            assert {"d", "d/small", "large"} <= {each.path for each in answers["list"].items}
            assert (await ann.done(cell))["status"] == "ok"
            assert ann.stdout(cell) == f"{SIZE}\n"
            await ann.reply(await typed, "complete_reply")
            assert (await gateway.show(session)).sync.restoring is None

    shared(scenario)


def test_an_interrupt_and_an_end_wait_for_no_file_and_lose_none(shared: Run) -> None:
    async def scenario(gateway: Gateway) -> None:
        before = await left(gateway)
        services = gateway.services
        async with restoring(gateway, before.workspace_id) as (session, gate):
            first = await gateway.submit(session, LOOK)
            second = await gateway.submit(session, LOOK)
            await services.sessions.interrupt(gateway.me, session.id)
            assert (await services.executions.wait(gateway.me, session.id, first.id)).status == "interrupted"
            await services.executions.interrupt(gateway.me, session.id, second.id)
            assert (await services.executions.wait(gateway.me, session.id, second.id)).status == "interrupted"
            third = await gateway.submit(session, LOOK)
            gate.away = True
            stopped = await services.sessions.stop(gateway.me, session.id)
            assert stopped.ended is not None
            assert (stopped.status, stopped.ended.detail) == ("TERMINATED", "it was stopped on request")
            ended = await services.executions.get(gateway.me, session.id, third.id)
            assert ended.status in {"interrupted", "rejected"}
            assert not gate.opened.is_set()
        assert services.spool.waiting() == [], "a part of a workspace is kept nowhere"
        assert durable(gateway, before) == ALL
        again = await gateway.start(workspace_id=before.workspace_id)
        assert (await gateway.run(again, LOOK)).stdout == LOOKED

    shared(scenario)


def test_a_replay_copies_what_another_session_still_waits_for(shared: Run) -> None:
    async def scenario(gateway: Gateway) -> None:
        before = await left(gateway)
        request = ReplayRequest(notebook=msgspec.Raw(notebook(code(LOOK, stream(LOOKED)))), inputs=before.workspace_id)
        async with restoring(gateway, before.workspace_id):
            replay = await gateway.services.replays.start(gateway.me, request)

            async def over() -> bool:
                return (await gateway.services.replays.get(gateway.me, replay.id)).status != "running"

            await gateway.until(over)
            done = await gateway.services.replays.get(gateway.me, replay.id)
            assert done.status == "done", done

    shared(scenario)


def test_while_the_store_is_away_code_is_refused_and_the_next_call_begins_again(house: House) -> None:
    async def scenario() -> None:
        async with house.gateway(restore_deadline_seconds=1.0) as gateway:
            before = await left(gateway)
            services = gateway.services
            gate = Gate(gateway, before.workspace_id)
            gate.away = True
            session = await gateway.start(workspace_id=before.workspace_id)
            refused = await gateway.run(session, LOOK)
            assert (refused.status, refused.error and refused.error.name) == ("rejected", "WorkspaceRestoring")
            assert refused.error is not None
            assert f"1 files with {SIZE:,} bytes are still to come" in refused.error.value
            with pytest.raises(WorkspaceRestoring, match="the store does not answer") as caught:
                await services.files.list(gateway.me, session.id)
            assert caught.value.retryable
            left_over = (await gateway.show(session)).sync.restoring
            assert left_over is not None
            assert (left_over.files_left, "the store does not answer" in (left_over.error or "")) == (1, True)
            gate.opened.set()
            assert (await gateway.run(session, LOOK)).stdout == LOOKED
            assert gate.gets.count("d/small") == 1, "what has come is not fetched again"
            assert (await gateway.show(session)).generation == 1
            assert durable(gateway, before) == ALL

    asyncio.run(scenario())


def test_a_service_that_is_cut_off_while_it_restores_begins_again_by_itself(house: House) -> None:
    async def scenario() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            before = await left(gateway)
            gate = Gate(gateway, before.workspace_id)
            session = await gateway.start(workspace_id=before.workspace_id)
            queued = await gateway.submit(session, LOOK)
            gate.away = True  # else a thread of this process waits on while the service ends
            assert not Path(house.settings.data_dir, "sandboxes", session.id, "workspace-ready").exists()
        async with house.gateway() as gateway:

            async def restored() -> bool:
                return Path(house.settings.data_dir, "sandboxes", session.id, "workspace-ready").exists()

            await gateway.until(restored)
            done = await gateway.services.executions.wait(gateway.me, session.id, queued.id)
            assert (done.status, done.stdout) == ("ok", LOOKED)
            await gateway.services.sessions.stop(gateway.me, session.id)
            assert durable(gateway, before) == ALL

    asyncio.run(scenario())


def test_a_sandbox_that_dies_while_it_is_filled_is_replaced_and_filled_again(shared: Run) -> None:
    async def scenario(gateway: Gateway) -> None:
        before = await left(gateway)
        async with restoring(gateway, before.workspace_id) as (session, gate):
            waiting = await gateway.submit(session, LOOK)
            places = sandboxes.make_runtime(gateway.services.settings).places.of(session.id)
            os.kill(int((places.bundle / "pid").read_text()), signal.SIGKILL)
            gate.away = True

            async def noticed() -> bool:
                await gateway.services.upkeep.sweep()
                return gate.gets.count("d/small") == 2

            await gateway.until(noticed)
            gate.opened.set()
            done = await gateway.services.executions.wait(gateway.me, session.id, waiting.id)
            assert (done.status, done.stdout, done.generation) == ("ok", LOOKED, 2)
            await gateway.services.sessions.stop(gateway.me, session.id)
            assert durable(gateway, before) == ALL

    shared(scenario)
