"""The verdict on a cell, for every way in which record and replay may have gone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from kernels.execution.outputs import Output
from kernels.replay import CellVerdict, Showing, Verdict
from kernels.replay import judge as judge_showings
from kernels.replay.verdict import put_aside
from tests.unit.kernels.replay.shown import error, stdout

ONE, OTHER = [stdout("one\n")], [stdout("other\n")]
BAD, WORSE = [error("ValueError", "bad")], [error("KeyError", "worse")]
LOST = [error("NameError", "name 'x' is not defined")]


def judge(
    recorded: list[Output] | None,
    status: str,
    first: list[Output],
    second: list[Output] | None = None,
    *more: Any,
    **named: Any,
) -> CellVerdict:
    three = [None if each is None else Showing(each) for each in (recorded, first, second)]
    assert three[1] is not None
    return judge_showings(three[0], status, three[1], three[2], *more, **named)


@pytest.mark.parametrize("status", ["queued", "running", "rejected"])
def test_what_did_not_run_has_no_other_verdict(status: str) -> None:
    assert judge(ONE, status, []).verdict is Verdict.NOT_RUN


def test_the_same_is_the_same() -> None:
    found = judge(ONE, "ok", ONE)
    assert (found.verdict, found.why, found.diff) == (Verdict.SAME, "", "")


def test_a_difference_has_a_diff_and_a_reason() -> None:
    found = judge(ONE, "ok", OTHER)
    assert found.verdict is Verdict.DIFFERENT
    assert "-one\n+other" in found.diff
    assert found.why == "Stdout differs."


def test_a_second_run_tells_noise_from_differences() -> None:
    assert judge(ONE, "ok", OTHER, OTHER).verdict is Verdict.DIFFERENT
    found = judge(ONE, "ok", OTHER, [stdout("third\n")])
    assert found.verdict is Verdict.NOT_DETERMINISTIC
    assert "-one\n+other" in found.diff
    assert judge(ONE, "ok", ONE, OTHER).verdict is Verdict.SAME, "what came out as recorded needs no second run"
    noisy = [[stdout(f"took {seconds} s, sum 3\n")] for seconds in ("0.42", "0.51", "0.47")]
    found = judge(noisy[0], "ok", noisy[1], noisy[2])
    assert (found.verdict, found.why) == (Verdict.SAME, "Put aside: 1 duration that differs from run to run.")
    assert judge(noisy[0], "ok", noisy[1]).verdict is Verdict.DIFFERENT
    assert judge(noisy[0], "ok", noisy[1], noisy[2], strict=True).verdict is Verdict.DIFFERENT


def test_what_was_put_aside_is_said() -> None:
    assert put_aside(Counter()) == ""
    aside = Counter({"number from run to run": 3, "path from run to run": 1, "time of the run's own clock": 2})
    said = "Put aside: 3 numbers and 1 path that differ from run to run; 2 times of the run's own clock."
    assert put_aside(aside) == said


def test_what_nothing_shows_cannot_be_told() -> None:
    cut = [stdout("a\n[... 1,000 bytes cut ...]\nb\n")]
    assert judge(cut, "ok", cut).verdict is Verdict.CANNOT_TELL


def test_a_failure_that_the_record_shows_too_is_the_same() -> None:
    assert judge(BAD, "error", BAD).verdict is Verdict.SAME
    assert judge(BAD, "error", BAD, recorded_status="error").verdict is Verdict.SAME
    assert judge(LOST, "error", LOST, missing_name="x").verdict is Verdict.SAME


def test_another_failure_is_different() -> None:
    found = judge(BAD, "error", WORSE)
    assert found.verdict is Verdict.DIFFERENT
    assert "+KeyError: worse" in found.diff


def test_a_failure_that_the_record_does_not_show() -> None:
    found = judge(ONE, "error", [*ONE, *WORSE])
    assert found.verdict is Verdict.FAILED
    assert found.why == "It raised KeyError: worse"
    assert "+KeyError: worse" in found.diff


def test_a_failure_that_a_second_run_does_not_show_is_not_deterministic() -> None:
    assert judge(ONE, "error", WORSE, ONE, second_status="ok").verdict is Verdict.NOT_DETERMINISTIC
    assert judge(ONE, "error", WORSE, WORSE, second_status="error").verdict is Verdict.FAILED


def test_a_missing_name_is_hidden_state() -> None:
    found = judge(ONE, "error", LOST, LOST, "x")
    assert found.verdict is Verdict.NEEDS_HIDDEN_STATE
    assert "'x'" in found.why
    assert judge(BAD, "error", LOST, missing_name="x").verdict is Verdict.NEEDS_HIDDEN_STATE


@pytest.mark.parametrize(("status", "verdict"), [("timeout", Verdict.TIMED_OUT), ("died", Verdict.FAILED)])
def test_what_is_broken_off(status: str, verdict: Verdict) -> None:
    assert judge(ONE, status, []).verdict is verdict
    assert judge(ONE, status, [stdout("one\ntwo\nthr")], recorded_status=status).verdict is Verdict.SAME
    assert judge(ONE, status, OTHER, recorded_status=status).verdict is Verdict.DIFFERENT, "as far as both came"
    assert judge(ONE, status, ONE, recorded_status="ok").verdict is verdict


def test_what_ends_well_now_and_did_not_then() -> None:
    found = judge(BAD, "ok", ONE)
    assert found.verdict is Verdict.DIFFERENT
    assert found.why.startswith("It ended as 'error' in the record and as 'ok' now.")
    assert judge([], "ok", [], recorded_status="interrupted").verdict is Verdict.DIFFERENT


def test_a_cell_that_was_never_run_is_new_unless_it_fails() -> None:
    assert judge(None, "ok", ONE).verdict is Verdict.NEW
    assert judge(None, "error", BAD).verdict is Verdict.FAILED
    assert judge(None, "timeout", []).verdict is Verdict.TIMED_OUT


def test_a_cell_that_showed_nothing_is_no_new_one() -> None:
    nothing: list[Output] = []
    assert judge(nothing, "ok", nothing).verdict is Verdict.SAME
    assert judge(nothing, "ok", ONE).verdict is Verdict.DIFFERENT
