"""clearContext: the code gets a blank Python kernel, durably, and everything else of the session stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from kernel_gateway import errors
from sandcell.models.commands import CommandRequest
from tests.integration.kernel_gateway.faces.agentcore.tools.conftest import Gateway, House, Tools

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


async def cleared(gateway: Gateway) -> None:
    session = await gateway.start()
    tools = Tools(gateway, session)
    await tools("executeCode", code="x = 41; open('kept', 'w').write('file')")
    task = await gateway.services.commands.run(gateway.me, session.id, CommandRequest("sleep 60", background=True))
    blank = await gateway.submit(session, "'x' in globals(), open('kept').read()", clear_context=True)
    ended = await gateway.services.executions.wait(gateway.me, session.id, blank.id)
    assert (ended.status, ended.generation, ended.clear_context) == ("ok", 2, True)
    assert ended.outputs[0]["data"]["text/plain"] == "(False, 'file')"
    events = await gateway.services.executions.events(gateway.me, session.id, blank.id)
    live = [(event.event, event.data) async for event in events]
    assert live[0] == ("generation", {"generation": 2, "cause": "restart"})
    assert [name for name, _ in live] == ["generation", "started", "result", "ended"]
    assert (await gateway.services.tasks.get(gateway.me, session.id, task.id)).status == "running"
    gateway.clock.advance(1)
    assert await tools.text("executeCode", code="y = 1; y", clearContext=False) == "1"
    assert await tools.text("executeCode", code="y") == "1", "only what asks for it is on a blank kernel"
    gateway.clock.advance(1)
    assert await tools.text("executeCode", code="print('y' in globals())", clearContext=True) == "False"
    with pytest.raises(errors.GenerationMismatch):
        await gateway.submit(session, "1", clear_context=True, expect_generation=2)
    with pytest.raises(errors.InvalidRequest):
        await gateway.submit(session, "1", clear_context=True, language="javascript")
    await in_the_notebook(gateway, session.id)


async def in_the_notebook(gateway: Gateway, session_id: str) -> None:
    notebook = json.loads(await gateway.services.notebooks.notebook(gateway.me, session_id))
    about = [cell["metadata"]["sandcell"] for cell in notebook["cells"]]
    asked = [number for number, each in enumerate(about) if each.get("clear_context")]
    assert len(asked) == 2
    for number in asked:
        assert (about[number - 1]["kind"], about[number - 1]["generation"]) == (
            "generation",
            about[number]["generation"],
        )
        assert "context was cleared on request" in "".join(notebook["cells"][number - 1]["source"])


def test_code_on_a_blank_kernel(on_gateway: OnGateway) -> None:
    on_gateway(cleared)


async def restarted(house: House) -> None:
    """The service ends while the code that asks for a blank kernel waits."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        await gateway.run(session, "x = 41")
        running = await gateway.submit(session, "import time\ntime.sleep(3)")
        queued = await gateway.submit(session, "'x' in globals()", clear_context=True)
        after = await gateway.submit(session, "z = 'x' in globals(); z")
        await gateway.until_running(session, running)
    async with house.gateway() as gateway:
        for each in (queued, after):
            ran = await gateway.services.executions.wait(gateway.me, session.id, each.id)
            assert (ran.status, ran.outputs[0]["data"]["text/plain"], ran.generation) == ("ok", "False", 2)
        stored = await gateway.services.executions.list(gateway.me, session.id)
        assert [each.clear_context for each in stored.items] == [False, False, True, False]


@pytest.mark.sample("doors")
def test_being_asked_for_a_blank_kernel_outlives_the_service(house: House) -> None:
    asyncio.run(restarted(house))


async def interrupted(gateway: Gateway) -> None:
    session = await gateway.start()
    slow = await gateway.submit(session, "import time\ntime.sleep(60)")
    blank = await gateway.submit(session, "1", clear_context=True)
    await gateway.until_running(session, slow)
    await gateway.services.executions.interrupt(gateway.me, session.id, blank.id)
    await gateway.services.executions.interrupt(gateway.me, session.id, slow.id)
    ended = await gateway.services.executions.wait(gateway.me, session.id, blank.id)
    assert (ended.status, (await gateway.show(session)).generation) == ("interrupted", 1), (
        "what never runs clears nothing"
    )
    again = await gateway.run(session, "import os; os._exit(1)")
    assert again.status == "died"
    assert (await gateway.run(session, "1 + 1", clear_context=True)).status == "ok"


def test_an_interrupt_before_and_a_death_before(on_gateway: OnGateway) -> None:
    on_gateway(interrupted)
