"""An update of a display changes what the execution that displayed it shows, as in Jupyter."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kernel_gateway.shapes import Execution, Session
from tests.integration.services.conftest import Gateway, House
from tests.integration.services.test_recorded_sessions import about, notebook

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]

SHOWN = "print('before')\nhandle = display('first', display_id='mine')\ndisplay('other')"
UNKNOWN = "from IPython.display import update_display; update_display('nobody', display_id='unknown')"


async def show(gateway: Gateway, session: Session, execution: Execution) -> list[dict[str, Any]]:
    return (await gateway.services.executions.get(gateway.me, session.id, execution.id)).outputs


async def updates(gateway: Gateway) -> None:
    session = await gateway.start()
    shown = await gateway.run(session, SHOWN)
    assert shown.outputs[1]["data"] == {"text/plain": "'first'"}
    quiet = await gateway.run(session, "for n in range(3): handle.update(f'now {n}')")
    assert (quiet.status, quiet.outputs) == ("ok", [])
    expected = [shown.outputs[0], {**shown.outputs[1], "data": {"text/plain": "'now 2'"}}, shown.outputs[2]]
    assert await show(gateway, session, shown) == expected
    events = [each async for each in await gateway.services.executions.events(gateway.me, session.id, shown.id)]
    assert events[-1].data == {
        "event": "update",
        "data": {"display_id": "mine", "data": {"text/plain": "'now 2'"}, "metadata": {}},
    }
    cell = next(each for each in await notebook(gateway, session) if each["id"] == quiet.id)
    (told,) = about(cell)["provenance"]["updates"]
    assert (told["execution_id"], told["output"]) == (shown.id, 1)
    assert (await gateway.run(session, UNKNOWN)).status == "ok"
    assert await show(gateway, session, shown) == expected


async def what_is_stored(house: House) -> None:
    async with house.gateway(finished_jobs_bytes=1, redact_patterns="hunter[0-9]") as gateway:
        session = await gateway.start()
        shown = await gateway.run(session, SHOWN)
        await gateway.run(session, "handle.update('hunter2')")
        assert (await show(gateway, session, shown))[1]["data"] == {"text/plain": "'[redacted]'"}


def test_an_update_changes_the_execution_that_displayed(on_gateway: OnGateway) -> None:
    on_gateway(updates)


def test_an_update_is_stored_as_any_output_is(house: House) -> None:
    asyncio.run(what_is_stored(house))
