"""Executions: order, idempotency, busy sessions, generations, events, interrupts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kernel_gateway import errors
from kernels.errors import SandboxFailed
from kernels.sandboxed.deaths import silent_death
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Event
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


async def one_session(gateway: Gateway) -> None:
    """One session answers for what needs no session of its own: a start costs more than all of these."""
    session = await gateway.start()
    await state_and_order(gateway, session)
    await idempotency(gateway, session)
    await bad_input(gateway, session)
    await busy(gateway, session)
    await followers(gateway, session)
    await generations(gateway, session)
    await queued_interrupt(gateway, session)
    await many_results(gateway, session)
    notebook = await gateway.services.notebooks.notebook(gateway.me, session.id)
    assert b"x = 41" in notebook
    assert b"Kernel generation 2" in notebook
    await gateway.services.sessions.stop(gateway.me, session.id)
    with pytest.raises(errors.SessionTerminated):
        await gateway.submit(session, "1")
    again = await gateway.submit(session, "counter += 1; counter", key="once")
    assert again.status == "ok", "a key is good for the session's whole history"


async def state_and_order(gateway: Gateway, session: Session) -> None:
    await gateway.run(session, "x = 41; order = []")
    assert await gateway.text(session, "x + 1") == "42"
    submitted = [await gateway.submit(session, f"order.append({number})") for number in range(10)]
    assert {each.status for each in submitted} <= {"queued", "running"}
    assert await gateway.text(session, "order") == str(list(range(10)))
    page = await gateway.services.executions.list(gateway.me, session.id, 5)
    rest = await gateway.services.executions.list(gateway.me, session.id, 100, page.next_cursor)
    assert [each.code for each in page.items[:2]] == ["x = 41; order = []", "x + 1"]
    assert len(page.items) + len(rest.items) == 13


async def many_results(gateway: Gateway, session: Session) -> None:
    """IPython forgets the oldest results after a thousand, here three, and would warn the code that came next."""
    await gateway.run(session, "get_ipython().displayhook.cache_size = 3")
    outcomes = [await gateway.run(session, str(number)) for number in range(6)]
    assert {each.stderr for each in outcomes} == {""}
    assert await gateway.text(session, "len(Out) <= 3") == "True"


async def idempotency(gateway: Gateway, session: Session) -> None:
    await gateway.run(session, "counter = 0")
    racers = [gateway.submit(session, "counter += 1; counter", key="once") for _ in range(8)]
    assert len({each.id for each in await asyncio.gather(*racers)}) == 1
    assert await gateway.text(session, "counter") == "1"
    with pytest.raises(errors.IdempotencyConflict):
        await gateway.submit(session, "counter += 2", key="once")


async def bad_input(gateway: Gateway, session: Session) -> None:
    refusals: list[tuple[dict[str, Any], type[Exception]]] = [
        ({"code": "'\ud800'"}, errors.InvalidRequest),
        ({"code": "1", "timeout_seconds": 0}, errors.InvalidRequest),
        ({"code": "1", "timeout_seconds": 901}, errors.InvalidRequest),
        ({"code": "1", "timeout_seconds": float("nan")}, errors.InvalidRequest),
        ({"code": "#" * 10_000_001}, errors.PayloadTooLarge),
        ({"code": "1", "expect_generation": 9}, errors.GenerationMismatch),
    ]
    for body, refusal in refusals:
        with pytest.raises(refusal):
            await gateway.submit(session, **body)
    stranger = await gateway.services.tokens.create(gateway.me, "stranger")
    somebody = (await gateway.services.identity.authenticate(stranger.token or "")).principal
    with pytest.raises(errors.NotFound):
        await gateway.services.sessions.get(somebody, session.id)
    first = (await gateway.services.executions.list(gateway.me, session.id, 1)).items[0]
    for look in (gateway.services.executions.get, gateway.services.executions.wait, gateway.services.executions.events):
        with pytest.raises(errors.NotFound):
            await look(somebody, session.id, first.id)
    assert (await gateway.run(session, "def")).error is not None
    assert (await gateway.run(session, "a\0b")).status == "error"


async def busy(gateway: Gateway, session: Session) -> None:
    slow = await gateway.submit(session, "import time\ntime.sleep(60)")
    with pytest.raises(errors.SessionBusy):
        await gateway.submit(session, "1", on_busy="reject")
    await gateway.until_running(session, slow)
    assert (await gateway.run(session, "'next'", on_busy="interrupt")).status == "ok"
    assert (await gateway.services.executions.get(gateway.me, session.id, slow.id)).status == "interrupted"


async def followers(gateway: Gateway, session: Session) -> None:
    code = "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.1)\n1 + 1"
    execution = await gateway.submit(session, code)

    async def read(after: int = 0) -> list[Event]:
        stream = await gateway.services.executions.events(gateway.me, session.id, execution.id, after)
        async with asyncio.timeout(120):
            return [event async for event in stream]

    cut_off = asyncio.create_task(read())
    live = asyncio.create_task(read())
    await asyncio.sleep(0.1)
    cut_off.cancel()
    events = await live
    assert [event.event for event in events if event.event != "stream"] == ["started", "result", "ended"]
    assert "".join(event.data["text"] for event in events if event.event == "stream") == "0\n1\n2\n"
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert await read(after=2) == events[2:], "the same numbers after the end"
    assert await read(after=events[-1].sequence) == []


async def generations(gateway: Gateway, session: Session) -> None:
    died = await gateway.run(session, "import os; os._exit(3)")
    assert (died.status, died.death and (died.death.cause, died.death.exit_code)) == ("died", ("exit", 3))
    await gateway.until_generation(session, 2)
    assert (await gateway.run(session, "x = 1", expect_generation=2)).status == "ok"
    first = await gateway.submit(session, "import os; os._exit(4)")
    unwanted = await gateway.run(session, "x", expect_generation=2)
    assert (unwanted.status, unwanted.error and unwanted.error.name) == ("rejected", "GenerationMismatch")
    assert (await gateway.services.executions.get(gateway.me, session.id, first.id)).status == "died"
    await gateway.until_generation(session, 3)
    restarted = await gateway.services.sessions.restart(gateway.me, session.id)
    assert restarted.generation == 4
    assert (await gateway.run(session, "x")).status == "error"
    await gateway.run(session, "counter = 1")


async def queued_interrupt(gateway: Gateway, session: Session) -> None:
    slow = await gateway.submit(session, "import time\nprint('begun', flush=True)\ntime.sleep(60)")
    waiting = await gateway.submit(session, "ran = True")
    # An interrupt between the kernel's word that it runs and the first line of the code may pass unheeded.
    async with asyncio.timeout(120):
        async for event in await gateway.services.executions.events(gateway.me, session.id, slow.id):
            if event.event == "stream":
                break
    ended = await gateway.services.executions.interrupt(gateway.me, session.id, waiting.id)
    assert (ended.status, ended.started_at, ended.why) == ("interrupted", None, "it was interrupted before it began")
    assert (await gateway.services.executions.get(gateway.me, session.id, slow.id)).status == "running"
    stopped = await gateway.services.executions.interrupt(gateway.me, session.id, slow.id)
    assert (stopped.status, stopped.why) == ("interrupted", None)
    await deaf(gateway, session)
    timeout = await gateway.run(session, "while True: pass", timeout_seconds=0.5)
    assert timeout.status == "timeout"


DEAF = """
import pathlib, signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path("deaf").touch()
while not pathlib.Path("enough").exists():
    time.sleep(0.02)
