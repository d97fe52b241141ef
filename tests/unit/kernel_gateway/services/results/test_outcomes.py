"""What is stored of an outcome, and the events made again from it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kernel_gateway.services.results.outcomes import execution_of, trim
from kernel_gateway.services.results.stored_events import replay_events
from kernel_gateway.services.workspaces.paging import page_of_files
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from sandcell.models.executions import Event
from sandcell.models.workspaces import FileEntry


def row(**changed: Any) -> ExecutionRow:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": "hello\n"},
        {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 1},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
    ]
    values: dict[str, Any] = {
        "id": "e",
        "session_id": "s",
        "status": "error",
        "language": "python",
        "code": "x",
        "generation": 1,
        "timeout_seconds": 1.0,
        "expect_generation": None,
        "idempotency_key": None,
        "request_digest": None,
        "queued": 1.0,
        "started": 2.0,
        "ended": 3.0,
        "last_sequence": 9,
        "outcome": StoredOutcome(stdout="hello\n", outputs=outputs),
    }
    return ExecutionRow(**{**values, **changed})


def events(after: int, **changed: Any) -> list[Event]:
    async def read() -> list[Event]:
        return [event async for event in replay_events(row(**changed), after)]

    return asyncio.run(read())


def test_long_text_is_stored_as_head_and_tail_and_counted() -> None:
    text = "a" * 500_000 + "é" * 500_000
    outputs = [{"output_type": "stream", "name": "stdout", "text": text}]
    stored = trim(StoredOutcome(stdout=text, outputs=outputs), 256_000)
    assert stored.stdout.startswith("aaa")
    assert stored.stdout.endswith("ééé")
    assert len(stored.stdout.encode()) < 257_000
    assert len(stored.outputs[0]["text"].encode()) < 257_000
    assert stored.truncated.stdout >= 1_500_000 - 257_000
    assert stored.truncated.outputs == 0


def test_short_outcomes_are_stored_whole() -> None:
    outcome = row().outcome
    assert outcome is not None
    assert msgspec.to_builtins(trim(outcome, 1_024)) == msgspec.to_builtins(outcome)


def test_events_made_again_from_the_row() -> None:
    assert [event.event for event in events(0)] == ["started", "stream", "result", "error", "ended"]
    assert [event.sequence for event in events(0)] == [1, 2, 3, 4, 9]


def test_in_the_middle_of_a_log_that_is_gone() -> None:
    found = events(4)
    assert [(event.sequence, event.event) for event in found] == [(8, "truncated"), (9, "ended")]
    assert [event.event for event in events(8)] == ["ended"]
    assert events(9) == []


def test_what_never_ran_has_only_an_end() -> None:
    found = events(0, started=None, outcome=None, status="rejected", last_sequence=1)
    assert [(event.sequence, event.event) for event in found] == [(1, "ended")]
    assert execution_of(row(started=None, outcome=None)).started_at is None


def test_pages_of_files() -> None:
    entries = [FileEntry(name, "file", 1, "") for name in ("b", "a", "c\udcff", "d")]
    first = page_of_files(entries, 10, 3, None)
    assert [entry.path for entry in first.items] == ["a", "b", "c\udcff"]
    second = page_of_files(entries, 10, 3, first.next_cursor)
    assert ([entry.path for entry in second.items], second.next_cursor) == (["d"], None)
