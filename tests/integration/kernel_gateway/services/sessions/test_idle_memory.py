"""Idle sessions whose memory is in swap: who may stand still, what wakes them, and that nothing of them is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_gateway import errors
from kernel_gateway.services.sessions import idle_memory
from kernels.errors import SandboxFailed
from kernels.guest_client import client as guest_client
from kernels.oci.idle_memory import IdleMemory
from sandcell.models.commands import CommandRequest
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.attach.client import Room
from tests.integration.kernel_gateway.services.conftest import Gateway, House, house_in
from tests.swap_file import swap_file

OnSession = Callable[[Callable[[Gateway, Session], Awaitable[None]]], None]
LONG = {"timeout_seconds": 1_000_000, "idle_timeout_seconds": 1_000_000}
IDLE_SECONDS = 60.0
HELD_BYTES = 32 << 20


@pytest.fixture(scope="module", autouse=True)
def swap() -> Iterator[None]:
    with swap_file():
        yield


def idle_house_in(directory: Path, short_directory: Path, environments_dir: Path) -> House:
    """One that moves what is idle to swap, as a service does unless it is told not to."""
    house = house_in(directory, short_directory, environments_dir)
    return House(replace(house.settings, idle_memory_seconds=IDLE_SECONDS))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, short_directory: Path, environments_dir: Path) -> House:
    return idle_house_in(tmp_path_factory.mktemp("data"), short_directory, environments_dir)


@pytest.fixture(scope="module")
def on_session(house: House) -> Iterator[OnSession]:
    """Runs coroutine functions, one after another, with one gateway and a session that they leave alive."""
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        gateway = runner.run(stack.enter_async_context(house.gateway()))
        session = runner.run(gateway.start(**LONG))
        yield lambda test: runner.run(test(gateway, session))
        runner.run(stack.aclose())


async def be_idle(gateway: Gateway) -> None:
    """Let more time pass than sessions stay resident, also those that were just woken, and have them looked at."""
    await gateway.services.idle_memory.look()
    gateway.clock.advance(IDLE_SECONDS + 1)
    await gateway.services.idle_memory.look()


async def page_out(gateway: Gateway, session: Session) -> None:
    """Be idle until the session is paged out: its last files have to be in the store before."""

    async def paged_out() -> bool:
        await be_idle(gateway)
        memory = (await gateway.show(session)).memory
        assert memory is not None, "the session has ended"
        return memory == "paged_out"

    await gateway.until(paged_out)


async def resident_only(gateway: Gateway, session: Session, why: str, *, stored: bool = True) -> None:
    async def settled() -> bool:
        return (await gateway.show(session)).sync.pending != stored

    await gateway.until(settled)
    await be_idle(gateway)
    assert (await gateway.show(session)).memory == "resident", why


async def one_life(gateway: Gateway, session: Session) -> None:
    services, me = gateway.services, gateway.me
    assert (await gateway.show(session)).memory == "resident"
    await gateway.run(session, "kept = 41")
    await services.idle_memory.look()
    assert (await gateway.show(session)).memory == "resident", "it has not been idle for long enough"
    await page_out(gateway, session)
    assert (await gateway.show(session)).usage.memory_bytes < 20_000_000
    assert (await gateway.show(session)).memory == "paged_out", "looking wakes nobody"
    assert await gateway.text(session, "kept + 1") == "42"
    await page_out(gateway, session)
    await services.files.list(me, session.id)
    await services.idle_memory.look()
    assert (await gateway.show(session)).memory == "resident", "reading is no activity, and yet a use"
    await page_out(gateway, session)
    assert (await services.commands.run(me, session.id, CommandRequest("echo there"))).stdout == "there\n"
    await page_out(gateway, session)
    await services.inspection.variables(me, session.id)
    await page_out(gateway, session)
    await services.files.list(me, session.id)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest_client, "PROBE_SECONDS", 0.0)  # a guest on a host too busy for it to answer
        await be_idle(gateway)
    await be_idle(gateway)
    assert (await gateway.show(session)).memory == "resident", "it is not tried at each look"
    gateway.clock.advance(idle_memory.RETRY_SECONDS)
    await page_out(gateway, session)
    assert (await services.sessions.restart(me, session.id)).generation == 2
    assert (await gateway.show(session)).memory == "resident"


def test_a_session_stands_still_when_idle_and_goes_on_at_its_next_use(on_session: OnSession) -> None:
    on_session(one_life)


async def left_alone(gateway: Gateway, session: Session) -> None:
    services, me = gateway.services, gateway.me
    awake = await gateway.start(**LONG, keep_awake=True)
    assert awake.keep_awake
    assert not session.keep_awake
    slow = await gateway.submit(session, "import time\ntime.sleep(3600)")
    await gateway.until_running(session, slow)
    await resident_only(gateway, session, "an execution runs")
    await services.sessions.interrupt(me, session.id)
    await services.executions.wait(me, session.id, slow.id)

    task = await services.commands.run(me, session.id, CommandRequest("sleep 3600", background=True))
    await resident_only(gateway, session, "a background command runs")
    await services.tasks.stop(me, session.id, task.id)

    async with Room(gateway, session) as room:
        await room.attach("lab")
        await resident_only(gateway, session, "a client is attached")

    gateway.store.away = True
    await gateway.run(session, "open('new', 'w').write('kept')")
    await resident_only(gateway, session, "its files are on their way to the store", stored=False)
    gateway.store.away = False
    await page_out(gateway, session)
    async with Room(gateway, session) as room:  # a client's own messages wake it, not its coming
        client = await room.attach("lab")
        assert (await gateway.show(session)).memory == "paged_out"
        await client.reply(await client.send("shell", "kernel_info_request", {}), "kernel_info_reply")
        assert (await gateway.show(session)).memory == "resident"
    await resident_only(gateway, awake, "it is to stay awake")


def test_who_is_at_work_or_asked_to_stay_awake_does_not_stand_still(on_session: OnSession) -> None:
    on_session(left_alone)


async def wanted_while_it_stops(gateway: Gateway, session: Session) -> None:
    generation = (await gateway.show(session)).generation
    await gateway.run(session, f"held = b'x' * {HELD_BYTES}")
    live = gateway.services.registry.get(session.id)
    assert live is not None
    for _ in range(2):
        await page_out(gateway, session)  # so that nothing of it waits for the store any more
        await gateway.services.files.list(gateway.me, session.id)
        await gateway.services.idle_memory.look()
        gateway.clock.advance(IDLE_SECONDS + 1)
        looking = asyncio.ensure_future(gateway.services.idle_memory.look())
        async with asyncio.timeout(120):
            while not live.sandbox.kernel.residence.stopped:
                if looking.done():  # something of it was still on its way to the store
                    looking = asyncio.ensure_future(gateway.services.idle_memory.look())
                await asyncio.sleep(0)
        assert await gateway.text(session, "len(held)") == str(HELD_BYTES)
        await looking
        assert (await gateway.show(session)).memory == "resident"
    assert (await gateway.show(session)).generation == generation
    await page_out(gateway, session)
    await asyncio.gather(*(gateway.text(session, f"{number}") for number in range(3)))
    assert (await gateway.show(session)).memory == "resident"


def test_an_execution_that_comes_while_its_session_stops_runs(on_session: OnSession) -> None:
    on_session(wanted_while_it_stops)


async def flush_while_it_stops(gateway: Gateway, session: Session) -> None:
    """The mirror reads the workspace from outside: a sandbox that stands still holds up no flush, nor does one it."""
    stored, go_on = threading.Event(), threading.Event()

    def wait(_name: str) -> None:
        stored.set()
        go_on.wait(120)

    gateway.store.before_put = wait
    try:
        await gateway.run(session, f"held = b'x' * {HELD_BYTES}; open('flushed', 'w').write('kept')")
        live = gateway.services.registry.get(session.id)
        assert live is not None
        assert live.sandbox.kernel is not None
        await asyncio.to_thread(stored.wait, 120)
        assert (await gateway.show(session)).sync.pending
        assert (await live.sandbox.kernel.page_out()).moved_bytes > HELD_BYTES // 2
    finally:
        gateway.store.before_put = lambda _: None
        go_on.set()

    async def settled() -> bool:
        return not (await gateway.show(session)).sync.pending

    await gateway.until(settled)
    assert (await gateway.show(session)).memory == "paged_out"
    found = await gateway.services.workspaces.list_files(gateway.me, session.workspace_id)
    assert "flushed" in [each.path for each in found.items]
    assert await gateway.text(session, "len(held), open('flushed').read()") == f"({HELD_BYTES}, 'kept')"


def test_a_session_that_stops_while_its_files_are_stored_loses_none(on_session: OnSession) -> None:
    on_session(flush_while_it_stops)


async def idle_for_good(gateway: Gateway, _session: Session) -> None:
    session = await gateway.start(idle_timeout_seconds=10_000)
    await gateway.run(session, "open('kept', 'w').write('there')")
    await page_out(gateway, session)
    gateway.clock.advance(10_001)
    ended = await gateway.ended(session)
    assert ended.ended is not None
    assert ended.ended.reason == "idle_timeout"
    found = await gateway.services.workspaces.list_files(gateway.me, session.workspace_id)
    assert [each.path for each in found.items] == ["kept"]


def test_a_session_whose_time_is_over_ends_while_it_stands_still(on_session: OnSession) -> None:
    on_session(idle_for_good)


async def two_lives(house: House) -> None:
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        sessions = [await gateway.start(**LONG) for _ in range(2)]
        for number, session in enumerate(sessions):
            await gateway.run(session, f"kept = {number}")
        await page_out(gateway, sessions[0])
    async with house.gateway(memory_reserve_bytes=10**13, idle_memory_seconds=LONG["timeout_seconds"]) as gateway:
        for number, session in enumerate(sessions):
            assert (await gateway.show(session)).generation == 1
            assert await gateway.text(session, "kept") == str(number)
            gateway.clock.advance(1)
        await gateway.services.idle_memory.look()
        with pytest.raises(errors.NoMemory) as refused:
            await gateway.start()
        details = refused.value.details
        assert (refused.value.status, refused.value.retryable) == (503, True)
        assert details["available_bytes"] < details["reserve_bytes"]
        assert details["holding_sessions"] == sum(
            [(await gateway.show(each)).memory == "resident" for each in sessions]
        )
        for session in sessions:  # before their time: the machine is short of memory
            await gateway.until(lambda session=session: looked_and_paged_out(gateway, session))
        ended = await gateway.services.sessions.stop(gateway.me, sessions[0].id)
        assert (ended.status, ended.memory) == ("TERMINATED", None)
        assert await gateway.text(sessions[1], "kept") == "1", "what lives is never refused"


async def lives_with_failures(house: House, patch: pytest.MonkeyPatch) -> None:
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start(**LONG)
        await gateway.run(session, "kept = 41; open('kept', 'w').write('there')")
        await page_out(gateway, session)
    failures = fail_thaws(patch, 2)
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        assert await gateway.text(session, "kept + 1") == "42", "one failure costs no session what it holds"
        await page_out(gateway, session)
    failures[:] = ["again and again"] * 1_000
    async with house.gateway() as gateway:

        async def refused() -> bool:
            return (await gateway.run(session, "1")).status == "rejected"

        await gateway.until(refused)
        failures.clear()
        assert await gateway.text(session, "open('kept').read(), 'kept' in globals()") == "('there', False)"
        assert (await gateway.show(session)).generation == 2


def fail_thaws(patch: pytest.MonkeyPatch, count: int) -> list[str]:
    """So many thaws fail, and then as many as the list that is returned has entries."""
    thaw, failures = IdleMemory.thaw, ["once"] * count

    def fail(memory: IdleMemory, sandbox_id: str) -> None:
        if failures:
            raise SandboxFailed(f"the sandbox cannot be made to go on: {failures.pop()}")
        thaw(memory, sandbox_id)

    patch.setattr(IdleMemory, "thaw", fail)
    return failures


@pytest.mark.long
def test_a_session_whose_sandbox_does_not_go_on_after_a_restart_is_not_lost(
    tmp_path: Path, short_directory: Path, environments_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(lives_with_failures(idle_house_in(tmp_path, short_directory, environments_dir), monkeypatch))


async def looked_and_paged_out(gateway: Gateway, session: Session) -> bool:
    """A sandbox whose guest is too busy to answer is tried again after a while: some of that passes at each look."""
    gateway.clock.advance(idle_memory.RETRY_SECONDS / 10)
    await gateway.services.idle_memory.look()
    return (await gateway.show(session)).memory == "paged_out"


def test_after_a_restart_sessions_go_on_and_a_short_host_starts_no_others(
    tmp_path: Path, short_directory: Path, environments_dir: Path
) -> None:
    asyncio.run(two_lives(idle_house_in(tmp_path, short_directory, environments_dir)))
