"""What happens in real sessions, as their notebooks tell it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import nbformat
from sqlalchemy import Connection

from kernel_gateway.storage import executions
from kernel_gateway.storage.executions import ExecutionRow
from kernels.notebook import chain
from sandcell.models.commands import CommandRequest
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


async def notebook(gateway: Gateway, session: Session) -> list[dict[str, Any]]:
    data = await gateway.services.notebooks.notebook(gateway.me, session.id)
    manifest = chain.read_manifest(await gateway.services.notebooks.manifest(gateway.me, session.id))
    nbformat.validate(nbformat.reads(data.decode(), as_version=4))  # type: ignore[no-untyped-call]
    read = json.loads(data)
    assert chain.verify(read, manifest).whole
    return list(read["cells"])


def about(cell: dict[str, Any]) -> dict[str, Any]:
    return dict(cell["metadata"]["sandcell"])


async def of_all_kinds(gateway: Gateway) -> None:
    """One session for all: a start costs more than everything that is done in it."""
    session = await gateway.start()
    gateway.clock.advance(1)
    await commands(gateway, session)
    await same_as_the_kernels(gateway, session)
    await restarts(gateway, session)
    await while_one_runs(gateway, session)
    await gateway.services.sessions.stop(gateway.me, session.id)
    cells = await notebook(gateway, session)
    assert about(cells[0])["kind"] == "started"
    assert about(cells[-1])["kind"] == "ended"
    await require_their_numbers(gateway, session, cells)
    later = await gateway.start(workspace_id=session.workspace_id)
    await gateway.services.commands.run(gateway.me, later.id, CommandRequest("true"))  # the files are there then
    restored = (await notebook(gateway, later))[1]
    assert about(restored)["kind"] == "restored"
    assert restored["source"].startswith("**Workspace restored:** 1 file, 5 bytes, as they were at ")


async def require_their_numbers(gateway: Gateway, session: Session, cells: list[dict[str, Any]]) -> None:
    """An execution says which cell of the notebook it is."""
    executions = gateway.services.executions
    listed = (await executions.list(gateway.me, session.id)).items
    assert len(listed) > 1
    for each in listed:
        assert each.cell is not None
        assert about(cells[each.cell - 1])["execution_id"] == each.id
        assert (await executions.get(gateway.me, session.id, each.id)).cell == each.cell


async def commands(gateway: Gateway, session: Session) -> None:
    run = gateway.services.commands.run
    done = await run(gateway.me, session.id, CommandRequest("echo out; echo err >&2; echo kept > f; exit 3"))
    assert done.exit_code == 3
    task = await run(gateway.me, session.id, CommandRequest("sleep 60", background=True), face="agentcore")
    late = await run(gateway.me, session.id, CommandRequest("sleep 30", timeout_seconds=0.2))
    assert late.timed_out
    first, second, third = (await notebook(gateway, session))[1:]
    assert first["source"] == "%%bash\necho out; echo err >&2; echo kept > f; exit 3"
    assert [(each["name"], each["text"]) for each in first["outputs"]] == [("stdout", "out\n"), ("stderr", "err\n")]
    told = about(first)
    assert (told["kind"], told["status"], told["exit_code"]) == ("command", "error", 3)
    assert (told["author"], told["face"]) == (gateway.me.name, "rest")
    assert [(each["path"], each["change"]) for each in told["provenance"]["files"]] == [("f", "added")]
    assert (about(second)["status"], about(second)["task"], about(second)["face"]) == ("ok", task.id, "agentcore")
    assert about(third)["status"] == "timeout"
    await gateway.services.tasks.stop(gateway.me, session.id, task.id)
    executions = gateway.services.executions

    async def known() -> bool:
        return (await executions.get(gateway.me, session.id, task.execution_id or "")).exit_code is not None

    await gateway.until(known)
    assert (await executions.list(gateway.me, session.id)).items == [], "they are no code"
    listed = (await executions.list(gateway.me, session.id, commands=True)).items
    assert [(each.kind, each.exit_code, each.task, each.cell) for each in listed] == [
        ("command", 3, None, 2),
        ("command", 143, task.id, 3),
        ("command", 143, None, 4),
    ]
    assert await executions.get(gateway.me, session.id, done.execution_id or "") == listed[0]
    page = await executions.list(gateway.me, session.id, 2, commands=True)
    rest = await executions.list(gateway.me, session.id, 2, page.next_cursor, commands=True)
    assert (page.total, [*page.items, *rest.items], rest.next_cursor) == (3, listed, None)


async def same_as_the_kernels(gateway: Gateway, session: Session) -> None:
    """The kernel's own In and Out are what the notebook says."""
    for code in ("x = 6 * 7", "x", "'two\\nlines'", "1 / 0", "[x] * 3"):
        await gateway.run(session, code)
    ask = "import json; print(json.dumps([In[:-1], {number: repr(value) for number, value in Out.items()}]))"
    said = json.loads((await gateway.run(session, ask)).stdout)
    numbered = [cell for cell in await notebook(gateway, session) if cell.get("execution_count")]
    assert [cell["source"] for cell in numbered[:-1]] == said[0][1:]
    assert [cell["execution_count"] for cell in numbered] == list(range(1, len(numbered) + 1))
    results = {
        str(output["execution_count"]): output["data"]["text/plain"]
        for cell in numbered
        for output in cell["outputs"]
        if output["output_type"] == "execute_result"
    }
    assert results == said[1]


