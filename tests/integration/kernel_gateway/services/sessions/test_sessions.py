"""Sessions: their clocks, their limits, how they end, and that their files outlive them."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway import errors
from kernel_gateway.server import sandboxes
from kernels.oci import storage
from kernels.oci.namespaces import idmap
from kernels.sandbox import SandboxInfo, SandboxSpec
from sandcell.models.commands import CommandRequest
from sandcell.models.sessions import StartSession
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.lost_kernels import lose_kernels_when_open

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    for each in data:
        yield each


async def read(found: tuple[Any, AsyncIterator[bytes]]) -> bytes:
    return b"".join([chunk async for chunk in found[1]])


async def idle_means_idle(gateway: Gateway) -> None:
    services, me = gateway.services, gateway.me
    session = await gateway.start(idle_timeout_seconds=100, timeout_seconds=1_000)
    gateway.clock.advance(60)
    await gateway.run(session, "1")
    gateway.clock.advance(60)
    await services.files.write(me, session.id, "f", pieces(b"kept"))
    gateway.clock.advance(60)
    for _ in range(3):  # looking on is no activity
        await gateway.show(session)
        await services.executions.list(me, session.id)
        await services.files.list(me, session.id)
    slow = await gateway.submit(session, "import time\ntime.sleep(3600)")
    await gateway.until_running(session, slow)
    gateway.clock.advance(150)
    await asyncio.sleep(0.2)
    assert (await gateway.show(session)).status == "READY", "what runs keeps the session from idling"
    await services.sessions.interrupt(me, session.id)
    await services.executions.wait(me, session.id, slow.id)
    task = await services.commands.run(me, session.id, CommandRequest("sleep 3600", background=True))
    gateway.clock.advance(101)
    await asyncio.sleep(0.2)
    assert (await gateway.show(session)).status == "READY", "so does a background command"
    await services.tasks.stop(me, session.id, task.id)
    gateway.clock.advance(101)
    ended = await gateway.ended(session)
    assert ended.ended is not None
    assert ended.ended.reason == "idle_timeout"
    assert await read(await services.workspaces.read(me, session.workspace_id, "f")) == b"kept"


def test_idle_means_idle(on_gateway: OnGateway) -> None:
    on_gateway(idle_means_idle)


async def hard_end(gateway: Gateway) -> None:
    session = await gateway.start(idle_timeout_seconds=1_000, timeout_seconds=100)
    execution = await gateway.submit(session, "print('so far', flush=True)\nimport time\ntime.sleep(3600)")
    await gateway.until_running(session, execution)
    gateway.clock.advance(101)
    ended = await gateway.ended(session)
    assert ended.ended is not None
    assert ended.ended.reason == "ttl"
    outcome = await gateway.services.executions.get(gateway.me, session.id, execution.id)
    assert (outcome.status, outcome.stdout) == ("interrupted", "so far\n")
    deaf = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(3600)"
    )
    second = await gateway.start(workspace_id=session.workspace_id)
    execution = await gateway.submit(second, deaf)
    async for event in await gateway.services.executions.events(gateway.me, second.id, execution.id):
        if event.event == "stream":
            break
    stops = [gateway.services.sessions.stop(gateway.me, second.id) for _ in range(4)]
    assert {each.ended and each.ended.reason for each in await asyncio.gather(*stops)} == {"stopped"}
    outcome = await gateway.services.executions.get(gateway.me, second.id, execution.id)
    assert outcome.status == "died"
    assert outcome.death is not None
    assert "session ended" in outcome.death.detail
    assert await gateway.services.sessions.stop(gateway.me, second.id) == await gateway.show(second)


def test_a_time_to_live_is_hard_and_a_stop_is_one(on_gateway: OnGateway) -> None:
    on_gateway(hard_end)


async def refusals(house: House) -> None:
    async with house.gateway(live_sessions=1) as gateway:
        sessions, me = gateway.services.sessions, gateway.me
        for body, refusal in (
            ({"environment": "nowhere"}, errors.UnknownEnvironment),
            ({"timeout_seconds": 0}, errors.InvalidRequest),
            ({"idle_timeout_seconds": 15 * 86_400}, errors.InvalidRequest),
            ({"workspace_id": "00000000-0000-0000-0000-000000000000"}, errors.NotFound),
            ({"name": "x" * 1000}, errors.InvalidRequest),
        ):
            with pytest.raises(refusal):
                await gateway.start(**body)
        wanted, own_id = StartSession(labels={"a": "b"}), str(uuid.uuid4())
        session, same = await asyncio.gather(*(sessions.start_once(me, wanted, own_id) for _ in range(2)))
        assert session.id == same.id == own_id
        assert [each.id for each in (await sessions.list(me)).items] == [session.id]
        with pytest.raises(errors.Conflict):
            await sessions.start(me, wanted, own_id)
        assert own_id in gateway.services.registry
        with pytest.raises(errors.SessionLimit) as full:
            await gateway.start()
        assert full.value.retry_after_seconds > 0
        await workspace_in_use(gateway, session.workspace_id)
        await sessions.stop(me, session.id)
        assert (await sessions.list(me, status="READY")).items == []
        with pytest.raises(errors.SessionTerminated):
            await sessions.start_once(me, wanted, own_id)


async def workspace_in_use(gateway: Gateway, workspace_id: str) -> None:
    workspaces, me = gateway.services.workspaces, gateway.me
    with pytest.raises(errors.WorkspaceInUse):
        await workspaces.write(me, workspace_id, "f", pieces(b"x"))
    with pytest.raises(errors.WorkspaceInUse):
        await workspaces.remove(me, workspace_id, "f")


def test_what_cannot_be_started(house: House) -> None:
    asyncio.run(refusals(house))


async def workspace_conflict(gateway: Gateway) -> None:
    session = await gateway.start()
    with pytest.raises(errors.WorkspaceInUse):
        await gateway.start(workspace_id=session.workspace_id)
    await gateway.run(session, "open('f', 'w').write('one'); import os; os.mkdir('d'); open('d/g', 'w').close()")
    await gateway.services.sessions.stop(gateway.me, session.id)
    workspaces, me, where = gateway.services.workspaces, gateway.me, session.workspace_id
    await workspaces.write(me, where, "new/h", pieces(b"tw", b"o"))
    with pytest.raises(errors.Conflict):
        await workspaces.remove(me, where, "d")
    await workspaces.remove(me, where, "d", recursive=True)
    assert [each.path for each in (await workspaces.list_files(me, where)).items if each.kind == "file"] == [
        "f",
        "new/h",
    ]
    assert (await workspaces.get(me, where)).file_count == 2
    racers = [gateway.start(workspace_id=where) for _ in range(2)]
    started = await asyncio.gather(*racers, return_exceptions=True)
    assert sorted(type(each).__name__ for each in started) == ["Session", "WorkspaceInUse"]
    second = next(each for each in started if not isinstance(each, BaseException))
    assert await gateway.text(second, "open('f').read() + open('new/h').read()") == "'onetwo'"


def test_a_workspace_belongs_to_one_live_session_at_a_time(on_gateway: OnGateway) -> None:
    on_gateway(workspace_conflict)


async def store_away(gateway: Gateway) -> None:
    services, me = gateway.services, gateway.me
    session = await gateway.start()
    await gateway.run(session, "open('f', 'w').write('kept'); open('gone', 'w').close()")
    await gateway.until(lambda: flushed(gateway, session.id))
    await services.files.remove(me, session.id, "gone")
    gateway.store.away = True
    assert (await gateway.run(session, "open('late', 'w').write('kept too')")).status == "ok"
    ended = await services.sessions.stop(me, session.id)
    assert ended.ended is not None
    assert "waits on this host" in ended.ended.detail
    with pytest.raises(errors.StoreUnavailable):
        await gateway.start(workspace_id=session.workspace_id)
    gateway.store.away = False
    await services.upkeep.sweep()
    files = (await services.workspaces.list_files(me, session.workspace_id)).items
    assert [each.path for each in files] == ["f", "late"], "deletions are delivered as well"
    assert services.spool.waiting() == []
    again = await gateway.start(workspace_id=session.workspace_id)
    assert await gateway.text(again, "open('late').read()") == "'kept too'"


async def flushed(gateway: Gateway, session_id: str) -> bool:
    sync = (await gateway.services.sessions.get(gateway.me, session_id)).sync
    return sync.last_flush_at is not None and not sync.pending


def test_a_store_that_is_away_at_the_end_loses_nothing(on_gateway: OnGateway) -> None:
    on_gateway(store_away)


async def sandbox_killed(gateway: Gateway) -> None:
    session = await gateway.start()
    await gateway.run(session, "open('f', 'w').write('kept'); x = 1")
    running = await gateway.submit(session, "open('g', 'w').write('kept too')\nimport time\ntime.sleep(3600)")
    await gateway.until_running(session, running)
    data_dir = Path(gateway.services.settings.data_dir)
    os.kill(int((data_dir / "sandboxes" / session.id / "bundle" / "pid").read_text()), signal.SIGKILL)
    outcome = await gateway.services.executions.wait(gateway.me, session.id, running.id)
    assert (outcome.status, outcome.death and outcome.death.cause) == ("died", "sandbox")
    assert await gateway.text(session, "open('f').read() + open('g').read()") == "'keptkept too'"
    assert (await gateway.show(session)).generation == 2
    assert (await gateway.run(session, "x")).status == "error"


def test_a_session_outlives_its_sandbox(on_gateway: OnGateway) -> None:
    on_gateway(sandbox_killed)


async def lost_before_its_kernel_says_so(gateway: Gateway) -> None:
    session = await gateway.start()
    running = await gateway.submit(session, "import time\nopen('begun', 'w').close()\ntime.sleep(3600)")
    kernel = (await gateway.services.registry.require(gateway.me, session.id)).sandbox.kernel
    await gateway.until(lambda: asyncio.to_thread(Path(kernel.info.workspace_directory, "begun").exists))
    kernel._watching.cancel()
    data_dir = Path(gateway.services.settings.data_dir)
    os.kill(int((data_dir / "sandboxes" / session.id / "bundle" / "pid").read_text()), signal.SIGKILL)

    async def is_gone() -> bool:
        return not await gateway.services.runtime.running(session.id)

    await gateway.until(is_gone)
    await gateway.services.upkeep.sweep()
    outcome = await gateway.services.executions.wait(gateway.me, session.id, running.id)
    assert outcome.death is not None
    assert outcome.death.detail.startswith("the sandbox ended: its first process is gone; every global"), outcome.death
    assert await gateway.text(session, "1 + 1") == "2"


def test_a_sandbox_that_a_sweep_finds_lost_says_what_is_gone_with_it(on_gateway: OnGateway) -> None:
    on_gateway(lost_before_its_kernel_says_so)


async def stop_while_starting(gateway: Gateway) -> None:
    starting = asyncio.create_task(gateway.start())
    await gateway.until(lambda: registered(gateway))
    live = next(iter(gateway.services.registry))
    await asyncio.sleep(0.1)
    stopped = await gateway.services.sessions.stop(gateway.me, live.id)
    assert stopped.status == "TERMINATED"
    with pytest.raises((errors.SessionTerminated, errors.NotFound)):
        await starting
    assert await gateway.services.runtime.list() == ()


async def registered(gateway: Gateway) -> bool:
    return any(True for _ in gateway.services.registry)


def test_a_session_stopped_while_it_starts_leaves_nothing(on_gateway: OnGateway) -> None:
    on_gateway(stop_while_starting)


async def kept(house: House) -> None:
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        await gateway.run(session, "x = 41")
        running = await gateway.submit(
            session, "import time\nprint('before')\ntime.sleep(3)\nprint('after')\ny = 'went on'"
        )
        queued = await gateway.submit(session, "z = x + 1; z")
        await gateway.until_running(session, running)
    async with house.gateway() as gateway:
        gone_on = await gateway.services.executions.wait(gateway.me, session.id, running.id)
        assert (gone_on.status, gone_on.stdout) == ("ok", "before\nafter\n")
        ran = await gateway.services.executions.wait(gateway.me, session.id, queued.id)
        assert ran.outputs[0]["data"]["text/plain"] == "42"
        assert await gateway.text(session, "y") == "'went on'"
        gateway.services.readiness.accepting = False
        with pytest.raises(errors.ShuttingDown):
            await gateway.submit(session, "1")


def test_sessions_that_are_kept_go_on_in_the_next_life(house: House) -> None:
    asyncio.run(kept(house))


async def orphans(gateway: Gateway) -> None:
    services = gateway.services
    environment = await services.environments.find(gateway.me.id, "python")
    spec = SandboxSpec("11111111-2222-3333-4444-555555555555", environment)
    kernel = await services.launcher.launch(spec, before_first_code=nothing_to_restore)
    await kernel.aclose()
    session = await gateway.start()
    await gateway.services.upkeep.sweep()
    assert [info.sandbox_id for info in await services.runtime.list()] == [session.id]
    assert await gateway.text(session, "1 + 1") == "2"


async def nothing_to_restore(_info: SandboxInfo) -> None:
    """No workspace."""


def test_the_sweep_removes_what_belongs_to_nobody(on_gateway: OnGateway) -> None:
    on_gateway(orphans)


async def stuck_orphan(house: House) -> None:
    journal = Path(house.settings.data_dir) / "sandboxes/11111111-2222-3333-4444-555555555555/sandbox.json"
    journal.parent.mkdir(parents=True)
    journal.write_text('{"uid_base": 1200000000, "runtime": "a runtime of old"}')
    async with house.gateway() as gateway:
        session = await gateway.start()
        assert await gateway.text(session, "1 + 1") == "2"
        journal.write_text('{"uid_base": 1200000000, "runtime": "runc"}')
        await gateway.services.upkeep.sweep()
        assert not journal.parent.exists()


def test_a_sandbox_that_cannot_be_removed_keeps_the_service_neither_from_starting_nor_from_trying_again(
    house: House,
) -> None:
    asyncio.run(stuck_orphan(house))


async def stale_spool(house: House) -> None:
    """The service was killed between spooling a workspace and ending its session; the session went on."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        await gateway.run(session, "open('f', 'w').write('old')")
        info = (await gateway.services.runtime.list())[0]
        await gateway.services.spool.take(info, session.workspace_id)
        await gateway.run(session, "open('f', 'w').write('new')")
    async with house.gateway() as gateway:
        assert gateway.services.spool.waiting() == []
        await gateway.services.sessions.stop(gateway.me, session.id)
        assert await read(await gateway.services.workspaces.read(gateway.me, session.workspace_id, "f")) == b"new"


