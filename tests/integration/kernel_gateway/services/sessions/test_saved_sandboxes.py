"""Idle sessions under gVisor whose sandboxes are saved to disk: they go on as they were."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.kernel_gateway.services.conftest import House, house_in
from tests.integration.kernel_gateway.services.sessions.test_idle_memory import IDLE_SECONDS, LONG, page_out

HOLD = """
import threading, time
kept, counted = 41, 0
def count():
    global counted
    while True:
        counted += 1
        time.sleep(0.02)
threading.Thread(target=count, daemon=True).start()
output = open("output", "w")
"""
USE = """
seen = counted
while counted == seen:
    time.sleep(0.01)
output.write("there")
output.flush()
kept + 1, open("output").read()
"""


async def lives(house: House, saved: Path) -> None:
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start(**LONG, keep_variables="each")
        await gateway.run(session, HOLD)
        await page_out(gateway, session)
        (image,) = saved.glob("*/saved/checkpoint.img")
        assert image.parent.stat().st_mode & 0o777 == 0o700
        assert await gateway.text(session, USE) == "(42, 'there')"
        assert not [*saved.glob("*/saved")], "it is removed once it is used"
        await page_out(gateway, session)
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        assert await gateway.text(session, USE) == "(42, 'therethere')", "a restart of the service restores it, too"
        assert (await gateway.show(session)).generation == 1
        await page_out(gateway, session)
        (image,) = saved.glob("*/saved/checkpoint.img")
        image.write_bytes(b"damaged")
        await gateway.run(session, "pass")  # it finds the sandbox gone
        found = await gateway.text(session, "'kept' in globals(), open('output').read()")
        assert found == "(False, 'therethere')", "what is lost is as with any sandbox"
        shown = await gateway.show(session)
        assert shown.generation == 2
        assert shown.restored is not None
        assert "the sandbox was lost" in (shown.restored.why or "")
        await page_out(gateway, session)
        await gateway.services.sessions.stop(gateway.me, session.id)
    assert not [*saved.glob("*")], "it goes with its session"


@pytest.mark.long
def test_an_idle_sandbox_of_gvisors_is_saved_and_goes_on_as_it_was(
    tmp_path: Path, short_directory: Path, environments_dir: Path
) -> None:
    house = house_in(tmp_path, short_directory, environments_dir)
    settings = replace(house.settings, runtime="runsc", gvisor_checkpoints=True, idle_memory_seconds=IDLE_SECONDS)
    asyncio.run(lives(House(settings), Path(settings.data_dir) / "sandboxes"))