async def restarts(gateway: Gateway, session: Session) -> None:
    await gateway.services.sessions.restart(gateway.me, session.id, author="ada (attached)")
    await gateway.until_generation(session, 2)
    asked, blank = (await notebook(gateway, session))[-2:]
    assert asked["source"] == "**Restart** of the kernel, asked for by `ada (attached)`."
    assert (about(blank)["kind"], about(blank)["generation"]) == ("generation", 2)


async def while_one_runs(gateway: Gateway, session: Session) -> None:
    before = len(await notebook(gateway, session))
    running = await gateway.submit(session, "import time; time.sleep(60)")
    await gateway.until_running(session, running)
    await gateway.services.commands.run(gateway.me, session.id, CommandRequest("true"))
    assert [about(cell)["kind"] for cell in (await notebook(gateway, session))[before:]] == ["command"]
    await gateway.services.executions.interrupt(gateway.me, session.id, running.id)
    async with asyncio.timeout(120):
        await gateway.services.executions.wait(gateway.me, session.id, running.id)
    (_, interrupted) = (await notebook(gateway, session))[before:]
    assert (interrupted["id"], about(interrupted)["status"]) == (running.id, "interrupted")


def test_a_notebook_tells_all_that_happened(on_gateway: OnGateway) -> None:
    on_gateway(of_all_kinds)


async def secrets(house: House) -> None:
    async with house.gateway(redact_patterns="sk-[a-z]{8,}\nhunter[0-9]") as gateway:
        session = await gateway.start()
        ran = await gateway.run(session, "key = 'sk-abcdefghijkl'; print(key); raise ValueError(key)")
        assert ran.stdout == "sk-abcdefghijkl\n", "it is the record that keeps no secrets"
        assert await gateway.text(session, "key") == "'sk-abcdefghijkl'"
        await gateway.services.commands.run(gateway.me, session.id, CommandRequest("echo hunter2; echo hunter3 >&2"))
        cells = json.dumps(await notebook(gateway, session))
        stored = await gateway.services.database.run(
            lambda c: c.exec_driver_sql("SELECT code, outcome FROM executions").fetchall()
        )
        for kept in (cells, str(stored)):
            assert "abcdefghijkl" not in kept
            assert "hunter" not in kept
            assert "key = '[redacted]'" in kept.replace("\\'", "'")
            assert "echo [redacted]" in kept


def test_what_patterns_match_is_in_no_record(house: House) -> None:
    asyncio.run(secrets(house))


