"""Stored rows to written cells: what a cell says of an execution or a note. Pure but for the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import structlog

from kernel_gateway.services.clock import rfc3339, rfc3339_or_none
from kernel_gateway.storage.cells import NewCell
from kernel_gateway.storage.executions import ExecutionRow, NoteRow, StoredOutcome
from kernels import transcript
from kernels.errors import Death
from kernels.outputs import Output, Truncated
from kernels.transcript import Blob

log = structlog.get_logger(__name__)


@dataclass
class Entry:
    """What becomes a cell: an execution, with what was found out after its end, or a note. `why`: it is not whole."""

    row: ExecutionRow | None = None
    note: NoteRow | None = None
    why: str = ""
    found: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.row is not None and self.found:
            self.row = replace(self.row, provenance={**(self.row.provenance or {}), **self.found})


@dataclass(frozen=True)
class Written:
    """Cells to be stored, and the files that they name."""

    cells: list[NewCell]
    blobs: list[Blob]


def write(entries: Sequence[Entry], *, previous: str, told: str) -> Written:
    """The cells of entries, linked behind `previous`; `told` is of what the kernel died, if the last cell says so."""
    made, blobs = Written([], []), {}
    for entry in entries:
        for cell, files in _rendered(entry, told):
            sealed = transcript.seal(cell, previous)
            previous = sealed.hash
            execution = entry.row.id if entry.row is not None and cell["cell_type"] == "code" else None
            note = entry.note.number if entry.note is not None else None
            made.cells.append(NewCell(sealed.id, sealed.data, sealed.hash, execution, note))
            blobs.update({each.name: each for each in files})
        told = "" if entry.row is None else death_detail(entry.row)
    made.blobs.extend(blobs.values())
    return made


def death_detail(row: ExecutionRow) -> str:
    """Of what the kernel died when this ran, or nothing."""
    return row.outcome.death.detail if row.outcome is not None and row.outcome.death is not None else ""


def _rendered(entry: Entry, told: str) -> list[tuple[dict[str, Any], list[Blob]]]:
    """What cannot be rendered is a cell all the same: it says so, and holds up nothing."""
    if entry.note is not None:
        return [(each, []) for each in transcript.render(_note(entry.note, told))]
    if entry.row is None:
        return []
    try:
        cell, blobs = _cell(entry.row, entry.why)
        rendered = transcript.render(cell)
        msgspec.json.encode(rendered)
    except Exception as error:
        log.error("cell_not_rendered", session=entry.row.session_id, execution=entry.row.id, error=repr(error))
        cell, blobs = _cell(replace(entry.row, outcome=None, provenance=None), "its outcome cannot be shown")
        rendered = transcript.render(cell)
    return [(each, blobs) for each in rendered]


def _note(note: NoteRow, told: str) -> transcript.Note:
    """A new generation's note does not repeat why the kernel died when the cell before it has said so."""
    again = note.kind == "generation" and told != "" and told in note.body
    text = f"**Kernel generation {note.generation}** starts blank." if again else note.body
    return transcript.Note(note.kind, text, rfc3339(note.at), note.generation, note.number)


def _cell(row: ExecutionRow, why: str) -> tuple[transcript.Cell, list[Blob]]:
    outcome = row.outcome or StoredOutcome()
    cut, death = outcome.truncated, outcome.death
    provenance = dict(row.provenance or {})
    full, silent = list(provenance.pop("full", [])), provenance.pop("silent", False)
    late_of = provenance.pop("late_of", None)
    outputs, blobs = _split(outcome.outputs)
    why = why or outcome.why or ""
    if row.status == "rejected" and outcome.error is not None:
        why = f"{outcome.error.name}: {outcome.error.value}"
    cell = transcript.Cell(
        execution_id=row.id,
        code=row.code,
        status=row.status,
        execution_count=row.execution_count,
        outputs=outputs,
        generation=row.generation,
        started_at=rfc3339_or_none(row.started),
        ended_at=rfc3339_or_none(row.ended),
        truncated=Truncated(cut.stdout, cut.stderr, cut.outputs),
        death=None if death is None else Death(**msgspec.structs.asdict(death)),
        author=row.author or None,
        clear_context=row.clear_context,
        late_of=late_of,
        language="python" if row.kind == "command" else row.language,
        runtime="python" if row.kind == "command" else row.runtime,
        kind=row.kind,
        face=row.face or None,
        why=why or None,
        exit_code=outcome.exit_code,
        task=outcome.task,
        silent=bool(silent),
        provenance=provenance,
        full=[*full, *(_where(row.session_id, each) for each in blobs)],
    )
    return cell, blobs


def _split(outputs: Sequence[Output]) -> tuple[list[Output], list[Blob]]:
    """Large rich outputs are files beside the notebook; in the cell there is what they are called."""
    kept: list[Output] = []
    blobs: list[Blob] = []
    for output in outputs:
        placeholder, files = transcript.split_output(output)
        kept.append(placeholder)
        blobs += files
    return kept, blobs


def _where(session_id: str, blob: Blob) -> dict[str, Any]:
    digest = blob.name.rpartition("/")[2].partition(".")[0]
    where = {"sha256": digest, "size": len(blob.data), "href": f"/v1/sessions/{session_id}/outputs/{digest}"}
    return {"media_type": blob.media_type, **where}
