"""Programs that outlive the service: they are followed again by all who ask, and their record says what was cut off."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from kernels.guest_client.programs import ProgramEnd, ProgramEvent, ProgramOutput, ProgramRequest, ProgramStarted
from tests.integration.kernel_gateway.services.conftest import House

GUARD_SECONDS = 120


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
            started = await anext(await programs.start(me, session.id, request, face="e2b"))
            assert isinstance(started, ProgramStarted)
        async with house.gateway() as gateway:
            programs, me, pid = gateway.services.programs, gateway.me, started.pid
            both = await asyncio.gather(*(programs.follow(me, session.id, pid=pid) for _ in range(2)))
            await programs.send_input(me, session.id, b"heard", pid=pid)
            await programs.close_input(me, session.id, pid=pid, tag=None)
            assert await asyncio.gather(*(rest(each) for each in both)) == [(b"heard", 0)] * 2
            cells = json.loads(await gateway.services.notebooks.notebook(me, session.id))["cells"]
            (cell,) = [each for each in cells if each["cell_type"] == "code"]
            assert "gateway_restart" in json.dumps(cell), "it was cut off, and has not died"

    asyncio.run(test())