async def store_away_at_the_end(house: House) -> None:
    async with house.gateway() as gateway:
        session = await gateway.start()
        await gateway.run(session, "x = 1")
        gateway.store.away = True
        await gateway.services.sessions.stop(gateway.me, session.id)
    kept = Path(house.settings.data_dir) / "store" / "workspaces" / "sessions" / session.id / "history.ipynb"
    assert not kept.exists()
    async with house.gateway() as gateway:
        await gateway.services.upkeep.sweep()
        assert kept.read_bytes() == await gateway.services.notebooks.notebook(gateway.me, session.id)
        assert list((Path(house.settings.data_dir) / "state" / "unsaved").iterdir()) == []


def test_a_notebook_that_the_store_did_not_take_is_saved_by_the_next_service(house: House) -> None:
    asyncio.run(store_away_at_the_end(house))


async def saved_twice_at_once(house: House) -> None:
    """The first put of the notebook is slow; meanwhile there is more to save, and it is asked for."""
    async with house.gateway(flush_deadline_seconds=60.0) as gateway:
        session = await gateway.start()
        reached, released = threading.Event(), threading.Event()

        def before_put(key: str) -> None:
            if key.endswith("history.ipynb") and not reached.is_set():
                reached.set()
                assert released.wait(120)

        notebooks = gateway.services.notebooks
        gateway.store.before_put = before_put
        first = asyncio.create_task(notebooks.save(session.id))
        assert await asyncio.to_thread(reached.wait, 60)
        await gateway.run(session, "x = 1")
        whole = await notebooks.notebook(gateway.me, session.id)
        second = asyncio.create_task(notebooks.save(session.id))
        await asyncio.wait([second], timeout=1)
        released.set()
        assert await first
        assert await second
        kept = Path(house.settings.data_dir) / "store" / "workspaces" / "sessions" / session.id
        assert (kept / "history.ipynb").read_bytes() == whole
        manifest = chain.read_manifest((kept / "history.json").read_bytes())
        assert chain.verify(json.loads((kept / "history.ipynb").read_bytes()), manifest).whole


def test_an_older_notebook_is_not_written_over_a_newer_one(house: House) -> None:
    asyncio.run(saved_twice_at_once(house))


async def never_heard_of_again(house: House) -> None:
    """A command is on record as running, and nothing in this process knows of it, when its session ends."""
    async with house.gateway(redact_patterns="hunter[0-9]") as gateway:
        session = await gateway.start()
        now = gateway.clock.now()
        lost = ExecutionRow(
            id="lost",
            session_id=session.id,
            status="running",
            language="bash",
            code="echo hunter2",
            generation=1,
            timeout_seconds=1.0,
            expect_generation=None,
            idempotency_key=None,
            request_digest=None,
            queued=now,
            kind="command",
        )

        def begun(connection: Connection) -> None:
            executions.add(connection, lost)
            executions.begin(connection, lost.id, 1, now)

        await gateway.services.database.run(begun)
        await gateway.services.sessions.stop(gateway.me, session.id)
        cells = await notebook(gateway, session)
        assert [about(cell)["kind"] for cell in cells] == ["started", "command", "death", "ended"]
        assert cells[1]["source"] == "%%bash\necho [redacted]"
        assert "the session ended while this ran (stopped)" in about(cells[1])["death"]["detail"]


def test_a_command_that_nobody_finished_ends_with_its_session(house: House) -> None:
    asyncio.run(never_heard_of_again(house))


async def gone_in_between(house: House) -> None:
    async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
        session = await gateway.start()
        await gateway.run(session, "x = 1")
        cut = "DELETE FROM cells WHERE session_id = ? AND execution_id IS NOT NULL"
        await gateway.services.record.settle(session.id)
        await gateway.services.database.run(lambda c: c.exec_driver_sql(cut, (session.id,)))
    async with house.gateway() as gateway:
        kinds = [about(cell)["kind"] for cell in await notebook(gateway, session)]
        assert kinds == ["started", "code"]


def test_a_cell_that_was_not_written_before_the_end_of_the_service_is_written_after(house: House) -> None:
    asyncio.run(gone_in_between(house))
