"""Server-sent events: what is written is what the client's parser reads, however the bytes are cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.rest.sse import HEARTBEAT, frame, read_last_event_id
from sandcell.event_stream import EventParser
from sandcell.models.executions import Event

EVENTS = [
    Event(1, "started", {}),
    Event(2, "stream", {"name": "stdout", "text": "a\n\nb: c\r\ndata: x\u2028 ü"}),
    Event(3, "ended", {"status": "ok"}),
]


@given(st.lists(st.integers(1, 40), max_size=40))
def test_events_survive_any_cut(cuts: list[int]) -> None:
    data = HEARTBEAT + b"".join(HEARTBEAT + frame(event) for event in EVENTS)
    parser, found = EventParser(), []
    for cut in [*cuts, len(data)]:
        found += parser.feed(data[:cut])
        data = data[cut:]
    assert found == EVENTS


@pytest.mark.parametrize("header", ["", "-1", "1.5", "x", "٣", "9" * 40, " 1"])
def test_a_last_event_id_must_be_a_sequence(header: str) -> None:
    with pytest.raises(InvalidRequest):
        read_last_event_id(header)


def test_without_the_header_events_start_at_the_first() -> None:
    assert read_last_event_id(None) == 0
    assert read_last_event_id("17") == 17
