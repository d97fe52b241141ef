"""An update of a display changes what the execution that displayed it shows, as in Jupyter, and its notebook's cell."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kernels.execution.widgets import models_in
from kernels.notebook import chain
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.records.test_recorded_sessions import about, notebook

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]

SHOWN = "print('before')\nhandle = display('first', display_id='mine')\ndisplay('other')"
UNKNOWN = "from IPython.display import update_display; update_display('nobody', display_id='unknown')"
THREAD = """
import os, threading, time
bar = display("0 %", display_id=True)
def work():
    while not os.path.exists("go"):
        time.sleep(0.01)
    bar.update("from a thread")
threading.Thread(target=work).start()
"""


def text(said: str) -> dict[str, str]:
    return {"text/plain": repr(said)}


async def show(gateway: Gateway, session: Session, execution: Execution) -> list[dict[str, Any]]:
    return (await gateway.services.executions.get(gateway.me, session.id, execution.id)).outputs


async def cell_of(gateway: Gateway, session: Session, execution: Execution) -> dict[str, Any]:
    """Its cell, in a notebook that is valid and whole."""
    return next(each for each in await notebook(gateway, session) if each["id"] == execution.id)


async def displayed(gateway: Gateway, session: Session, execution: Execution) -> list[Any]:
    """What it displays, by the service and by the notebook alike."""
    outputs = (await cell_of(gateway, session, execution))["outputs"]
    assert outputs == await show(gateway, session, execution)
    return [each["data"] for each in outputs if "data" in each]


async def updates(gateway: Gateway) -> None:
    """One session for all: a start costs more than everything that is done in it."""
    session = await gateway.start()
    await by_a_later_cell(gateway, session)
    await as_a_progress_bar_is_written(gateway, session)
    await of_several_cells(gateway, session)
    await too_large_for_a_cell(gateway, session)
    await by_a_thread(gateway, session)
    await of_a_widget(gateway, session)
    await after_a_restart(gateway, session)
    await what_tampering_shows(gateway, session)


async def by_a_later_cell(gateway: Gateway, session: Session) -> None:
    shown = await gateway.run(session, SHOWN)
    assert shown.outputs[1]["data"] == text("first")
    quiet = await gateway.run(session, "for n in range(3): handle.update(f'now {n}')")
    assert (quiet.status, quiet.outputs) == ("ok", [])
    expected = [shown.outputs[0], {**shown.outputs[1], "data": text("now 2")}, shown.outputs[2]]
    assert await show(gateway, session, shown) == expected
    events = [each async for each in await gateway.services.executions.events(gateway.me, session.id, shown.id)]
    assert events[-1].data == {"event": "update", "data": {"display_id": "mine", "data": text("now 2"), "metadata": {}}}
    cell = await cell_of(gateway, session, shown)
    assert cell["outputs"] == expected
    assert about(cell)["revised"] == [{"output": 1, "by": quiet.id, "original": shown.outputs[1]}]
    (told,) = about(await cell_of(gateway, session, quiet))["updates"]
    assert (told["execution_id"], told["output"]) == (shown.id, 1)
    assert (await gateway.run(session, UNKNOWN)).status == "ok"
    assert await show(gateway, session, shown) == expected


async def as_a_progress_bar_is_written(gateway: Gateway, session: Session) -> None:
    first = await gateway.run(session, "d = display('0 %', display_id=True)\nd.update('10 %')")
    assert await displayed(gateway, session, first) == [text("10 %")]
    assert "revised" not in about(await cell_of(gateway, session, first))
    for part in ("50 %", "100 %"):
        await gateway.run(session, f"d.update({part!r})")
        assert await displayed(gateway, session, first) == [text(part)]


async def of_several_cells(gateway: Gateway, session: Session) -> None:
    cells = [await gateway.run(session, f"h = display('{n}', display_id='both')") for n in range(2)]
    third = await gateway.run(session, "display('2', display_id='both').update('all');")
    for each in (*cells, third):
        assert await displayed(gateway, session, each) == [text("all")]


async def too_large_for_a_cell(gateway: Gateway, session: Session) -> None:
    shown = await gateway.run(session, "from IPython.display import HTML\nbig = display('small', display_id=True)")
    await gateway.run(session, "big.update(HTML('x' * 3_000_000))")
    output = (await cell_of(gateway, session, shown))["outputs"][0]
    assert list(output["data"]) == ["text/plain"]
    file = output["metadata"]["sandcell"]["files"]["text/html"]
    digest = file.partition("/")[2].partition(".")[0]
    whole = await gateway.services.outputs.read(gateway.me, session.id, digest, lambda size: (0, size))
    assert sum([len(each) async for each in whole.chunks]) == 3_000_000
    assert len((await show(gateway, session, shown))[0]["data"]["text/html"]) == 3_000_000


async def by_a_thread(gateway: Gateway, session: Session) -> None:
    started = await gateway.run(session, THREAD)
    await gateway.run(session, "1")
    await gateway.services.commands.run(gateway.me, session.id, CommandRequest("touch go"))

    async def has_come() -> bool:
        return bool((await show(gateway, session, started))[0]["data"] == text("from a thread"))

    await gateway.until(has_come)
    assert await displayed(gateway, session, started) == [text("from a thread")]


async def of_a_widget(gateway: Gateway, session: Session) -> None:
    """A later cell changes it, then a thread of that one."""
    shown = await gateway.run(session, "import ipywidgets\nbar = ipywidgets.IntProgress(value=1)\nbar")

    def value_of(data: dict[str, Any]) -> Any:
        (value,) = [each["state"]["value"] for each in models_in({"data": data}).values() if "value" in each["state"]]
        return value

    async def has_moved() -> bool:
        return bool(value_of((await show(gateway, session, shown))[0]["data"]) == 3)

    assert value_of(shown.outputs[0]["data"]) == 1
    await gateway.run(session, "bar.value = 2")
    assert [value_of(each) for each in await displayed(gateway, session, shown)] == [2]
    moving = "def move():\n    time.sleep(0.01)\n    bar.value = 3\nthreading.Thread(target=move).start()"
    await gateway.run(session, moving)
    await gateway.until(has_moved)
    assert [value_of(each) for each in await displayed(gateway, session, shown)] == [3]
    whole = json.loads(await gateway.services.notebooks.notebook(gateway.me, session.id))
    kept = whole["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert [each["state"]["value"] for each in kept.values() if "value" in each["state"]] == [3]
    assert chain.verify(whole).whole


async def after_a_restart(gateway: Gateway, session: Session) -> None:
    before = await gateway.run(session, "old = display('old', display_id='again')")
    await gateway.services.sessions.restart(gateway.me, session.id)
    await gateway.run(session, "from IPython.display import update_display\nupdate_display('new', display_id='again')")
    assert await displayed(gateway, session, before) == [text("old")]
    after = await gateway.run(session, "mine = display('mine', display_id='again')")
    await gateway.run(session, "update_display('newer', display_id='again')")
    assert await displayed(gateway, session, before) == [text("old")]
    assert await displayed(gateway, session, after) == [text("newer")]


async def what_tampering_shows(gateway: Gateway, session: Session) -> None:
    written = json.loads(await gateway.services.notebooks.notebook(gateway.me, session.id))
    place = next(index for index, each in enumerate(written["cells"]) if each["source"] == SHOWN)

    def found(change: Callable[[dict[str, Any]], object]) -> tuple[int | None, str]:
        document = copy.deepcopy(written)
        change(document["cells"][place])
        bad = chain.verify(document).first_bad
        assert bad is not None
        return bad.index, bad.why

    def go_back(cell: dict[str, Any]) -> None:
        cell["outputs"][1] = cell["metadata"]["sandcell"].pop("revised")[0]["original"]

    not_the_update = (place, "its output 2 is not what a later cell made of it")
    assert found(lambda cell: cell["outputs"][1].update(data=text("now 3"))) == not_the_update
    assert found(lambda cell: cell["outputs"][1].update(output_type="execute_result")) == not_the_update
    assert found(go_back) == not_the_update
    assert found(lambda cell: about(cell)["revised"][0]["original"].update(data=text("1st")))[0] == place


async def what_is_stored(house: House) -> None:
    async with house.gateway(finished_jobs_bytes=1, redact_patterns="hunter[0-9]") as gateway:
        session = await gateway.start()
        shown = await gateway.run(session, SHOWN)
        await gateway.run(session, "handle.update('hunter2')")
        assert await displayed(gateway, session, shown) == [text("[redacted]"), text("other")]
        await gateway.services.sessions.stop(gateway.me, session.id)
        place = Path(house.settings.data_dir) / "store" / "workspaces" / "sessions" / session.id
        stored = (place / "history.ipynb").read_bytes()
        assert stored == await gateway.services.notebooks.notebook(gateway.me, session.id)


def test_an_update_changes_the_execution_that_displayed(on_gateway: OnGateway) -> None:
    on_gateway(updates)


def test_an_update_is_stored_as_any_output_is(house: House) -> None:
    asyncio.run(what_is_stored(house))
