"""From a kernel's outcome to what is stored and to what callers see. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

import msgspec

from kernel_gateway.services.clock import rfc3339, rfc3339_or_none
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, StoredUpdate
from kernels import errors as below
from kernels.capped_text import cut_middle
from kernels.execution.execution import Outcome
from kernels.execution.outputs import Outputs
from kernels.guest_client.client import CommandResult
from kernels.notebook.transcript import trim_output
from sandcell.models.executions import Death, Execution, ExecutionError, Truncated
from sandcell.models.sync import ExecutionSync

_SHOWN_PROVENANCE: Final = frozenset(
    (
        *("cpu_seconds", "memory_peak_bytes", "read_bytes", "written_bytes"),
        *("environment_digest", "files", "files_omitted", "files_unknown"),
    )
)
NOT_BEGUN: Final = "; this code had not begun: send it again"
BEGUN: Final = "; this code had begun"
UNSURE: Final = "; whether this code had begun is not known"
MOST_LATE: Final = 100
LATE_BYTES: Final = 4 * 1024 * 1024
"""Late outputs that an execution shows itself; its late cells have the rest."""


def outcome_of(outcome: Outcome) -> StoredOutcome:
    """Everything that a kernel's outcome says, as ours."""
    error, death, truncated = outcome.error, outcome.death, outcome.truncated
    return StoredOutcome(
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        outputs=[dict(each) for each in outcome.outputs],
        error=None if error is None else ExecutionError(error.name, error.value, list(error.traceback)),
        death=None if death is None else death_of(death),
        truncated=Truncated(truncated.stdout, truncated.stderr, truncated.outputs),
        why=outcome.note or None,
    )


def make_stored_outcome(shown: Outputs) -> StoredOutcome:
    """The same of outputs alone."""
    cut = shown.truncated
    return StoredOutcome(
        stdout=shown.stdout,
        stderr=shown.stderr,
        outputs=[dict(each) for each in shown.outputs],
        truncated=Truncated(cut.stdout, cut.stderr, cut.outputs),
    )


def with_late(outcome: StoredOutcome, more: StoredOutcome | None, text_bytes: int) -> StoredOutcome:
    """An outcome with what came after it; text that goes on is one, and what is too much is counted."""
    if more is None:
        return outcome
    late, cut = [*outcome.late], outcome.truncated.late + more.truncated.stdout + more.truncated.stderr
    size = sum(map(_size, late))
    for each in more.outputs:
        text, last = each.get("text"), late[-1] if late else {}
        if text is not None and last.get("name") == each.get("name"):
            joined, dropped = cut_middle(last["text"] + text, text_bytes)
            late[-1], cut = {**last, "text": joined}, cut + dropped
        elif len(late) < MOST_LATE and size + _size(each) <= LATE_BYTES:
            late.append(each)
            size += _size(each)
        else:
            cut += _size(each)
    truncated = msgspec.structs.replace(outcome.truncated, late=cut + more.truncated.outputs)
    return msgspec.structs.replace(outcome, late=late, truncated=truncated)


def _size(output: dict[str, Any]) -> int:
    return len(msgspec.json.encode(output))


def death_of(death: below.Death) -> Death:
    return Death(**asdict(death))


def refusal_outcome(name: str, why: str) -> StoredOutcome:
    """The outcome of an execution that never ran."""
    return StoredOutcome(error=ExecutionError(name, why, []))


def death_outcome(cause: str, detail: str) -> StoredOutcome:
    return StoredOutcome(death=Death(cause, detail))


def describe_begun(*, sent: bool, heard: bool) -> str:
    """What the detail of a lost sandbox's death ends with: whether the code had begun.

    Its kernel says that it begins before it runs anything; a sandbox can be lost before that is heard.
    """
    return BEGUN if heard else UNSURE if sent else NOT_BEGUN