"""


async def deaf(gateway: Gateway, session: Session) -> None:
    """Code that ignores every interrupt is said to, and goes on."""
    slow = await gateway.submit(session, DEAF)
    wait = CommandRequest("until [ -e deaf ]; do sleep 0.05; done")
    await gateway.services.commands.run(gateway.me, session.id, wait)
    running = await gateway.services.executions.interrupt(gateway.me, session.id, slow.id)
    assert running.status == "running"
    assert running.why is not None
    assert "its timeout of 900 s" in running.why
    assert "a restart of the kernel" in running.why
    await gateway.services.commands.run(gateway.me, session.id, CommandRequest("touch enough"))
    ended = await gateway.services.executions.wait(gateway.me, session.id, slow.id)
    assert (ended.status, ended.why) == ("ok", "it was interrupted while it ran, which had no effect")
    events = [each async for each in await gateway.services.executions.events(gateway.me, session.id, slow.id)]
    assert [(each.event, each.data["why"]) for each in events[-2:]] == [
        ("interrupt", running.why),
        ("ended", ended.why),
    ]


def test_code_that_a_silent_sandbox_was_not_given_is_said_not_to_have_begun(
    on_gateway: OnGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits behind it runs in the next sandbox."""

    async def silent() -> int:
        raise SandboxFailed("the guest says nothing")

    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        await gateway.run(session, "x = 1")
        live = await gateway.services.registry.require(gateway.me, session.id)
        monkeypatch.setattr(live.sandbox.kernel, "ready", silent)
        first, second = [
            await gateway.submit(session, f"open('ran-{n}', 'w').close(); 'x' in globals()") for n in (1, 2)
        ]
        died = await gateway.services.executions.wait(gateway.me, session.id, first.id)
        assert died.death is not None
        assert (died.status, died.death.cause) == ("died", "sandbox")
        assert died.death.detail.endswith("the guest says nothing; this code had not begun: send it again"), died
        ran = await gateway.services.executions.wait(gateway.me, session.id, second.id)
        assert (ran.status, ran.generation, ran.outputs[-1]["data"]["text/plain"]) == ("ok", 2, "False"), ran
        assert await gateway.text(session, "import os; os.listdir()") == "['ran-2']"
        await gateway.services.sessions.stop(gateway.me, session.id)

    on_gateway(test)


