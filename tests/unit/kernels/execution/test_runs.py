"""To which execution a message belongs, and which of its output is on record already."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from kernels.execution.runs import PastRun, Runs
from kernels.wire.message import Message


def printed(parent_id: str, session: str = "s") -> Message:
    fields = {"msg_type": "stream", "parent_id": parent_id, "parent_session": session, "parent_type": ""}
    return cast("Message", SimpleNamespace(**fields))


def test_what_comes_again_is_late_output_of_its_execution_only_past_what_is_on_record() -> None:
    runs = Runs()
    runs.remember([PastRun("a", "1", "s", 10), PastRun("a", "", "", 20), PastRun("", "", "", 5)])
    assert [runs.late_of(printed("1"), number) for number in (7, 20, 21)] == [None, None, "a"]
    assert [runs.late_of_skipped("1", number) for number in (20, 21)] == [None, "a"]
    assert [runs.late_of(printed("of nobody"), number) for number in (5, 6)] == [None, ""]
    assert runs.late_of(printed("1", "another's"), 21) == ""


def test_without_a_relay_nothing_comes_again() -> None:
    runs = Runs()
    runs.remember([PastRun("a", "1", "s", 0)])
    assert [runs.late_of(printed(each), 0) for each in ("1", "2")] == ["a", ""]
    assert runs.late_of_skipped("1", 0) == "a"


def test_output_of_what_runs_is_not_late() -> None:
    runs = Runs()
    runs.begin("1", "s", "a")
    assert runs.late_of(printed("1"), 1) is None
    runs.end("1", "s")
    assert runs.late_of(printed("1"), 1) == "a"
