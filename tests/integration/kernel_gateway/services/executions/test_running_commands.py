"""A shell command that runs is listed, followed with what it puts out, and stopped, whoever asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from kernel_gateway.services.sessions.interrupts import BEFORE_IT_BEGAN
from kernels.guest_client.client import GuestClient
from kernels.guest_client.programs import ProgramRequest
from sandcell.models.commands import Command, CommandRequest
from sandcell.models.executions import Event, Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

GUARD_SECONDS = 120
WAITS = "echo begun; echo ä >&2; until [ -e go ]; do sleep 0.05; done; echo over; exit 5"


async def find_running(gateway: Gateway, session: Session) -> Execution:
    """The command of a session that runs."""
    found: list[Execution] = []

    async def is_running() -> bool:
        page = await gateway.services.executions.list(gateway.me, session.id, commands=True)
        found[:] = [each for each in page.items if each.kind == "command" and each.status == "running"]
        return bool(found)

    await gateway.until(is_running)
    return found[0]


async def read(events: AsyncIterator[Event], until: str = "ended") -> list[tuple[str, dict[str, Any]]]:
    """Events up to one that says this."""
    seen = []
    async with asyncio.timeout(GUARD_SECONDS):
        async for event in events:
            seen.append((event.event, event.data))
            if event.event == until or until in event.data.get("text", ""):
                return seen
    raise AssertionError(f"it ended before {until}: {seen}")


def text_of(events: list[tuple[str, dict[str, Any]]], name: str) -> str:
    return "".join(data["text"] for kind, data in events if kind == "stream" and data["name"] == name)


def test_it_is_followed_while_it_runs_and_after_its_end(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            me, executions = gateway.me, gateway.services.executions
            session = await gateway.start()
            news = await gateway.services.sessions.events(me, session.id, None)
            run = gateway.services.commands.run(me, session.id, CommandRequest(WAITS), face="mcp")
            running = asyncio.create_task(run)
            shown = await find_running(gateway, session)
            assert (shown.face, shown.code, shown.exit_code) == ("mcp", WAITS, None)
            events = await executions.events(me, session.id, shown.id)
            begun = await read(events, "ä")
            assert (text_of(begun, "stdout"), text_of(begun, "stderr")) == ("begun\n", "ä\n")
            await gateway.services.commands.run(me, session.id, CommandRequest("touch go"))
            ended = await read(events)
            assert text_of(ended, "stdout") == "over\n"
            assert (ended[-1][1]["status"], ended[-1][1]["exit_code"]) == ("error", 5)
            assert (await running).execution_id == shown.id
            again = await read(await executions.events(me, session.id, shown.id))
            assert text_of(again, "stdout") == "begun\nover\n"
            assert (again[-1][1]["status"], again[-1][1]["exit_code"]) == ("error", 5)
            await gateway.run(session, "1")
            told = []
            async with asyncio.timeout(GUARD_SECONDS):
                async for event in news:
                    told.append((event.event, event.data.get("status")))
                    if event.event == "execution":
                        break
            assert told[:4] == [("command", each) for each in ("running", "running", "ok", "error")]

    asyncio.run(test())


def test_it_is_stopped_by_its_id(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            me, services = gateway.me, gateway.services
            session = await gateway.start()
            running = asyncio.create_task(services.commands.run(me, session.id, CommandRequest("echo in; sleep 600")))
            shown = await find_running(gateway, session)
            followed = asyncio.create_task(read(await services.executions.events(me, session.id, shown.id)))
            assert (await services.executions.interrupt(me, session.id, shown.id)).status == "interrupted"
            assert (await running).status == "stopped"
            assert (await followed)[-1][1]["status"] == "interrupted"
            program = ProgramRequest(["/bin/sh", "-c", "echo in; sleep 600"], "/tmp", timeout_seconds=600.0)
            events = await services.programs.start(me, session.id, program, face="e2b")
            shown = await find_running(gateway, session)
            assert (shown.code, shown.face) == ("/bin/sh -c 'echo in; sleep 600'", "e2b")
            followed = asyncio.create_task(read(await services.executions.events(me, session.id, shown.id), "in\n"))
            assert text_of(await followed, "stdout") == "in\n"
            assert (await services.executions.interrupt(me, session.id, shown.id)).status == "interrupted"
            async with asyncio.timeout(GUARD_SECONDS):
                assert [each async for each in events]

    asyncio.run(test())


def test_one_that_its_guest_has_not_begun_yet_is_stopped(house: House, monkeypatch: Any) -> None:
    asked = asyncio.Event()
    keep, stop, start, find = (
        GuestClient.keep_command,
        GuestClient.stop_command,
        GuestClient.start_program,
        GuestClient.list_programs,
    )

    async def keep_later(*args: Any, **named: Any) -> Any:
        await asked.wait()
        return await keep(*args, **named)

    async def stop_first(*args: Any) -> Any:
        try:
            return await stop(*args)
        finally:
            asked.set()

    async def start_later(*args: Any) -> Any:
        await asked.wait()
        return await start(*args)

    async def find_first(*args: Any) -> Any:
        try:
            return await find(*args)
        finally:
            asked.set()

    async def test() -> None:
        async with house.gateway() as gateway:
            me, services = gateway.me, gateway.services
            session = await gateway.start()
            for name, instead in (("keep_command", keep_later), ("stop_command", stop_first)):
                monkeypatch.setattr(GuestClient, name, instead)
            running = asyncio.create_task(services.commands.run(me, session.id, CommandRequest("touch begun")))
            shown = await find_running(gateway, session)
            ended = await services.executions.interrupt(me, session.id, shown.id)
            assert (ended.status, ended.why) == ("interrupted", BEFORE_IT_BEGAN)
            assert (await running).status == "stopped"
            asked.clear()
            for name, instead in (("start_program", start_later), ("list_programs", find_first)):
                monkeypatch.setattr(GuestClient, name, instead)
            program = ProgramRequest(["/bin/sleep", "600"], "/tmp", timeout_seconds=600.0)
            starting = asyncio.create_task(services.programs.start(me, session.id, program, face="e2b"))
            shown = await find_running(gateway, session)
            assert (await services.executions.interrupt(me, session.id, shown.id)).status == "interrupted"
            async with asyncio.timeout(GUARD_SECONDS):
                assert [each async for each in await starting]
            assert await gateway.text(session, "import os; os.path.exists('begun')") == "False"

    asyncio.run(test())


def test_one_that_the_next_process_takes_up_tells_its_output_again(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            running = asyncio.create_task(gateway.services.commands.run(gateway.me, session.id, CommandRequest(WAITS)))
            shown = await find_running(gateway, session)
            await read(await gateway.services.executions.events(gateway.me, session.id, shown.id), "begun")
        await asyncio.wait([running])
        async with house.gateway() as gateway:
            executions, me = gateway.services.executions, gateway.me
            assert (await find_running(gateway, session)).id == shown.id
            events = await executions.events(me, session.id, shown.id, 2)
            begun = await read(events, "begun")
            assert begun[0][0] == "truncated"
            await gateway.services.commands.run(me, session.id, CommandRequest("touch go"))
            assert text_of(await read(events), "stdout") == "over\n"
            assert (await executions.get(me, session.id, shown.id)).exit_code == 5

    asyncio.run(test())


def test_nobody_is_asked_for_output_that_nobody_follows(house: House, monkeypatch: Any) -> None:
    asked: list[str] = []
    read_output = GuestClient.read_output

    async def count(guest: GuestClient, execution: str, after: Any) -> Any:
        asked.append(execution)
        return await read_output(guest, execution, after)

    monkeypatch.setattr(GuestClient, "read_output", count)

    async def test() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start()
            run = gateway.services.commands.run
            assert (await run(gateway.me, session.id, CommandRequest("echo 1; sleep 2"))).stdout == "1\n"
            assert asked == []
            running: asyncio.Task[Command] = asyncio.create_task(run(gateway.me, session.id, CommandRequest(WAITS)))
            shown = await find_running(gateway, session)
            async with aclosing(await gateway.services.executions.events(gateway.me, session.id, shown.id)) as events:  # type: ignore[type-var]
                await read(events, "begun")
            assert set(asked) == {shown.id}
            await gateway.services.executions.interrupt(gateway.me, session.id, shown.id)
            await running

    asyncio.run(test())