def test_code_of_a_sandbox_that_falls_silent_says_whether_it_had_begun(on_gateway: OnGateway) -> None:
    async def begin(gateway: Gateway, session: Session) -> str:
        running = await gateway.submit(session, "print('begun', flush=True); import time; time.sleep(600)")
        async for event in await gateway.services.executions.events(gateway.me, session.id, running.id):
            if event.event == "stream":
                break
        return running.id

    async def send_only(gateway: Gateway, session: Session) -> str:
        pid = await gateway.text(session, "import os; os.getpid()")
        await gateway.services.commands.run(gateway.me, session.id, CommandRequest(f"kill -STOP {pid}"))
        sent = await gateway.submit(session, "1")
        await gateway.until_running(session, sent)
        return sent.id

    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        for run, said in ((begin, "this code had begun"), (send_only, "whether this code had begun is not known")):
            await gateway.run(session, "1")
            kernel = (await gateway.services.registry.require(gateway.me, session.id)).sandbox.kernel
            assert kernel is not None
            execution = await run(gateway, session)
            kernel._sandbox_gone(silent_death(300))
            died = await gateway.services.executions.wait(gateway.me, session.id, execution)
            assert died.death is not None
            assert (died.status, died.death.cause) == ("died", "sandbox")
            assert died.death.detail.endswith(f"; {said}"), died.death
        await gateway.services.sessions.stop(gateway.me, session.id)

    on_gateway(test)


def test_what_one_session_does_with_executions(on_gateway: OnGateway) -> None:
    on_gateway(one_session)


async def full_queue(house: House) -> None:
    async with house.gateway(queue_length=2) as gateway:
        session = await gateway.start()
        slow = await gateway.submit(session, "import time\ntime.sleep(60)")
        await gateway.until_running(session, slow)
        for _ in range(2):
            await gateway.submit(session, "1")
        with pytest.raises(errors.QueueFull):
            await gateway.submit(session, "1")
        command = await gateway.services.commands.run(gateway.me, session.id, CommandRequest("echo $HOME"))
        assert command.stdout == "/home/user\n"
        waiting = (await gateway.services.executions.list(gateway.me, session.id)).items
        await gateway.services.sessions.stop(gateway.me, session.id)
        page = await gateway.services.executions.list(gateway.me, session.id)
        assert [each.status for each in page.items] == ["interrupted", "rejected", "rejected"]
        assert [each.id for each in page.items] == [each.id for each in waiting]


def test_a_queue_is_bounded_and_a_stop_refuses_what_waits(house: House) -> None:
    asyncio.run(full_queue(house))


async def outcome_not_stored(gateway: Gateway) -> None:
    """The disk under the database fills while code runs."""
    session = await gateway.start()
    database = gateway.services.database
    running = await gateway.submit(session, "import time\ntime.sleep(0.5)\nprint('x' * 900_000)\nkept = 1")
    pages = await database.run(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
    await database.run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}"))
    with pytest.raises(errors.NoSpace):
        await gateway.services.executions.wait(gateway.me, session.id, running.id)
    await database.run(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1000000"))
    gateway.clock.advance(10)
    ended = await gateway.services.executions.wait(gateway.me, session.id, running.id)
    assert (ended.status, len(ended.stdout)) == ("ok", 900_001)
    assert await gateway.text(session, "kept") == "1"


def test_an_outcome_that_cannot_be_stored_waits_until_it_can(on_gateway: OnGateway) -> None:
    on_gateway(outcome_not_stored)


async def waiting_code(house: House) -> None:
    """Of 750 kB one principal has 563 kB, over all sessions."""
    async with house.gateway(body_memory_bytes=1_000_000) as gateway:
        one, two = await gateway.start(), await gateway.start()
        running = [await gateway.submit(session, "import time; time.sleep(600)") for session in (one, two)]
        large = "#" + "x" * 300_000
        waiting = await gateway.submit(one, large)
        with pytest.raises(errors.LimitReached, match="memory"):
            await gateway.submit(two, large)
        small = await gateway.submit(two, "1")
        held = gateway.services.body_room.whole
        assert held.held == len(large)
        await gateway.services.executions.interrupt(gateway.me, one.id, waiting.id)
        assert held.held == 0
        again = await gateway.submit(two, large)
        for session, execution in zip((one, two), running, strict=True):
            await gateway.services.executions.interrupt(gateway.me, session.id, execution.id)
        for execution in (small, again):
            assert (await gateway.services.executions.wait(gateway.me, two.id, execution.id)).status == "ok"
        assert held.held == 0


def test_code_that_waits_takes_of_the_memory_for_bodies(house: House) -> None:
    asyncio.run(waiting_code(house))
