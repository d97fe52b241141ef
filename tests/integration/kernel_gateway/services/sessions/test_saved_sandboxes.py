"""Hibernated sessions under gVisor, kept as processes: they go on as they were, or else have their variables."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_gateway.errors import DatabaseUnavailable, QuotaReached
from kernel_gateway.storage import hibernations
from kernels.oci.checkpoints import Checkpoints
from kernels.oci.places import HostPlaces
from kernels.sandbox import RuntimeSettings
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House, house_in
from tests.integration.kernel_gateway.services.sessions.test_hibernation import (
    DAY,
    held_put,
    hibernate,
    locked_database,
    say,
    stored,
)

LONG = {"timeout_seconds": 1_000_000, "idle_timeout_seconds": 1_000_000}
HOLD = """
import os, subprocess, threading, time
kept, counted, before = 41, 0, os.getpid()
def count():
    global counted
    while True:
        counted += 1
        time.sleep(0.02)
thread = threading.Thread(target=count, daemon=True)
thread.start()
open("lines", "w").write("one two three")
opened = open("lines", "r+")
opened.seek(4)
echo = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
open("/tmp/besides", "w").write("besides")
"""
USE = """
seen = counted
while counted == seen:
    time.sleep(0.01)
echo.stdin.write(b"said\\n")
echo.stdin.flush()
(kept, opened.tell(), opened.read(3), opened.seek(4), echo.stdout.readline(), os.getpid() == before)
"""
USED = "(41, 4, 'two', 4, b'said\\n', True)"
AFTER = "kept, open('lines').read(), 'opened' in globals(), __import__('os').path.exists('/tmp/besides')"
LOST = "(41, 'one two three', False, False)"
LISTEN = "import socket; listening = socket.socket(); listening.bind(('127.0.0.1', 5000)); listening.listen()"
OnHouse = Callable[[Callable[[House, HostPlaces], Awaitable[None]]], None]


@pytest.fixture
def on_house(tmp_path: Path, short_directory: Path, environments_dir: Path) -> OnHouse:
    """Runs a coroutine function with a house under gVisor; nothing of its sandboxes may stay."""
    settings = house_in(tmp_path, short_directory, environments_dir).settings
    house = House(replace(settings, runtime="runsc", keep_sessions_on_shutdown=True))
    places = HostPlaces(RuntimeSettings("runsc", Path(settings.data_dir), Path(settings.run_dir)))

    def run(test: Callable[[House, HostPlaces], Awaitable[None]]) -> None:
        asyncio.run(test(house, places))
        assert places.list_ids() == []
        assert stored(house) == []

    return run


@asynccontextmanager
async def locked_once_restored(house: House, gateway: Gateway) -> AsyncIterator[asyncio.Event]:
    """The database is away from when the processes of a saved sandbox go on, which is told, until the block ends."""
    runtime, restored = gateway.services.runtime, asyncio.Event()
    thaw = runtime.thaw
    async with AsyncExitStack() as stack:

        async def thaw_and_lock(sandbox_id: str) -> None:
            await thaw(sandbox_id)
            if not restored.is_set():
                restored.set()
                await stack.enter_async_context(locked_database(house))

        runtime.thaw = thaw_and_lock  # type: ignore[method-assign]
        stack.callback(setattr, runtime, "thaw", thaw)
        yield restored


async def hold(gateway: Gateway) -> Session:
    session = await gateway.start(**LONG)
    ran = await gateway.run(session, HOLD)
    assert ran.status == "ok", ran
    return session


def find_memory(places: HostPlaces, session: Session) -> Path:
    """Of the files of an image the one with the memory: newer builds of runsc write others beside it."""
    return max(places.of(session.id).saved.iterdir(), key=lambda each: each.stat().st_size)


async def as_processes(gateway: Gateway, session: Session, places: HostPlaces) -> None:
    """Hibernate it: nothing of it is left but files."""
    session = await hibernate(gateway, session)
    report, own = session.hibernated, places.of(session.id)
    assert report is not None
    assert (session.status, session.memory, report.kept_as, report.processes_lost) == (
        "HIBERNATED", None, "processes", None,
    ), report  # fmt: skip
    image = find_memory(places, session)
    assert report.image_bytes > image.stat().st_size > 1_000_000
    assert own.saved.stat().st_mode & 0o777 == 0o700
    assert not any(each.is_mount() for each in (own.transport, own.storage, own.view))
    assert [each.outcome for each in report.variables if each.name == "opened"] == ["lost"], "if it cannot be restored"


@pytest.mark.sample("images")
def test_threads_open_files_and_processes_go_on_after_restarts_of_service_and_host(on_house: OnHouse) -> None:
    async def test(house: House, places: HostPlaces) -> None:
        async with house.gateway() as gateway:
            session = await hold(gateway)
            await as_processes(gateway, session, places)
            assert await gateway.text(session, USE) == USED
            shown = await gateway.show(session)
            assert (shown.status, shown.generation, shown.restored, shown.hibernated) == ("READY", 1, None, None)
            assert not places.of(session.id).saved.exists(), "the image goes once it is used"
            await gateway.until(nothing_in(house))
            spent = shown.usage.cpu_seconds
            await as_processes(gateway, session, places)
            async with locked_once_restored(house, gateway) as restored:
                with pytest.raises(DatabaseUnavailable):
                    await gateway.services.hibernation.resume(gateway.me, session.id)
                assert (await gateway.show(session)).status == "HIBERNATED"
            assert restored.is_set()
            assert places.of(session.id).saved.exists(), "it was saved once more"
            await gateway.services.hibernation.resume(gateway.me, session.id)
            assert await say(gateway, session, "cat lines") == "one two three"
            await as_processes(gateway, session, places)
        async with house.gateway() as gateway:
            assert (await gateway.show(session)).status == "HIBERNATED"
            assert await gateway.text(session, USE) == USED
            assert spent < (await gateway.show(session)).usage.cpu_seconds < spent + 60
            await as_processes(gateway, session, places)
        end_of_the_host(places)
        async with house.gateway() as gateway:
            other = await gateway.start()
            assert places.of(other.id).read_journal() != places.of(session.id).read_journal(), "its ids are its own"
            assert (await gateway.show(session)).status == "HIBERNATED"
            assert await gateway.text(session, USE) == USED
            assert (await gateway.show(session)).generation == 1
            await gateway.services.sessions.restart(gateway.me, session.id)
            assert await gateway.text(session, "'kept' in globals()") == "False", "a restart is blank"
            await gateway.run(session, HOLD)
            await as_processes(gateway, session, places)
            gateway.clock.advance(14 * DAY + 1)
            ended = await gateway.ended(session)
            assert ended.ended is not None
            assert ended.ended.reason == "state_ttl"
            await gateway.services.sessions.stop(gateway.me, other.id)
            await gateway.until(nothing_in(house))

    on_house(test)


def end_of_the_host(places: HostPlaces) -> None:
    """What a host that starts again has lost: every mount, whatever is below /run, every control group."""
    for mounted in subprocess.run(
        ["findmnt", "-rno", "TARGET"], capture_output=True, text=True, check=True
    ).stdout.split():
        if Path(mounted).is_relative_to(places.data) or Path(mounted).is_relative_to(places.run.parent):
            subprocess.run(["umount", "--lazy", mounted], check=True)
    shutil.rmtree(places.run.parent)


def nothing_in(house: House) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return stored(house) == []

    return holds


def flip(image: Path) -> None:
    content = bytearray(image.read_bytes())
    content[len(content) // 2] ^= 0xFF
    image.write_bytes(content)


def lose_power(saved: Path) -> None:
    """As if the host had started again before the disk had all of it."""
    (saved / "safe").unlink()
    before = saved.parent / "before.json"
    content = json.loads(before.read_text())
    before.write_text(json.dumps({**content, "boot": "another"}))


def install_another_build(saved: Path) -> None:
    before = saved.parent / "before.json"
    content = json.loads(before.read_text())
    assert content["build"].startswith("runsc version"), content
    before.write_text(json.dumps({**content, "build": "runsc version release-20990101.0"}))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit": flip,
    "cut off": lambda image: image.write_bytes(image.read_bytes()[: image.stat().st_size // 2]),
    "empty": lambda image: image.write_bytes(b""),
    "another build": lambda image: install_another_build(image.parent),
    "no image": lambda image: image.unlink(),
    "no disk": lambda image: (image.parent.parent / "storage.img").unlink(),
    "not written before the power was lost": lambda image: lose_power(image.parent),
    "nothing": lambda image: shutil.rmtree(image.parent.parent),
}


@pytest.mark.sample("images")
@pytest.mark.parametrize("damage", DAMAGES)
def test_an_image_that_cannot_be_restored_costs_no_variables(on_house: OnHouse, damage: str) -> None:
    async def test(house: House, places: HostPlaces) -> None:
        async with house.gateway() as gateway:
            session = await hold(gateway)
            await as_processes(gateway, session, places)
            if damage == "a bit":
                DAMAGES[damage](find_memory(places, session))
                await wake(gateway, session)
        if damage != "a bit":
            DAMAGES[damage](find_memory(places, session))
        async with house.gateway() as gateway:
            if damage == "nothing":
                await counts_no_image(gateway, session)
            if damage != "a bit":
                await wake(gateway, session)
            await gateway.services.sessions.stop(gateway.me, session.id)

    async def counts_no_image(gateway: Gateway, session: Session) -> None:
        report = (await gateway.show(session)).hibernated
        assert report is not None
        for _ in range(2):
            await gateway.services.upkeep.sweep()
            taken = await gateway.services.database.run(lambda c: hibernations.sum_bytes(c, gateway.me.id))
            assert taken == report.size_bytes

    async def wake(gateway: Gateway, session: Session) -> None:
        ran = await gateway.run(session, AFTER)
        assert (ran.status, ran.outputs[-1]["data"]["text/plain"]) == ("ok", LOST), ran
        shown = await gateway.show(session)
        assert (shown.status, shown.generation) == ("READY", 2)
        assert shown.restored is not None
        assert "could not go on: " in (shown.restored.processes_lost or ""), shown.restored
        outcomes = {each.name: each.outcome for each in shown.restored.variables}
        assert (outcomes["kept"], outcomes["opened"], outcomes["thread"]) == ("restored", "lost", "lost")

    on_house(test)


@pytest.mark.sample("images")
def test_what_cannot_be_kept_as_processes_is_kept_as_variables_or_goes_on(on_house: OnHouse) -> None:
    async def test(house: House, places: HostPlaces) -> None:
        async with house.gateway(hibernated_mb=2) as gateway:
            session = await hold(gateway)
            report = (await hibernate(gateway, session)).hibernated
            assert report is not None
            assert (report.kept_as, report.image_bytes) == ("variables", 0)
            assert "2,097,152 is the most (hibernated_mb)" in (report.processes_lost or ""), report
            assert places.list_ids() == []
            assert await gateway.text(session, AFTER) == LOST
            await gateway.run(session, HOLD)
            await gateway.services.sessions.stop(gateway.me, session.id)
        async with house.gateway(hibernated_sessions=0) as gateway:
            session = await hold(gateway)
            with pytest.raises(QuotaReached, match=r"\(hibernated_sessions\): use or stop one"):
                await hibernate(gateway, session)
            assert (await gateway.show(session)).status == "READY"
            assert await gateway.text(session, USE) == USED, "it goes on, and was saved meanwhile"
            await gateway.services.sessions.stop(gateway.me, session.id)
        async with house.gateway() as gateway:
            session = await hold(gateway)
            async with held_put(gateway) as reached:
                hibernating = asyncio.create_task(hibernate(gateway, session))
                await reached.wait()
                execution = await gateway.submit(session, USE)
            await hibernating
            ran = await gateway.services.executions.wait(gateway.me, session.id, execution.id)
            assert (ran.generation, ran.outputs[-1]["data"]["text/plain"]) == (1, USED), ran
            await gateway.run(session, LISTEN)
            report = (await hibernate(gateway, session)).hibernated
            assert report is not None
            assert report.kept_as == "variables"
            assert "listens at TCP port 5000" in (report.processes_lost or "")
            assert await gateway.text(session, AFTER) == LOST
            await gateway.services.sessions.stop(gateway.me, session.id)
        async with house.gateway(gvisor_checkpoints=False) as gateway:
            session = await hold(gateway)
            report = (await hibernate(gateway, session)).hibernated
            assert report is not None
            assert (report.kept_as, report.processes_lost) == ("variables", None)
            await gateway.services.sessions.stop(gateway.me, session.id)
            await gateway.services.upkeep.sweep()  # what was begun and refused is still to be removed
            await gateway.until(nothing_in(house))

    on_house(test)


@pytest.mark.sample("images")
def test_nothing_runs_of_a_session_that_could_neither_be_woken_nor_saved_again(
    on_house: OnHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(house: House, places: HostPlaces) -> None:
        async with house.gateway() as gateway:
            session = await hold(gateway)
            await as_processes(gateway, session, places)
            checkpoints: Checkpoints = gateway.services.runtime._checkpoints  # type: ignore[attr-defined]
            with monkeypatch.context() as full_disk:
                full_disk.setattr(checkpoints, "_reserve_bytes", 1 << 60)
                async with locked_once_restored(house, gateway) as restored:
                    with pytest.raises(DatabaseUnavailable):
                        await gateway.services.hibernation.resume(gateway.me, session.id)
            assert restored.is_set()
            shown = await gateway.show(session)
            await gateway.until(no_sandbox_in(places))
            assert (shown.status, shown.memory) == ("HIBERNATED", None)
            assert shown.hibernated is not None
            assert (shown.hibernated.kept_as, shown.hibernated.image_bytes) == ("variables", 0)
            assert "not saved again: the disk has " in (shown.hibernated.processes_lost or ""), shown.hibernated
            assert await gateway.text(session, AFTER) == LOST
            woken = await gateway.show(session)
            assert (woken.status, woken.generation) == ("READY", 2)
            assert woken.restored is not None
            assert "not saved again: the disk has " in (woken.restored.processes_lost or ""), woken.restored
            await gateway.services.sessions.stop(gateway.me, session.id)

    on_house(test)


def no_sandbox_in(places: HostPlaces) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return places.list_ids() == []

    return holds
