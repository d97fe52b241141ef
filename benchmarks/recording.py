"""What it costs to record an execution: at a session's tenth cell, at its five thousandth, and to save the notebook.

Rows are written to a real database and become cells by the service's own record; nothing runs in a sandbox.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
from msgspec.structs import replace

from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.sessions.notebooks import worth_saving
from kernel_gateway.storage import cells, executions, principals, sessions
from kernel_gateway.storage.cells import Head
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from kernel_gateway.storage.sessions import SessionRow
from kernels.notebook import transcript
from kernels.notebook.transcript import Blob
from tests.running_service import RunningService

SHORT, LONG = 10, 5_000
OUTPUT = "one line of what a cell prints\n" * 32
SWEEP_SECONDS = 30
HOURS = 8


def run(_service: RunningService, _environments_dir: Path, *, rounds: int = 300) -> str:
    with tempfile.TemporaryDirectory(prefix="screc", dir="/tmp") as directory:
        return asyncio.run(_measured(Path(directory), rounds, LONG if rounds > 10 else 50))


async def _measured(directory: Path, rounds: int, long: int) -> str:
    database = Database(f"sqlite:///{directory}/sandcell.db")
    await database.open()
    try:
        await database.run(lambda c: principals.add(c, Principal("p", "me", admin=True), 1.0))
        record = Record(database, Background(), _kept_nowhere)
        await _session(database, record, "long", long)
        early, late = [], []
        await _one(database, record, "long", long)
        for number in range(1, rounds):
            await _session(database, record, f"short{number}", SHORT - 1)
            await _one(database, record, f"short{number}", SHORT - 1)
            early.append(await _one(database, record, f"short{number}", SHORT))
            late.append(await _one(database, record, "long", long + number))
        rewritten = await _rewrite(database)
    finally:
        await database.aclose()
    first, last = statistics.median(early) * 1000, statistics.median(late) * 1000
    written = _saved_over_recorded()
    return (
        f"a cell of 1 KB at cell {SHORT} {first:.2f} ms, at cell {long:,} {last:.2f} ms: {last / first:.2f} times"
        f" (at most 1.5); to write that notebook again {rewritten * 1000:,.0f} ms; the store gets {written:.1f} times"
        f" what is recorded in {HOURS} hours of a cell a second (at most 5)"
    )


async def _one(database: Database, record: Record, session_id: str, number: int) -> float:
    """The seconds that the record takes for one execution that has ended."""
    with record.ending(session_id, f"{session_id}-{number}"):
        await database.run(lambda c: _ended(c, session_id, number))
    begun = time.perf_counter()
    await record.settle(session_id, whole=False)
    return time.perf_counter() - begun


async def _session(database: Database, record: Record, session_id: str, count: int) -> None:
    row = SessionRow(session_id, "p", session_id, "n", "python", 1, 1.0, 1.0, 1e9, 10, 10, None, {})
    await database.run(lambda c: sessions.add_workspace(c, session_id, "p", 1.0))
    await database.run(lambda c: sessions.add(c, row))
    for begun in range(0, count, 100):
        numbers = range(begun, min(begun + 100, count))
        await database.run(lambda c, numbers=numbers: [_ended(c, session_id, each) for each in numbers])
    head = await record.settle(session_id)
    assert head.cells == count, head


def _ended(connection: executions.Connection, session_id: str, number: int) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": OUTPUT}
    row = ExecutionRow(
        id=f"{session_id}-{number}",
        session_id=session_id,
        status="running",
        language="python",
        code="print('one line of what a cell prints\\n' * 32)",
        generation=1,
        timeout_seconds=1.0,
        expect_generation=None,
        idempotency_key=None,
        request_digest=None,
        queued=float(number),
        started=float(number),
    )
    executions.add(connection, row)
    outcome = StoredOutcome(stdout=OUTPUT, outputs=[output])
    executions.finish(connection, replace(row, status="ok", ended=number + 0.5, outcome=outcome))


async def _rewrite(database: Database) -> float:
    """The seconds to render and write the long notebook as a whole, as every save once did."""
    rows, cursor = await database.run(lambda c: executions.list_of(c, "long", 1_000, None))
    while cursor is not None:
        more, cursor = await database.run(lambda c, at=cursor: executions.list_of(c, "long", 1_000, at))
        rows += more
    begun = time.perf_counter()
    entries = [
        transcript.Cell(row.id, row.code, row.status, outputs=(row.outcome or StoredOutcome()).outputs) for row in rows
    ]
    written = nbformat.writes(transcript.notebook(entries, session_id="long", environment="python"))
    took = time.perf_counter() - begun
    pages, place = 0, Head()
    while (page := await database.run(lambda c, at=place: cells.page(c, "long", at)))[0]:
        pages, place = pages + sum(map(len, page[0])), page[1]
    assert pages > len(rows) * len(OUTPUT) < len(written)
    return took


def _saved_over_recorded() -> float:
    """How many bytes the store gets for each that is recorded, at a cell of 2 KB a second, by the service's rule."""
    recorded = saved = written = 0
    saved_at = 0.0
    for now in range(0, HOURS * 3_600, SWEEP_SECONDS):
        recorded += 2_000 * SWEEP_SECONDS
        if worth_saving(saved, recorded, now - saved_at):
            written, saved, saved_at = written + recorded, recorded, float(now)
    return (written + recorded) / recorded


async def _kept_nowhere(_session_id: str, blobs: Sequence[Blob]) -> None:
    assert not blobs
