"""Whatever rows a session has, its written cells are a valid notebook, whole by its chain, the same each time."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import nbformat
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_gateway.services.records.written_cells import Entry, write
from kernel_gateway.services.results.outcomes import trim
from kernel_gateway.storage.executions import ExecutionRow, NoteRow, StoredOutcome
from kernels.notebook import chain, transcript
from sandcell.models.executions import Death, ExecutionError, Truncated
from tests.unit.kernels.execution.test_outputs import ANY_TEXT
from tests.unit.kernels.notebook.test_transcript import OUTPUT, STATUS

CLEAN = ANY_TEXT.map(lambda text: text.encode("utf-8", "replace").decode())
OUTCOME = st.builds(
    StoredOutcome,
    stdout=CLEAN,
    outputs=st.lists(OUTPUT, max_size=3),
    error=st.none() | st.builds(ExecutionError, CLEAN, CLEAN, st.lists(CLEAN, max_size=2)),
    death=st.none() | st.builds(Death, CLEAN, CLEAN),
    truncated=st.builds(Truncated, stdout=st.integers(0, 9)),
    exit_code=st.none() | st.integers(-64, 255),
    task=st.none() | CLEAN,
)
TIME = st.floats(0, 4e9)
EXECUTION = st.builds(
    ExecutionRow,
    id=st.uuids().map(str),
    session_id=st.just("s"),
    status=STATUS,
    language=st.sampled_from(["python", "javascript", "bash"]),
    code=CLEAN,
    generation=st.integers(0, 9),
    timeout_seconds=st.just(1.0),
    expect_generation=st.none(),
    idempotency_key=st.none(),
    request_digest=st.none(),
    queued=TIME,
    clear_context=st.booleans(),
    runtime=st.sampled_from(["python", "deno", "bash"]),
    kind=st.sampled_from(["code", "command"]),
    author=CLEAN,
    face=st.sampled_from(["", "rest", "jupyter"]),
    provenance=st.none() | st.just({"cpu_seconds": 0.25, "full": [{"stream": "stdout", "sha256": "0" * 64}]}),
    execution_count=st.none() | st.integers(0, 99),
    outcome=st.none() | OUTCOME.map(lambda outcome: trim(outcome, 100)),
    started=st.none() | TIME,
    ended=TIME,
)
NOTE = st.builds(
    NoteRow,
    session_id=st.just("s"),
    generation=st.integers(1, 9),
    at=TIME,
    kind=st.sampled_from(["started", "generation", "restart", "ended"]),
    body=CLEAN,
)


def entries(rows: list[ExecutionRow | NoteRow]) -> list[Entry]:
    made = []
    for number, row in enumerate(rows):
        if isinstance(row, NoteRow):
            made.append(Entry(note=NoteRow(row.session_id, row.generation, row.at, row.kind, row.body, number)))
        else:
            made.append(Entry(row=row, found={"files": []}))
    return made


def notebook(rows: list[ExecutionRow | NoteRow]) -> bytes:
    written = write(entries(rows), previous=chain.genesis("s", "python"), told="")
    head = written.cells[-1].hash if written.cells else chain.genesis("s", "python")
    ending = transcript.ending("s", "python", cells=len(written.cells), head=head)
    return transcript.HEAD + transcript.BETWEEN.join(cell.cell for cell in written.cells) + ending


def distinct(row: ExecutionRow | NoteRow) -> Any:
    return row.id if isinstance(row, ExecutionRow) else id(row)


@settings(max_examples=40)
@given(st.lists(EXECUTION | NOTE, max_size=5, unique_by=distinct))
def test_every_session_is_a_valid_notebook(rows: list[ExecutionRow | NoteRow]) -> None:
    made = notebook(rows)
    nbformat.validate(nbformat.reads(made.decode(), as_version=4))  # type: ignore[no-untyped-call]
    read = json.loads(made)
    assert (read["nbformat"], read["nbformat_minor"]) == (4, 5)
    assert chain.verify(read) == chain.Verified(whole=True, cells=len(read["cells"]))
    assert notebook(rows) == made
    ran = [row.id for row in rows if isinstance(row, ExecutionRow)]
    assert [cell["id"] for cell in read["cells"] if cell["cell_type"] == "code"] == ran


def test_a_row_that_cannot_be_rendered_is_a_cell_that_says_so() -> None:
    row = ExecutionRow("e", "s", "ok", "python", "x = 1", 1, 1.0, None, None, None, 0.0, ended=1.0)
    row = msgspec.structs.replace(row, outcome=StoredOutcome(outputs=[{"output_type": "stream", "text": "x"}, 7]))  # type: ignore[list-item]
    (cell,) = json.loads(notebook([row]))["cells"]
    assert (cell["source"], cell["outputs"]) == ("x = 1", [])
    assert cell["metadata"]["sandcell"]["why"] == "its outcome cannot be shown"