def test_an_older_copy_never_replaces_newer_files(house: House) -> None:
    asyncio.run(stale_spool(house))


async def cut_off(house: House) -> None:
    """The service was killed while it restored a workspace: the sandbox on disk holds a part, and has no mark."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        await gateway.run(session, "for name in 'ab': open(name, 'w').write(name)")
        home = Path(house.settings.data_dir, "sandboxes", session.id)
    (home / "storage" / "workspace" / "b").unlink()
    (home / "workspace-ready").unlink()
    async with house.gateway() as gateway:
        assert await gateway.text(session, "import os; sorted(os.listdir())") == "['a', 'b']"
        await gateway.services.sessions.stop(gateway.me, session.id)
        assert await read(await gateway.services.workspaces.read(gateway.me, session.workspace_id, "b")) == b"b"


def test_a_restore_that_was_cut_off_removes_nothing_from_the_store(house: House) -> None:
    asyncio.run(cut_off(house))


async def host_restarted(house: House) -> None:
    """Nothing runs and nothing is mounted; the image with what the store had not taken is still on disk."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        gateway.store.away = True
        await gateway.services.files.write(gateway.me, session.id, "f", pieces(b"acknowledged"))
    places = sandboxes.make_runtime(house.settings).places.of(session.id)
    os.kill(int((places.bundle / "pid").read_text()), signal.SIGKILL)
    storage.unmount(places.storage)
    storage.unmount(places.transport)
    idmap.unmount_view(places.view)
    async with house.gateway() as gateway:
        assert await gateway.text(session, "open('f').read()") == "'acknowledged'"


