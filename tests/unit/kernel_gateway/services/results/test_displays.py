"""Which displays are known, and how much an update may make of what has ended."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kernel_gateway.services.results import displays
from kernel_gateway.services.results.displays import Displays, update_outcome
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, StoredUpdate

ROW = ExecutionRow("one", "session", "ok", "python", "", 1, 1.0, None, None, None, 0.0)


def shown(text: str) -> dict[str, object]:
    return {"data": {"text/plain": text}, "metadata": {}}


def test_a_kernel_knows_the_displays_of_its_own_generation() -> None:
    known = Displays()
    known.add(ROW, {"id": [0, 2]})
    assert [each.places for each in known.updates(1, {"id": shown("x"), "other": shown("x")})] == [
        [("one", 0), ("one", 2)]
    ]
    assert known.updates(2, {"id": shown("x")}) == []
    known.add(replace(ROW, id="two", generation=2), {})
    known.add(replace(ROW, id="of a kernel that is gone"), {"id": [0]})
    assert known.updates(1, {"id": shown("x")}) == known.updates(2, {"id": shown("x")}) == []


def test_an_outcome_keeps_what_it_showed_and_takes_no_more_than_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = StoredOutcome(outputs=[{"output_type": "display_data", **shown("a")}, {"output_type": "stream"}])

    def update(text: str, *places: int) -> StoredUpdate:
        return StoredUpdate("id", {"text/plain": text}, {}, [("one", place) for place in places])

    first, refused = update_outcome(outcome, "one", [update("b", 0, 1, 2), replace_places(update("z", 0), "another")])
    assert (first.outputs[0]["data"], first.originals, refused) == (
        {"text/plain": "b"},
        {0: outcome.outputs[0]},
        [1, 2],
    )
    monkeypatch.setattr(displays, "MOST_BYTES", 1_000)
    second, refused = update_outcome(first, "one", [update("c" * 600, 0), update("d" * 2_000, 0), update("e" * 700, 0)])
    assert (second.outputs[0]["data"], refused) == ({"text/plain": "e" * 700}, [0])
    assert second.originals == first.originals
    assert outcome.outputs[0]["data"] == {"text/plain": "a"}


def replace_places(update: StoredUpdate, execution_id: str) -> StoredUpdate:
    return StoredUpdate(update.display_id, update.data, update.metadata, [(execution_id, 0)])
