"""An execution's events told again from its row, after its log is gone."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from kernel_gateway.services.results.stored_events import replay_events
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from sandcell.models.executions import Event

ROW = ExecutionRow(
    id="e",
    session_id="s",
    status="ok",
    language="python",
    code="1",
    generation=2,
    timeout_seconds=1.0,
    expect_generation=None,
    idempotency_key=None,
    request_digest=None,
    queued=0.0,
    outcome=StoredOutcome(outputs=[{"output_type": "stream", "name": "stdout", "text": "x"}]),
    started=1.0,
    ended=2.0,
)


def events(row: ExecutionRow, after: int = 0) -> list[Event]:
    async def read() -> list[Event]:
        return [event async for event in replay_events(row, after)]

    return asyncio.run(read())


def test_what_ran_is_told_from_its_start_to_its_end() -> None:
    told = events(ROW)
    assert [event.event for event in told] == ["started", "stream", "ended"]
    assert [event.sequence for event in told] == [1, 2, 3]


def test_a_blank_kernel_that_was_asked_for_comes_first() -> None:
    told = events(replace(ROW, clear_context=True))
    assert [event.event for event in told] == ["generation", "started", "stream", "ended"]
    assert told[0].data == {"generation": 2, "cause": "restart"}
    unrun = events(replace(ROW, clear_context=True, status="interrupted", started=None, outcome=None))
    assert [event.event for event in unrun] == ["ended"], "what never ran cleared nothing"


def test_from_the_middle_it_is_said_what_is_gone() -> None:
    told = events(replace(ROW, last_sequence=9), after=3)
    assert [(event.event, event.sequence) for event in told] == [("truncated", 8), ("ended", 9)]
    assert events(replace(ROW, last_sequence=9), after=9) == []
