"""Programs are followed by all who ask, also once the service has restarted; their record says what was cut off."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kernels.guest_client.client import GuestClient
from kernels.guest_client.programs import ProgramEnd, ProgramEvent, ProgramOutput, ProgramRequest, ProgramStarted
from sandcell.models.commands import ProgramEnded, ProgramInput, StartProgram
from sandcell.models.executions import Event
from tests.integration.kernel_gateway.services.conftest import Gateway, House

GUARD_SECONDS = 120
Test = Callable[[Gateway], Awaitable[None]]


async def rest(events: AsyncIterator[ProgramEvent]) -> tuple[bytes, int | None]:
    """What it puts out, and its exit code."""
    seen = b""
    async with asyncio.timeout(GUARD_SECONDS):
        async for event in events:
            if isinstance(event, ProgramOutput):
                seen += event.data
            elif isinstance(event, ProgramEnd):
                return seen, event.exit_code
    raise AssertionError("the stream ended before the program")


def test_a_program_outlives_the_service_and_is_followed_by_all(house: House) -> None:
    async def test() -> None:
        request = ProgramRequest(["/bin/cat"], "/tmp", takes_input=True, tag="kept", timeout_seconds=600.0)
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            programs, me = gateway.services.programs, gateway.me
            events = await programs.start(me, session.id, request, face="e2b")
            started = await anext(events)
            assert isinstance(started, ProgramStarted)
            await programs.send_input(me, session.id, b"before ", pid=started.pid)
            assert isinstance(await anext(events), ProgramOutput)
        async with house.gateway() as gateway:
            programs, me, pid = gateway.services.programs, gateway.me, started.pid
            both = await asyncio.gather(*(programs.follow(me, session.id, pid=pid) for _ in range(2)))
            await programs.send_input(me, session.id, b"heard", pid=pid)
            await programs.close_input(me, session.id, pid=pid, tag=None)
            assert await asyncio.gather(*(rest(each) for each in both)) == [(b"heard", 0)] * 2
            cells: list[dict[str, Any]] = []

            async def recorded() -> bool:
                notebook = json.loads(await gateway.services.notebooks.notebook(me, session.id))
                cells[:] = [each for each in notebook["cells"] if each["cell_type"] == "code"]
                return bool(cells)

            await gateway.until(recorded)
            (cell,) = cells
            assert cell["metadata"]["sandcell"]["status"] == "ok", "it was not cut off"
            assert "".join(cell["outputs"][0]["text"]) == "before heard", "what it put out before is on record too"

    asyncio.run(test())


def test_who_follows_while_a_program_starts_takes_no_place(
    on_gateway: Callable[[Test], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        programs, me = gateway.services.programs, gateway.me
        begun, listed, start = asyncio.Event(), asyncio.Event(), GuestClient.start_program

        async def start_slowly(guest: GuestClient, request: ProgramRequest) -> AsyncGenerator[ProgramEvent]:
            events = await start(guest, request)
            begun.set()
            await listed.wait()
            return events

        monkeypatch.setattr(GuestClient, "start_program", start_slowly)
        request = ProgramRequest(["/bin/cat"], "/tmp", takes_input=True, tag="raced", timeout_seconds=600.0)
        starting = asyncio.create_task(programs.start(me, session.id, request, face="e2b"))
        async with asyncio.timeout(GUARD_SECONDS):
            await begun.wait()
        (found,) = await programs.list_running(me, session.id)
        following = asyncio.create_task(programs.follow(me, session.id, pid=found.pid))
        if (await asyncio.wait({following}, timeout=0.3))[0]:  # it has come first
            await anext(following.result())
        listed.set()
        both = await starting, await following
        await programs.send_input(me, session.id, b"heard", pid=found.pid)
        await programs.close_input(me, session.id, pid=found.pid, tag=None)
        assert await asyncio.gather(*(rest(each) for each in both)) == [(b"heard", 0)] * 2

    on_gateway(test)


async def output(events: AsyncIterator[Event], wanted: bytes) -> tuple[int, bytes]:
    """What is told until it has these bytes, and where it stands then."""
    seen = b""
    async with asyncio.timeout(GUARD_SECONDS):
        async for event in events:
            assert event.event == "output", event
            seen += b64decode(event.data["data"])
            if wanted in seen:
                return event.sequence, seen
    raise AssertionError(f"the stream ended before {wanted!r}")


def test_who_was_cut_off_by_a_restart_misses_nothing(house: House) -> None:
    async def test() -> None:
        asked = StartProgram(command=["cat"])
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            streams, me = gateway.services.program_streams, gateway.me
            program = await streams.start(me, session.id, asked, lease=None)
            await streams.send_input(me, session.id, program.id, typed(b"before "), lease=None)
            position, _ = await output(await streams.follow(me, session.id, program.id, 0), b"before ")
            assert position == len(b"before ")
        async with house.gateway() as gateway:
            streams, me = gateway.services.program_streams, gateway.me
            await streams.send_input(me, session.id, program.id, typed(b"after"), lease=None)
            events = await streams.follow(me, session.id, program.id, position)
            assert await output(events, b"after") == (position + len(b"after"), b"after")
            late = await streams.follow(me, session.id, program.id, 0)
            assert await output(late, b"after") == (position + len(b"after"), b"before after")
            await streams.send_input(me, session.id, program.id, ProgramInput(end=True), lease=None)
            async with asyncio.timeout(GUARD_SECONDS):
                ended = [each async for each in events][-1]
            assert (ended.event, ended.data["exit_code"]) == ("ended", 0)

    asyncio.run(test())


def test_a_program_that_nobody_follows_is_ended_also_after_a_restart(house: House) -> None:
    async def test() -> None:
        deaf = StartProgram(command=["sh", "-c", "trap '' HUP; echo deaf; while :; do sleep 1; done"])
        followed = StartProgram(command=["cat"])
        async with house.gateway(keep_sessions_on_shutdown=True, program_unfollowed_seconds=3) as gateway:
            session = await gateway.start()
            streams, me = gateway.services.program_streams, gateway.me
            kept = await streams.start(me, session.id, followed, lease=None)
            follower = asyncio.create_task(rest_of(await streams.follow(me, session.id, kept.id, 0)))
            left = await streams.start(me, session.id, deaf, lease=None)

            async def ended() -> bool:
                return (await streams.get(me, session.id, left.id)).ended is not None

            await gateway.until(ended)
            assert (await streams.get(me, session.id, left.id)).ended == ProgramEnded(None, "SIGKILL")
            assert (await streams.get(me, session.id, kept.id)).ended is None
            assert "nobody had followed it" in (await gateway.services.notebooks.notebook(me, session.id)).decode()
        follower.cancel()
        async with house.gateway() as gateway:  # what ends it is its own bound, not the service's by now

            async def gone() -> bool:
                return not await gateway.services.program_streams.list_running(gateway.me, session.id)

            await gateway.until(gone)

    asyncio.run(test())


async def rest_of(events: AsyncIterator[Event]) -> None:
    async for _event in events:
        pass


def typed(data: bytes) -> ProgramInput:
    return ProgramInput(b64encode(data).decode())
