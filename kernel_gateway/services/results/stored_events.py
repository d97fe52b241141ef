"""The events of an execution whose log is gone, made again from its row. Pure but for being an async iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec

from kernel_gateway.services.results.outcomes import closing_event
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from sandcell.models.executions import Event
from sandcell.models.sync import ExecutionSync


async def replay_events(row: ExecutionRow, after: int, sync: ExecutionSync | None = None) -> AsyncIterator[Event]:
    """From the start, what the row holds; from the middle, that the log is gone; `ended` last, numbered as it was."""
    made = list(_events(row))
    last = max(row.last_sequence or 0, len(made) + 1)
    if row.last_sequence is None and row.status == "died" and after >= last:
        last = after + 1  # its process is gone: a client may have had more of it than was ever stored
    if 0 < after < last - 1:
        yield Event(last - 1, "truncated", {"dropped_from": after + 1, "dropped_to": last - 1})
    elif after == 0:
        for sequence, (kind, data) in enumerate(made, start=1):
            yield Event(sequence, kind, data)
    if row.ended is None:  # a command of which the service does not know any more how it goes on
        return
    if after < last:
        yield Event(last, "ended", closing_event(row, sync))
    late = _replay_outputs((row.outcome or StoredOutcome()).late)
    for sequence, (kind, data) in enumerate(late, start=last + 1):
        if sequence > after:
            yield Event(sequence, "late", {"event": kind, "data": data})


def _events(row: ExecutionRow) -> Iterator[tuple[str, dict[str, Any]]]:
    if row.started is not None:
        if row.clear_context:
            yield "generation", {"generation": row.generation, "cause": "restart"}
        yield "started", {"execution_id": row.id, "generation": row.generation}
    outcome = row.outcome or StoredOutcome()
    yield from _replay_outputs(outcome.outputs)
    if outcome.memory is not None:
        yield "memory", msgspec.to_builtins(outcome.memory)


def _replay_outputs(outputs: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for output in outputs:
        kind = output.get("output_type")
        if kind == "stream":
            yield "stream", {"name": output.get("name"), "text": output.get("text")}
        elif kind == "error":
            yield (
                "error",
                {"name": output.get("ename"), "value": output.get("evalue"), "traceback": output["traceback"]},
            )
        elif kind in {"display_data", "execute_result"}:
            data = {"data": output.get("data", {}), "metadata": output.get("metadata", {})}
            yield ("display", data) if kind == "display_data" else ("result", data)
