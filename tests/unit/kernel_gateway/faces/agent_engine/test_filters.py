"""The filter of lists: what is understood of AIP-160, and that the rest is refused."""

from __future__ import annotations

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.faces.agent_engine.filters import parse_filter
from kernel_gateway.storage.agent_engine import EVERYTHING, Wanted

READY, PAUSED, ENDED = frozenset({"READY"}), frozenset({"HIBERNATED"}), frozenset({"TERMINATED"})


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", EVERYTHING),
        ('state="STATE_RUNNING"', Wanted(READY)),
        ("state = STATE_RUNNING", Wanted(READY)),
        ("state:STATE_TERMINATED", Wanted(ENDED)),
        ('state!="STATE_RUNNING"', Wanted(PAUSED | ENDED)),
        ('state="STATE_PAUSED"', Wanted(PAUSED)),
        ('state="STATE_PAUSING"', Wanted(frozenset())),
        ('state!="STATE_PAUSED"', Wanted(READY | ENDED)),
        ('state="STATE_RUNNING" AND state="STATE_TERMINATED"', Wanted(frozenset())),
        ('display_name="a AND b"', Wanted(None, frozenset({"a AND b"}))),
        ('displayName="a" and display_name!="b"', Wanted(None, frozenset({"a"}), frozenset({"b"}))),
        ('display_name="a" AND display_name="b"', Wanted(None, frozenset())),
    ],
)
def test_what_is_understood(text: str, wanted: Wanted) -> None:
    assert parse_filter(text, states=True) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "size > 1",
        'state="RUNNING"',
        'state="STATE_RUNNING" OR state="STATE_PAUSED"',
        "NOT state=STATE_RUNNING",
        'display_name="a',
        'owner="a"',
        "AND",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        parse_filter(text, states=True)
    assert raised.value.details["field"] == "filter"


def test_what_has_no_state_is_not_filtered_by_it() -> None:
    with pytest.raises(InvalidRequest):
        parse_filter('state="STATE_RUNNING"', states=False)
