"""Stored rows to written cells: what a cell says of an execution or a note. Pure but for the log."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import structlog

from kernel_gateway.services.clock import rfc3339, rfc3339_or_none
from kernel_gateway.storage.cells import NewCell
from kernel_gateway.storage.executions import ExecutionRow, NoteRow, StoredOutcome, StoredUpdate
from kernels.errors import Death
from kernels.execution.outputs import Output, Truncated
from kernels.execution.widgets import models_in
from kernels.notebook import transcript
from kernels.notebook.revised import digest_content
from kernels.notebook.transcript import Blob

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
            self.row = msgspec.structs.replace(self.row, provenance={**(self.row.provenance or {}), **self.found})


class Update(msgspec.Struct, frozen=True):
    """What a cell, of which this is the id, made of an output of an earlier execution: data and metadata as shown."""

    by: str
    execution_id: str
    place: int
    content: dict[str, Any]


class Written(msgspec.Struct, frozen=True):
    """Cells to be stored, the files that they name, and what they made of displays of earlier ones."""

    cells: list[NewCell] = msgspec.field(default_factory=list)
    blobs: list[Blob] = msgspec.field(default_factory=list)
    updates: list[Update] = msgspec.field(default_factory=list)


class _Rendered(msgspec.Struct, frozen=True):
    """The same of one entry, before its cells are linked."""

    cells: list[dict[str, Any]]
    blobs: list[Blob] = msgspec.field(default_factory=list)
    updates: list[Update] = msgspec.field(default_factory=list)


def write(entries: Sequence[Entry], *, previous: str, told: str) -> Written:
    """The cells of entries, linked behind `previous`; `told` is of what the kernel died, if the last cell says so."""
    made, blobs = Written(), {}
    for entry in entries:
        rendered = _render(entry, told)
        for cell in rendered.cells:
            sealed = transcript.seal(cell, previous)
            previous = sealed.hash
            execution = entry.row.id if entry.row is not None and cell["cell_type"] == "code" else None
            note = entry.note.number if entry.note is not None else None
            widgets = _widgets(cell, rendered.updates) if execution else {}
            made.cells.append(NewCell(sealed.id, sealed.data, sealed.hash, execution, note, widgets))
        blobs.update({each.name: each for each in rendered.blobs})
        made.updates.extend(rendered.updates)
        told = "" if entry.row is None else death_detail(entry.row)
    made.blobs.extend(blobs.values())
    return made


def _widgets(cell: dict[str, Any], updates: Sequence[Update]) -> dict[str, Any]:
    """The widgets that a cell shows, or has changed."""
    found: dict[str, Any] = {}
    for each in [*cell["outputs"], *(update.content for update in updates)]:
        found |= models_in(each)
    return found


def death_detail(row: ExecutionRow) -> str:
    """Of what the kernel died when this ran, or nothing."""
    return row.outcome.death.detail if row.outcome is not None and row.outcome.death is not None else ""


def _render(entry: Entry, told: str) -> _Rendered:
    """What cannot be rendered is a cell all the same: it says so, and holds up nothing."""
    if entry.note is not None:
        return _Rendered(transcript.render(_note(entry.note, told)))
    if entry.row is None:
        return _Rendered([])
    try:
        rendered = _code(entry.row, entry.why)
        msgspec.json.encode(rendered.cells)
    except Exception as error:
        log.error("cell_not_rendered", session=entry.row.session_id, execution=entry.row.id, error=repr(error))
        rendered = _code(
            msgspec.structs.replace(entry.row, outcome=None, provenance=None), "its outcome cannot be shown"
        )
    return rendered


def _code(row: ExecutionRow, why: str) -> _Rendered:
    outcome = row.outcome or StoredOutcome()
    outputs, blobs = _split([outcome.originals.get(place, each) for place, each in enumerate(outcome.outputs)])
    updates, more = _updates(row.id, outcome.updates)
    told = [
        {"execution_id": each.execution_id, "output": each.place, "sha256": digest_content(each.content)}
        for each in updates
    ]
    cell = replace(_cell(row, why, outputs, [*blobs, *more]), updates=told)
    return _Rendered(transcript.render(cell), [*blobs, *more], updates)


def _updates(execution_id: str, updates: Sequence[StoredUpdate]) -> tuple[list[Update], list[Blob]]:
    """What an execution made of displays of others, as the notebook shows outputs."""
    made, blobs = [], []
    for each in updates:
        output, files = transcript.split_output({"data": each.data, "metadata": each.metadata})
        shown, _ = transcript.trim_output(output, sys.maxsize)
        content = {"data": shown["data"], "metadata": shown["metadata"]}
        blobs += files
        made += [Update(execution_id, target, place, content) for target, place in each.places]
    return made, blobs


def _note(note: NoteRow, told: str) -> transcript.Note:
    """A new generation's note does not repeat why the kernel died when the cell before it has said so."""
    again = note.kind == "generation" and told != "" and told in note.body
    text = f"**Kernel generation {note.generation}** starts blank." if again else note.body
    return transcript.Note(note.kind, text, rfc3339(note.at), note.generation, note.number)


def _cell(row: ExecutionRow, why: str, outputs: Sequence[Output], blobs: Sequence[Blob]) -> transcript.Cell:
    outcome = row.outcome or StoredOutcome()
    cut, death = outcome.truncated, outcome.death
    provenance = dict(row.provenance or {})
    full, silent = list(provenance.pop("full", [])), provenance.pop("silent", False)
    late_of = provenance.pop("late_of", None)
    why = why or outcome.why or ""
    if row.status == "rejected" and outcome.error is not None:
        why = f"{outcome.error.name}: {outcome.error.value}"
    return transcript.Cell(
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
        # How a background task ends has a cell of its own.
        why=None if outcome.task else why or None,
        exit_code=None if outcome.task else outcome.exit_code,
        task=outcome.task,
        silent=bool(silent),
        provenance=provenance,
        full=[*full, *(_where(row.session_id, each) for each in blobs)],
    )


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
