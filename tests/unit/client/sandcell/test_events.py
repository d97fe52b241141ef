"""What events show, as values with fields."""

from __future__ import annotations

import pytest

from sandcell.events import ErrorOutput, Output, RichOutput, StreamOutput, output_of
from sandcell.models.executions import Event

PNG = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"}
CASES: dict[str, tuple[Event, Output | None]] = {
    "text": (Event(2, "stream", {"name": "stderr", "text": "careful"}), StreamOutput("stderr", "careful")),
    "a plot": (
        Event(3, "display", {"data": PNG, "metadata": {}, "display_id": "p"}),
        RichOutput("display", PNG, {}, "p"),
    ),
    "a result": (
        Event(4, "result", {"data": {"text/plain": "42"}, "metadata": {}, "execution_count": 1}),
        RichOutput("result", {"text/plain": "42"}, {}),
    ),
    "an exception": (
        Event(5, "error", {"name": "KeyError", "value": "'a'", "traceback": ["KeyError: 'a'"]}),
        ErrorOutput("KeyError", "'a'", ["KeyError: 'a'"]),
    ),
    "its course": (Event(1, "started", {"execution_id": "e", "generation": 1}), None),
    "what a newer service adds": (Event(6, "smell", {"of": "roses"}), None),
}


@pytest.mark.parametrize("name", CASES)
def test_an_event_is_an_output_or_none(name: str) -> None:
    event, expected = CASES[name]
    assert output_of(event) == expected


def test_a_rich_output_has_its_text_and_its_best_form() -> None:
    shown = RichOutput("display", PNG, {})
    assert shown.text == "<Figure>"
    assert shown.display is not None
    assert (shown.display.extension, shown.display.content[:4]) == ("png", b"\x89PNG")
    assert RichOutput("result", {"text/plain": "1"}, {}).display is None
