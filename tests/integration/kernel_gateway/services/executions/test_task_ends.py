"""How background tasks end is on record: by themselves, stopped, out of time, while the service was away, or never."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kernel_gateway.services.executions.task_ends import WITH_SANDBOX
from sandcell.models.commands import CommandRequest
from sandcell.models.executions import Execution
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

WAITS = "echo begun; until [ -e go ]; do sleep 0.05; done; echo over; echo bad >&2; exit 3"


async def begin(gateway: Gateway, session: Session, line: str, **more: Any) -> tuple[str, str]:
    """A task, and the execution that has started it."""
    asked = CommandRequest(line, background=True, **more)
    task = await gateway.services.commands.run(gateway.me, session.id, asked)
    assert task.status == "running"
    assert task.execution_id is not None
    return task.id, task.execution_id


async def show(gateway: Gateway, session: Session, execution_id: str) -> Execution:
    return await gateway.services.executions.get(gateway.me, session.id, execution_id)


async def until_known(gateway: Gateway, session: Session, execution_id: str) -> Execution:
    """The execution once the end of its task is on record."""

    async def known() -> bool:
        return (await show(gateway, session, execution_id)).why is not None

    await gateway.until(known)
    return await show(gateway, session, execution_id)


async def read_cells(gateway: Gateway, session: Session) -> list[dict[str, Any]]:
    notebook = json.loads(await gateway.services.notebooks.notebook(gateway.me, session.id))
    return [each for each in notebook["cells"] if each["cell_type"] == "code"]


def texts(outputs: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["name"], each["text"]) for each in outputs]


def test_its_end_is_a_cell_and_stands_at_its_command(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start()
            news = await gateway.services.sessions.events(gateway.me, session.id, None)
            _, one = await begin(gateway, session, WAITS)
            begun = await show(gateway, session, one)
            assert (begun.status, begun.exit_code, begun.why, begun.late) == ("ok", None, None, [])
            await gateway.run(session, "open('go', 'w').close()")
            ended = await until_known(gateway, session, one)
            shown = [("stdout", "begun\nover\n"), ("stderr", "bad\n")]
            assert (ended.exit_code, texts(ended.late), ended.outputs) == (3, shown, [])
            assert (ended.why or "").startswith("in the background it ended after ")
            assert ended.task == begun.task
            command, code, end = await read_cells(gateway, session)
            assert (command["source"], code["source"]) == (f"%%bash\n{WAITS}", "open('go', 'w').close()")
            assert command["outputs"] == []
            told = end["metadata"]["sandcell"]
            assert (end["source"], texts(end["outputs"])) == (f"# how the background task {ended.task} ended", shown)
            assert (told["late_of"], told["status"], told["exit_code"], told["why"]) == (one, "error", 3, ended.why)
            async with asyncio.timeout(120):
                async for event in news:
                    if event.event == "late" and event.data == {"execution_id": one}:
                        break

    asyncio.run(test())


def test_one_that_is_stopped_or_runs_out_of_time(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start()
            task, stopped = await begin(gateway, session, "sleep 600")
            _, late = await begin(gateway, session, "echo slow; sleep 600", timeout_seconds=0.5)
            await gateway.services.tasks.stop(gateway.me, session.id, task)
            found = [await until_known(gateway, session, each) for each in (stopped, late)]
            assert "it was stopped after" in (found[0].why or "")
            assert "it ran into its time limit after" in (found[1].why or "")
            assert texts(found[1].late) == [("stdout", "slow\n")]
            statuses = {each["metadata"]["sandcell"]["status"] for each in (await read_cells(gateway, session))[2:]}
            assert statuses == {"interrupted", "timeout"}

    asyncio.run(test())


def test_those_of_an_earlier_process(house: House) -> None:
    """One ended while there was no service, one goes on; each end is on record once."""

    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start()
            _, meanwhile = await begin(gateway, session, "until [ -e off ]; do sleep 0.05; done; echo alone; exit 4")
            _, later = await begin(gateway, session, WAITS)
            _, before = await begin(gateway, session, "exit 5")
            await until_known(gateway, session, before)
            await gateway.run(session, "import subprocess; subprocess.Popen('sleep 1; touch off', shell=True)")
        await asyncio.sleep(2)
        async with house.gateway() as gateway:
            found = await until_known(gateway, session, meanwhile)
            assert (found.exit_code, texts(found.late)) == (4, [("stdout", "alone\n")])
            assert (await show(gateway, session, later)).why is None
            await gateway.run(session, "open('go', 'w').close()")
            assert (await until_known(gateway, session, later)).exit_code == 3
            ends = [each["metadata"]["sandcell"].get("late_of") for each in await read_cells(gateway, session)]
            assert [each for each in ends if each] == [before, meanwhile, later]

    asyncio.run(test())


def test_one_that_runs_until_the_session_ends(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            session = await gateway.start()
            task, one = await begin(gateway, session, "echo serves; sleep 600")

            async def serves() -> bool:
                return bool((await gateway.services.tasks.get(gateway.me, session.id, task)).stdout)

            await gateway.until(serves)
            await gateway.services.sessions.stop(gateway.me, session.id)
            found = await show(gateway, session, one)
            assert (found.why, found.exit_code, found.task) == (WITH_SANDBOX, None, task)
            assert texts(found.late) == [("stdout", "serves\n")]
            assert (await read_cells(gateway, session))[-1]["metadata"]["sandcell"]["why"] == WITH_SANDBOX

    asyncio.run(test())