def test_files_outlive_a_restart_of_the_host(house: House) -> None:
    asyncio.run(host_restarted(house))


async def unbuildable(gateway: Gateway) -> None:
    """A row from before outputs were bounded in depth."""
    session = await gateway.start()
    execution = await gateway.run(session, "1")
    deep = '{"outputs": [{"output_type": "display_data", "data": {"application/json": ' + "[" * 900 + "]" * 900 + "}}]}"
    change = "UPDATE executions SET outcome = ? WHERE id = ?"
    await gateway.services.database.run(lambda c: c.exec_driver_sql(change, (deep.encode(), execution.id)))
    await gateway.services.upkeep.sweep()
    ended = await gateway.services.sessions.stop(gateway.me, session.id)
    assert ended.status == "TERMINATED"


def test_a_notebook_that_cannot_be_built_holds_up_nothing(on_gateway: OnGateway) -> None:
    on_gateway(unbuildable)


async def long_listing(house: House) -> None:
    async with house.gateway(files_listed=5) as gateway:
        files, me = gateway.services.files, gateway.me
        session = await gateway.start()
        await gateway.run(session, "for n in range(6): open(f'f{n}', 'w').close()")
        page = await files.list(me, session.id, limit=4)
        assert [entry.path for entry in page.items] == ["f0", "f1", "f2", "f3"]
        with pytest.raises(errors.InvalidRequest, match="more than 5"):
            await files.list(me, session.id, limit=4, cursor=page.next_cursor)
        await files.remove(me, session.id, "f5")
        assert len((await files.list(me, session.id)).items) == 5
        with pytest.raises(errors.NotFound):
            await files.read(me, session.id, "f5")
        with pytest.raises(errors.InvalidRequest):
            await files.read(me, session.id, "../etc/passwd")
        with pytest.raises(errors.InvalidRequest):
            await files.read(me, session.id, "")


def test_a_listing_is_never_cut_unseen(house: House) -> None:
    asyncio.run(long_listing(house))


def test_a_start_whose_sandbox_dies_before_it_is_taken_on_fails_at_once_and_says_why(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            with monkeypatch.context() as patches:
                lose_kernels_when_open(patches, house.settings.data_dir)
                with pytest.raises(errors.SandboxUnavailable, match="its first process is gone"):
                    await gateway.start()
            (ended,) = (await gateway.services.sessions.list(gateway.me)).items
            assert ended.ended is not None
            assert ended.ended.reason == "start_failed"
            assert "its first process is gone" in ended.ended.detail
            assert await gateway.services.runtime.list() == ()
            again = await gateway.start(workspace_id=ended.workspace_id)
            assert await gateway.text(again, "1 + 1") == "2"

    asyncio.run(test())
