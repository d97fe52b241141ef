"""The record on a real database, without sandboxes: order, once, by whom ever, whatever broke before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import nbformat
import pytest
from sqlalchemy import Connection, event

from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.records.record import MOST_AT_ONCE, Record
from kernel_gateway.storage import cells, executions, principals, sessions
from kernel_gateway.storage.cells import Head
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, NoteRow, StoredOutcome
from kernel_gateway.storage.sessions import SessionRow
from kernels.notebook import chain, transcript
from kernels.notebook.transcript import Blob
from sandcell.models.executions import Death, ExecutionError

NOW = 1_700_000_000.0
SESSION, ENVIRONMENT = "s", "python"


@dataclass
class Gateway:
    """A database and a record on it, as one gateway has them."""

    database: Database
    record: Record
    kept: list[str] = field(default_factory=list)

    async def ran(self, execution_id: str, at: float, until: float | None = None, **changes: Any) -> ExecutionRow:
        """An execution that is queued and begins; and ends, when it says until when."""
        row = ExecutionRow(
            id=execution_id,
            session_id=SESSION,
            language="python",
            timeout_seconds=1.0,
            expect_generation=None,
            idempotency_key=None,
            request_digest=None,
            queued=NOW + at,
            started=NOW + at,
            **{
                "status": "ok",
                "author": "ada",
                "face": "rest",
                "generation": 1,
                "code": f"code of {execution_id}",
                **changes,
            },
        )
        await self.database.run(lambda c: executions.add(c, row))
        await self.database.run(lambda c: executions.begin(c, row.id, row.generation, NOW + at))
        if until is not None:
            await self.ends(row, until)
        return row

    async def ends(self, row: ExecutionRow, at: float) -> None:
        outcome = row.outcome or StoredOutcome()
        ended = msgspec.structs.replace(row, ended=NOW + at, outcome=outcome)
        await self.database.run(lambda c: executions.finish(c, ended))

    async def noted(self, kind: str, at: float, body: str = "something", generation: int = 2) -> None:
        note = NoteRow(SESSION, generation, NOW + at, kind, body)
        await self.database.run(lambda c: executions.add_note(c, note))

    async def notebook(self) -> dict[str, Any]:
        head = await self.record.settle(SESSION)
        written, _ = await self.database.run(lambda c: cells.page(c, SESSION, Head()))
        first = chain.genesis(SESSION, ENVIRONMENT)
        ending = transcript.ending(SESSION, ENVIRONMENT, cells=head.cells, head=head.hash or first)
        made: dict[str, Any] = json.loads(transcript.HEAD + transcript.BETWEEN.join(written) + ending)
        nbformat.validate(nbformat.from_dict(made))  # type: ignore[no-untyped-call]
        assert chain.verify(made) == chain.Verified(whole=True, cells=len(made["cells"]))
        return made

    async def ids(self) -> list[str]:
        return [cell["id"] for cell in (await self.notebook())["cells"]]


Test = Callable[[Gateway], Awaitable[None]]


async def opened(directory: Path) -> Gateway:
    database = Database(f"sqlite:///{directory}/sandcell.db")
    await database.open()
    gateway = Gateway(database, Record(database, Background(), _refuse))
    gateway.record = Record(database, Background(), lambda _, blobs: _kept(gateway, blobs))
    return gateway


async def _refuse(session_id: str, blobs: Sequence[Blob]) -> None:
    raise AssertionError((session_id, len(blobs)))


async def _kept(gateway: Gateway, blobs: Sequence[Blob]) -> None:
    gateway.kept += [blob.name for blob in blobs]


async def begun(gateway: Gateway) -> None:
    row = SessionRow(SESSION, "p", SESSION, "n", ENVIRONMENT, 1, NOW, NOW, NOW + 10, 10, 10, None, {})
    await gateway.database.run(lambda c: principals.add(c, Principal("p", "me", admin=True), NOW))
    await gateway.database.run(lambda c: sessions.add_workspace(c, SESSION, "p", NOW))
    await gateway.database.run(lambda c: sessions.add(c, row))


@pytest.fixture
def on_record(tmp_path: Path) -> Callable[[Test], None]:
    async def run(test: Test) -> None:
        gateway = await opened(tmp_path)
        try:
            await begun(gateway)
            await test(gateway)
        finally:
            await gateway.database.aclose()

    return lambda test: asyncio.run(run(test))


OnRecord = Callable[[Test], None]


async def in_order(gateway: Gateway) -> None:
    await gateway.noted("started", 1, generation=1)
    await gateway.ran("a", 1, 2)
    assert await gateway.ids() == ["note-1", "a"]
    await gateway.ran("b", 3, 4)
    await gateway.noted("generation", 5)
    await gateway.ran("c", 5, 6, clear_context=True, generation=2)
    await gateway.noted("ended", 5)
    assert await gateway.ids() == ["note-1", "a", "b", "note-2", "c", "note-3"]
    before = json.dumps(await gateway.notebook())
    assert json.dumps(await gateway.notebook()) == before, "the same record has the same bytes"


def test_cells_stand_in_the_order_of_time(on_record: OnRecord) -> None:
    on_record(in_order)


async def count_statements(gateway: Gateway, work: Awaitable[Any]) -> int:
    """How many statements the database carries out meanwhile, besides the bounds of transactions."""
    statements: list[str] = []
    engine = await gateway.database.run(lambda c: c.engine)

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        await work
    finally:
        event.remove(engine, "before_cursor_execute", note)
    return sum(not statement.startswith("BEGIN") for statement in statements)


async def together(gateway: Gateway) -> None:
    async def look() -> dict[str, Any]:
        return {"files": []}

    counts = []
    for start, count in ((1, 2), (10, MOST_AT_ONCE)):
        for number in range(start, start + count):
            row = await gateway.ran(f"e{number}", number)
            with gateway.record.ending(SESSION, row.id, look):
                await gateway.ends(row, number + 0.5)
        counts.append(await count_statements(gateway, gateway.record.settle(SESSION)))
    assert counts[0] == counts[1] + 1, "sixteen cells take as many as two; the first also asks for the session"
    notebook = await gateway.notebook()
    assert len(notebook["cells"]) == 2 + MOST_AT_ONCE
    assert [cell["metadata"]["sandcell"]["provenance"] for cell in notebook["cells"]] == [{"files": []}] * 18


def test_cells_that_are_written_together_take_few_statements(on_record: OnRecord) -> None:
    on_record(together)


async def count_transactions(gateway: Gateway, work: Awaitable[Any]) -> int:
    """How many transactions the database carries out meanwhile."""
    begun: list[Connection] = []
    engine = await gateway.database.run(lambda c: c.engine)

    def note(connection: Connection) -> None:
        begun.append(connection)

    event.listen(engine, "begin", note)
    try:
        await work
    finally:
        event.remove(engine, "begin", note)
    return len(begun)


async def read_at_once(gateway: Gateway) -> None:
    read: list[tuple[int, int]] = []

    def look(connection: Connection, head: Head) -> None:
        read.append((head.cells, len(cells.links(connection, SESSION))))

    await gateway.noted("started", 1)
    await gateway.ran("a", 1, 2)
    assert await count_transactions(gateway, gateway.record.settle_and_read(SESSION, look)) == 2
    assert await count_transactions(gateway, gateway.record.settle_and_read(SESSION, look)) == 1
    for number in range(MOST_AT_ONCE + 1):
        await gateway.ran(f"b{number}", 3 + number, 3.5 + number)
    assert await count_transactions(gateway, gateway.record.settle_and_read(SESSION, look)) == 4
    assert read == [(2, 2), (2, 2), (MOST_AT_ONCE + 3,) * 2], "once, and of the record as it is then"


def test_what_is_read_of_a_record_takes_no_transaction_of_its_own(on_record: OnRecord) -> None:
    on_record(read_at_once)


async def read_late(gateway: Gateway) -> None:
    looked: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    row = await gateway.ran("a", 1)
    with gateway.record.ending(SESSION, row.id, lambda: looked):
        await gateway.ends(row, 2)
    settling = asyncio.create_task(gateway.record.settle_and_read(SESSION, lambda _c, head: head.cells))
    await asyncio.sleep(0.1)
    assert not settling.done()
    looked.set_result({"files": ["found"]})
    assert (await settling)[1] == 1
    assert (await gateway.notebook())["cells"][0]["metadata"]["sandcell"]["provenance"] == {"files": ["found"]}


def test_a_cell_waits_for_what_is_found_out_about_its_execution(on_record: OnRecord) -> None:
    on_record(read_late)


async def meanwhile(gateway: Gateway) -> None:
    running = await gateway.ran("long", 1)
    await gateway.ran("shell", 2, 3, kind="command", code="ls")
    await gateway.noted("generation", 4, "**Kernel generation 2.** out of memory")
    assert await gateway.ids() == ["shell"], "a note of what happened while something runs follows it"
    death = Death("oom", "out of memory")
    await gateway.ends(msgspec.structs.replace(running, status="died", outcome=StoredOutcome(death=death)), 5)
    await gateway.ran("after", 6, 7)
    notebook = await gateway.notebook()
    assert [cell["id"] for cell in notebook["cells"]] == ["shell", "long", "death-long", "note-1", "after"]
    assert notebook["cells"][0]["source"] == "%%bash\nls"
    assert "out of memory" in notebook["cells"][2]["source"]
    assert notebook["cells"][3]["source"] == "**Kernel generation 2** starts blank."


def test_what_happens_while_an_execution_runs(on_record: OnRecord) -> None:
    on_record(meanwhile)


async def told_once_across_settles(gateway: Gateway) -> None:
    outcome = StoredOutcome(death=Death("exit", "it left with status 3"))
    await gateway.ran("a", 1, 2, status="died", outcome=outcome)
    assert await gateway.ids() == ["a", "death-a"]
    await gateway.noted("generation", 2, "**Kernel generation 2.** it left with status 3")
    await gateway.noted("generation", 3, "**Kernel generation 3.** restarted by ada", generation=3)
    sources = [cell["source"] for cell in (await gateway.notebook())["cells"]]
    assert sources[2:] == ["**Kernel generation 2** starts blank.", "**Kernel generation 3.** restarted by ada"]


def test_a_cause_is_told_once_however_the_cells_came(on_record: OnRecord) -> None:
    on_record(told_once_across_settles)


async def says_everything(gateway: Gateway) -> None:
    found = {"files": [{"path": "a.txt", "change": "added", "size": 1, "sha256": "00"}]}

    async def look() -> dict[str, Any]:
        await asyncio.sleep(0.05)
        return found

    row = await gateway.ran("a", 1, provenance={"cpu_seconds": 0.5, "silent": True, "full": [{"stream": "stdout"}]})
    with gateway.record.ending(SESSION, "a", look):
        await gateway.ends(row, 2)
    outcome = StoredOutcome(exit_code=2, stderr="no", outputs=[_stream("stderr", "no")])
    await gateway.ran("b", 3, 4, kind="command", status="error", code="ls x", outcome=outcome)
    refusal = StoredOutcome(error=ExecutionError("GenerationMismatch", "not yours", []))
    await gateway.ran("c", 5, 6, status="rejected", outcome=refusal)
    first, second, third = (cell["metadata"]["sandcell"] for cell in (await gateway.notebook())["cells"])
    assert (first["author"], first["face"], first["kind"]) == ("ada", "rest", "code")
    assert first["provenance"] == {"cpu_seconds": 0.5, **found}, "the cell waits for what is found out after the end"
    assert (first["full"], first["silent"]) == ([{"stream": "stdout"}], True)
    stored = await gateway.database.run(lambda c: executions.find(c, SESSION, "a"))
    assert stored is not None
    assert (stored.provenance or {})["files"] == found["files"]
    assert (second["kind"], second["exit_code"]) == ("command", 2)
    assert third["why"] == "GenerationMismatch: not yours"


def _stream(name: str, text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def test_a_cell_says_who_how_and_what_came_of_it(on_record: OnRecord) -> None:
    on_record(says_everything)


async def looks_that_fail(gateway: Gateway) -> None:
    async def look() -> dict[str, Any]:
        raise OSError("gone")

    row = await gateway.ran("a", 1)
    with gateway.record.ending(SESSION, "a", look):
        await gateway.ends(row, 2)
    await gateway.record.wait_for_looks(SESSION)
    other = await gateway.ran("b", 3)
    with pytest.raises(RuntimeError), gateway.record.ending(SESSION, "b", look):
        raise RuntimeError("the row could not be written")
    await gateway.ends(other, 4)
    assert await gateway.ids() == ["a", "b"]


def test_nothing_that_is_not_found_out_holds_a_cell_up(on_record: OnRecord) -> None:
    on_record(looks_that_fail)


async def unreadable(gateway: Gateway) -> None:
    await gateway.ran("a", 1, 2)
    await gateway.ran("b", 3, 4)
    change = "UPDATE executions SET outcome = ? WHERE id = ?"
    await gateway.database.run(lambda c: c.exec_driver_sql(change, (b'{"outputs": 7', "a")))
    first, second = (await gateway.notebook())["cells"]
    assert (first["source"], first["outputs"]) == ("code of a", [])
    assert "cannot be read" in first["metadata"]["sandcell"]["why"]
    assert second["id"] == "b"


def test_an_outcome_that_cannot_be_read_holds_nothing_up(on_record: OnRecord) -> None:
    on_record(unreadable)


async def large_output(gateway: Gateway) -> None:
    data = {"text/html": "x" * 3_000_000, "text/plain": "<HTML>"}
    outcome = StoredOutcome(outputs=[{"output_type": "display_data", "data": data, "metadata": {}}])
    await gateway.ran("a", 1, 2, outcome=outcome)
    (cell,) = (await gateway.notebook())["cells"]
    assert len(json.dumps(cell)) < 3_000
    (full,) = cell["metadata"]["sandcell"]["full"]
    assert gateway.kept == [f"history_files/{full['sha256']}.html"]
    assert full["size"] == 3_000_000
    assert full["href"] == f"/v1/sessions/{SESSION}/outputs/{full['sha256']}"


def test_a_large_output_is_a_file_and_the_cell_says_where(on_record: OnRecord) -> None:
    on_record(large_output)


async def a_long_session(gateway: Gateway) -> None:
    """More rows than are held in memory at once, as in a session of before there was a record."""
    for number in range(50):
        await gateway.ran(f"e{number}", number, number + 0.5)
    assert await gateway.ids() == [f"e{number}" for number in range(50)]
    await gateway.ran("next", 60, 61)
    await gateway.record.settle(SESSION, whole=False)
    assert len(await gateway.ids()) == 51


def test_rows_of_before_become_cells(on_record: OnRecord) -> None:
    on_record(a_long_session)


async def raced(directory: Path) -> None:
    """Two gateways on one database write the same record at the same time, again and again."""
    one, other = await opened(directory), await opened(directory)
    try:
        await begun(one)
        wanted = []
        for number in range(40):
            row = await (one, other)[number % 2].ran(f"e{number}", number, number + 0.5)
            wanted.append(row.id)
            settled = await asyncio.gather(
                *(each.record.settle(SESSION, whole=number % 3 == 0) for each in (one, other, one))
            )
            assert {head.cells for head in settled} == {number + 1}
        assert await one.ids() == wanted
        assert await one.notebook() == await other.notebook()
    finally:
        await one.database.aclose()
        await other.database.aclose()


def test_gateways_that_race_write_every_cell_once(tmp_path: Path) -> None:
    asyncio.run(raced(tmp_path))


async def crashed(directory: Path) -> None:
    """A gateway is gone between an execution's outcome and its cell; the next one writes the cell."""
    first = await opened(directory)
    await begun(first)
    await first.ran("a", 1, 2)
    await first.record.settle(SESSION)
    await first.ran("b", 3, 4)
    await first.database.aclose()
    second = await opened(directory)
    try:
        await second.ran("c", 5, 6)
        await second.record.settle(SESSION, whole=False)
        assert await second.ids() == ["a", "b", "c"]
    finally:
        await second.database.aclose()


def test_a_crash_between_outcome_and_cell_loses_no_cell(tmp_path: Path) -> None:
    asyncio.run(crashed(tmp_path))