def trim(outcome: StoredOutcome, text_bytes: int) -> StoredOutcome:
    """What is stored: stdout, stderr and the texts of each output cut to head and tail when they are longer."""
    truncated = msgspec.structs.replace(outcome.truncated)
    stdout, cut = cut_middle(outcome.stdout, text_bytes)
    truncated.stdout += cut
    stderr, cut = cut_middle(outcome.stderr, text_bytes)
    truncated.stderr += cut
    outputs = []
    for each in outcome.outputs:
        kept, cut = trim_output(each, text_bytes)
        outputs.append(kept)
        if each.get("output_type") != "stream":
            truncated.outputs += cut
    updates = [_trim_update(each, text_bytes) for each in outcome.updates]
    return msgspec.structs.replace(
        outcome, stdout=stdout, stderr=stderr, outputs=outputs, truncated=truncated, updates=updates
    )


def _trim_update(update: StoredUpdate, text_bytes: int) -> StoredUpdate:
    kept, _ = trim_output({"data": update.data, "metadata": update.metadata}, text_bytes)
    return msgspec.structs.replace(update, data=kept["data"], metadata=kept["metadata"])


def command_status(result: CommandResult) -> str:
    """A command's status as an execution's; a background task that runs has been started."""
    if result.timed_out:
        return "timeout"
    if result.status == "stopped":
        return "interrupted"
    return "ok" if result.status == "running" or result.exit_code == 0 else "error"


def command_outcome(result: CommandResult) -> StoredOutcome:
    """What is stored of how a command is."""
    return StoredOutcome(
        stdout=result.stdout,
        stderr=result.stderr,
        outputs=[*_stream("stdout", result.stdout), *_stream("stderr", result.stderr)],
        truncated=Truncated(stdout=result.stdout_truncated, stderr=result.stderr_truncated),
        exit_code=result.exit_code,
        task=result.id if result.status == "running" else None,
    )


def _stream(name: str, text: str) -> list[dict[str, Any]]:
    return [{"output_type": "stream", "name": name, "text": text}] if text else []


def execution_of(row: ExecutionRow, sync: ExecutionSync | None = None, cell: int | None = None) -> Execution:
    """An execution as callers see it; `cell` is its number in the notebook."""
    outcome = row.outcome or StoredOutcome()
    return Execution(
        id=row.id,
        session_id=row.session_id,
        status=row.status,  # type: ignore[arg-type]
        language=row.language,
        runtime=row.runtime,
        code=row.code,
        generation=row.generation,
        queued_at=rfc3339(row.queued),
        execution_count=row.execution_count,
        stdout=outcome.stdout,
        stderr=outcome.stderr,
        outputs=outcome.outputs,
        error=outcome.error,
        death=outcome.death,
        truncated=outcome.truncated,
        started_at=rfc3339_or_none(row.started),
        ended_at=rfc3339_or_none(row.ended),
        clear_context=row.clear_context,
        sync=sync or ExecutionSync(row.sync),
        why=outcome.why,
        late=outcome.late,
        memory=outcome.memory,
        author=row.author,
        face=row.face,
        provenance=_select_provenance(row.provenance),
        cell=cell,
        kind=row.kind,  # type: ignore[arg-type]
        exit_code=outcome.exit_code,
        task=outcome.task,
    )


def _select_provenance(provenance: dict[str, Any] | None) -> dict[str, Any] | None:
    """What it used and changed; the rest is for the notebook alone."""
    return None if provenance is None else {name: it for name, it in provenance.items() if name in _SHOWN_PROVENANCE}


def closing_event(row: ExecutionRow, sync: ExecutionSync | None = None) -> dict[str, Any]:
    """The data of the last event: how it ended, without the outputs that came before."""
    outcome = row.outcome or StoredOutcome()
    code = {"exit_code": outcome.exit_code} if row.kind == "command" else {}
    return {
        "status": row.status,
        "execution_count": row.execution_count,
        "generation": row.generation,
        "error": msgspec.to_builtins(outcome.error),
        "death": msgspec.to_builtins(outcome.death),
        "truncated": msgspec.to_builtins(outcome.truncated),
        "ended_at": rfc3339_or_none(row.ended),
        "sync": msgspec.to_builtins(sync or ExecutionSync(row.sync)),
        "why": outcome.why,
        "memory": msgspec.to_builtins(outcome.memory),
        **code,
    }
