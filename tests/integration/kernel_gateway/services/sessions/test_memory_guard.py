"""Memory that runs short while code runs: the session says so, then interrupts the code; its kernel lives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from sandcell.models.executions import Event, Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House, house_in

OnSession = Callable[[Callable[[Gateway, Session], Awaitable[None]]], None]
MEMORY_MB = 512
GROW = """
import ctypes, os, time
def used_mb():
    used = 60  # the guest, about
    for process in {os.getpid(), os.getppid()} - {1}:
        with open(f"/proc/{process}/statm") as file:
            used += int(file.read().split()[1]) // 256
    return used
def grow(more, limit_mb):
    # Fast to what is surely too little to matter, then slower than anything has to be to notice it.
    while True:
        slow = used_mb() > limit_mb * 0.8
        kept.append(more((1 if slow else 16) << 20))
        time.sleep(0.02 if slow else 0)
def clear():
    kept.clear()
    ctypes.CDLL(None).malloc_trim(0)  # or some of it stays with this process for later
kept = []
alive = 41
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, short_directory: object, environments_dir: object) -> House:
    return house_in(tmp_path_factory.mktemp("data"), short_directory, environments_dir)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def on_session(house: House) -> Iterator[OnSession]:
    """Runs coroutine functions, one after another, with one gateway and a session of little memory."""
    stack = AsyncExitStack()
    with asyncio.Runner() as runner:
        gateway = runner.run(stack.enter_async_context(house.gateway(memory_mb=MEMORY_MB)))
        session = runner.run(gateway.start(timeout_seconds=1_000_000, idle_timeout_seconds=1_000_000))
        runner.run(gateway.run(session, GROW))
        yield lambda test: runner.run(test(gateway, session))
        runner.run(stack.aclose())


async def events(gateway: Gateway, session: Session, execution: Execution) -> list[Event]:
    found = await gateway.services.executions.events(gateway.me, session.id, execution.id)
    return [event async for event in found]


async def require_guarded(gateway: Gateway, session: Session, ran: Execution) -> None:
    """It was warned, then interrupted; its kernel is the one that it was, and its variables are there."""
    assert (ran.status, ran.error and ran.error.name, ran.death) == ("error", "MemoryGuard", None), ran
    assert ran.error is not None
    assert f"of its {MEMORY_MB} MB of memory" in ran.error.value
    assert not any("guard_memory" in line for line in ran.error.traceback), "our own frame is not the user's"
    assert ran.memory is not None
    assert ran.memory.level == "interrupted"
    assert 0.95 * (MEMORY_MB << 20) <= ran.memory.held_bytes <= ran.memory.limit_bytes == MEMORY_MB << 20
    seen = [each for each in await events(gateway, session, ran) if each.event == "memory"]
    assert [each.data["level"] for each in seen] == ["warning", "interrupted"]
    assert (await gateway.show(session)).generation == 1
    stored = await gateway.services.executions.get(gateway.me, session.id, ran.id)
    assert stored.memory == ran.memory


def test_code_that_grows_is_warned_then_interrupted(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        ran = await gateway.run(session, f"big = bytearray(300 << 20)\ngrow(bytearray, {MEMORY_MB})")
        await require_guarded(gateway, session, ran)
        assert ran.memory is not None
        assert [(each.name, each.type, each.size_bytes >= 300 << 20) for each in ran.memory.largest][:1] == [
            ("big", "bytearray", True)
        ]
        # Code that begins while memory is short is let alone: it is what makes room.
        assert await gateway.text(session, "del big; clear(); alive + 1") == "42"
        again = await gateway.run(session, "alive")
        assert (again.status, again.memory) == ("ok", None)

    on_session(test)


def test_code_may_catch_it_and_go_on(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        code = "try: grow(bytearray, {})\nexcept MemoryError as error: clear(); print(type(error).__name__)"
        ran = await gateway.run(session, code.format(MEMORY_MB))
        assert (ran.status, ran.stdout) == ("ok", "MemoryGuard\n"), ran
        assert ran.memory is not None
        assert ran.memory.level == "interrupted"

    on_session(test)


@pytest.mark.long
def test_arrays_count(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        ran = await gateway.run(session, f"import numpy\ngrow(lambda size: numpy.ones(size, 'u1'), {MEMORY_MB})")
        await require_guarded(gateway, session, ran)
        await gateway.run(session, "clear()")

    on_session(test)


def test_what_a_child_holds_counts(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        child = f"{GROW}\ngrow(bytearray, {MEMORY_MB})"
        ran = await gateway.run(session, f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {child!r}])")
        await require_guarded(gateway, session, ran)
        assert await gateway.text(session, "alive") == "41"

    on_session(test)


@pytest.mark.long
def test_a_cell_that_awaits_is_cancelled(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        child = f"{GROW}\ngrow(bytearray, {MEMORY_MB})"
        code = "import asyncio, sys\nchild = await asyncio.create_subprocess_exec(sys.executable, '-c', {!r})"
        ran = await gateway.run(session, f"{code.format(child)}\nawait child.wait()")
        assert (ran.status, ran.error and ran.error.name) == ("error", "CancelledError"), ran
        assert ran.memory is not None
        assert ran.memory.level == "interrupted"
        assert await gateway.text(session, "alive") == "41"

    on_session(test)


@pytest.mark.long
def test_pages_of_files_do_not_count(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        code = """
with open("/tmp/large", "wb") as file:
    for _ in range(28): file.write(bytes(16 << 20))
for _ in range(3):
    with open("/tmp/large", "rb") as file:
        while file.read(1 << 20): pass
import os; os.unlink("/tmp/large")
"""
        ran = await gateway.run(session, code)
        assert (ran.status, ran.memory) == ("ok", None), ran

    on_session(test)


def test_what_grows_faster_than_anybody_looks_is_told_as_what_it_is(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        ran = await gateway.run(session, f"bytearray({MEMORY_MB} << 20)")
        assert (ran.status, ran.death and ran.death.cause) == ("died", "oom"), ran
        assert await gateway.text(session, "6 * 7") == "42"

    on_session(test)


def test_of_a_kernel_that_died_it_does_not_say_that_variables_are_kept(on_session: OnSession) -> None:
    async def test(gateway: Gateway, session: Session) -> None:
        code = f"{GROW}\ntry: grow(bytearray, {MEMORY_MB})\nexcept MemoryError: os._exit(3)"
        ran = await gateway.run(session, code)
        assert ran.status == "died", ran
        assert ran.memory is not None
        assert ran.memory.detail.endswith("the code was interrupted, and its kernel died all the same")
        assert (await gateway.services.executions.get(gateway.me, session.id, ran.id)).memory == ran.memory

    on_session(test)
