"""Output that comes after its execution has ended: with the execution, in a cell of its own, and for followers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from kernel_gateway.services.sessions import late_outputs
from kernel_gateway.services.sessions.live_session import LiveSession
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Event, Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.records.test_recorded_sessions import about, notebook

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]

THREAD = """
import os, threading, time
def wait_and_print(file, text):
    while not os.path.exists(file):
        time.sleep(0.01)
    print(text)
threading.Thread(target=wait_and_print, args=("one", "late")).start()
print("in time")
"""
TASK = """
import asyncio
from IPython.display import HTML
async def wait_and_display():
    while not os.path.exists("two"):
        await asyncio.sleep(0.01)
    print("before")
    display(HTML("<b>later</b>"))
    1 / 0
task = asyncio.create_task(wait_and_display())
"""
LATE = [{"output_type": "stream", "name": "stdout", "text": "late\n"}]


async def show(gateway: Gateway, session: Session, execution: Execution) -> Execution:
    return await gateway.services.executions.get(gateway.me, session.id, execution.id)


async def touch(gateway: Gateway, session: Session, name: str) -> None:
    await gateway.services.commands.run(gateway.me, session.id, CommandRequest(f"touch {name}"))


async def late(gateway: Gateway) -> None:
    session = await gateway.start()
    thread = await gateway.run(session, THREAD)
    task = await gateway.run(session, TASK)
    assert (thread.stdout, thread.late, task.outputs) == ("in time\n", [], [])
    following = asyncio.create_task(followed(gateway, session, thread))
    await touch(gateway, session, "one")

    async def has_come() -> bool:
        return (await show(gateway, session, thread)).late == LATE

    await gateway.until(has_come)
    assert (await show(gateway, session, thread)).late == LATE
    cell = (await notebook(gateway, session))[-1]
    assert (cell["source"], cell["outputs"], about(cell)["kind"]) == ("# late output of cell 1", LATE, "late")
    assert (about(cell)["late_of"], about(cell)["generation"]) == (thread.id, 1)
    assert (await show(gateway, session, thread)).late == LATE, "it is written down, once"
    await touch(gateway, session, "two")

    async def has_displayed() -> bool:
        return len((await show(gateway, session, task)).late) > 1

    await gateway.until(has_displayed)
    shown = (await show(gateway, session, task)).late
    assert [each["output_type"] for each in shown] == ["stream", "display_data"]
    assert shown[1]["data"]["text/html"] == "<b>later</b>"
    listed = await gateway.services.executions.list(gateway.me, session.id)
    assert [each.id for each in listed.items] == [thread.id, task.id], "late output is no execution"
    await gateway.services.sessions.restart(gateway.me, session.id)
    events = await following
    assert [kind for kind, _ in itertools.groupby(each.event for each in events)] == [
        "started",
        "stream",
        "ended",
        "late",
    ]
    came = [each.data for each in events if each.event == "late"]
    assert {(each["event"], each["data"]["name"]) for each in came} == {("stream", "stdout")}
    assert "".join(each["data"]["text"] for each in came) == "late\n"
    again = [each async for each in await gateway.services.executions.events(gateway.me, session.id, thread.id)]
    assert again == events
    await unheard(gateway, session)


async def followed(gateway: Gateway, session: Session, execution: Execution) -> list[Event]:
    events = await gateway.services.executions.events(gateway.me, session.id, execution.id, late=True)
    return [each async for each in events]


async def unheard(gateway: Gateway, session: Session) -> None:
    """The next kernel is heard as well; what nobody has asked for is in the record when the session has ended."""
    execution = await gateway.run(session, THREAD.replace('"one"', '"three"'))
    await touch(gateway, session, "three")

    async def has_come() -> bool:
        return (await show(gateway, session, execution)).late == LATE

    await gateway.until(has_come)
    await gateway.services.sessions.stop(gateway.me, session.id)
    cells = [each for each in await notebook(gateway, session) if about(each).get("late_of") == execution.id]
    assert "".join(output["text"] for cell in cells for output in cell["outputs"]) == "late\n"


async def gathered(house: House) -> None:
    """Nothing but the end of a session, or of the service, has it written down."""
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        idle, kept = await gateway.start(idle_timeout_seconds=60), await gateway.start()
        ran = [await gateway.run(session, THREAD) for session in (idle, kept)]
        for session, execution in zip((idle, kept), ran, strict=True):
            await touch(gateway, session, "one")
            live = gateway.services.registry.get(session.id)
            assert live is not None

            async def is_heard(live: LiveSession = live, of: str = execution.id) -> bool:
                return [each.outputs for each in live.late.pending(of)] == [LATE]

            await gateway.until(is_heard)
        gateway.clock.advance(61)
        await gateway.ended(idle)
        assert (await show(gateway, idle, ran[0])).late == LATE
        assert about((await notebook(gateway, idle))[-2])["late_of"] == ran[0].id
    async with house.gateway() as gateway:
        assert (await show(gateway, kept, ran[1])).late == LATE
        assert about((await notebook(gateway, kept))[-1])["late_of"] == ran[1].id


def test_what_is_gathered_is_written_down_when_a_session_or_the_service_ends(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(late_outputs, "QUIET_SECONDS", 1_000.0)
    asyncio.run(gathered(house))


async def many(gateway: Gateway) -> None:
    session = await gateway.start()

    async def until_come(execution: Execution) -> None:
        async def has_come() -> bool:
            return (await show(gateway, session, execution)).late == LATE

        await gateway.until(has_come)

    together = [await gateway.run(session, THREAD) for _ in range(late_outputs.MOST_LARGE + 1)]
    await touch(gateway, session, "one")
    for execution in together:
        await until_come(execution)
    numbers = range(late_outputs.MOST_SOURCES + 1)
    ran = [await gateway.run(session, THREAD.replace('"one"', f'"{each}"')) for each in numbers]
    for number, execution in enumerate(ran):
        await touch(gateway, session, str(number))
        await until_come(execution)
    await gateway.services.sessions.stop(gateway.me, session.id)
    of = [about(cell)["late_of"] for cell in await notebook(gateway, session) if about(cell).get("kind") == "late"]
    assert sorted(of) == sorted(each.id for each in (*together, *ran))


def test_of_many_cells_one_after_another_each_has_its_late_output(
    on_gateway: OnGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is gathered, as for a session that has printed late for a while."""
    monkeypatch.setattr(late_outputs, "QUIET_SECONDS", 1_000.0)
    monkeypatch.setattr(late_outputs, "SILENT_SECONDS", 0.0)
    on_gateway(many)


def test_output_that_comes_late_is_a_cell_an_event_and_with_its_execution(on_gateway: OnGateway) -> None:
    on_gateway(late)
