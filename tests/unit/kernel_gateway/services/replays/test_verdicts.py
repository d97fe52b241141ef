"""What is said of a cell, beyond the comparison of its outputs."""

from __future__ import annotations

import hashlib
from typing import Any

from kernel_gateway.services.replays.stage import CellOutcome
from kernel_gateway.services.replays.steps import Step, began, digests_of
from kernel_gateway.services.replays.verdicts import CARRIED, add_sentence, summarize, verdict_of
from kernels.capped_text import cut_middle
from sandcell.models.replays import CellReplay, Replay


def step(**more: Any) -> Step:
    return Step(**{"number": 2, "id": "cell", "kind": "code", "source": "x", "recorded": [], "status": "ok", **more})


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def test_texts_are_cut_alike_and_what_was_cut_is_compared_by_its_digest() -> None:
    long = "the start\n" * 500 + "the end\n" * 500
    returned = cut_middle(long, 1_000)[0]
    stored = cut_middle(returned, 100)[0]
    caps, digests = (1_000, 100), {"stdout": hashlib.sha256(long.encode()).hexdigest()}
    replayed = CellOutcome("ok", [stream(stored)], digests=digests)
    assert verdict_of(step(recorded=[stream(long)]), replayed, caps).verdict == "same"
    ours = step(recorded=[stream(stored)], digests=digests)
    assert verdict_of(ours, replayed, caps).verdict == "same"
    middle = long.replace("the start\nthe end", "the start\nTHE end")
    assert verdict_of(step(recorded=[stream(middle)]), replayed, caps).verdict == "different"
    unknown = verdict_of(step(recorded=[stream(stored)]), replayed, caps)
    assert (unknown.verdict, "SHA-256" in unknown.why) == ("cannot_tell", True)
    other = verdict_of(step(recorded=[stream("A" + long)]), replayed, caps)
    assert other.verdict == "different"


def test_a_run_began_with_the_first_of_its_cells_and_notes() -> None:
    about = [
        {"kind": "started", "at": "2026-11-21T05:00:00Z"},
        {"started_at": "2026-11-21T05:00:01Z"},
        {"at": 5},
        "odd",
    ]
    cells = [{"metadata": {"sandcell": each}} for each in about]
    assert began({"cells": [{"metadata": {}}, *cells]}) == "2026-11-21T05:00:00Z"
    assert began({"cells": []}) is None


def test_only_whole_texts_have_a_digest() -> None:
    about = [{"stream": "stdout", "sha256": "one"}, {"stream": "stderr", "sha256": "other", "omitted_bytes": 5}]
    assert digests_of([*about, {"media_type": "image/png", "sha256": "x"}, {"stream": "stdin", "lost": "why"}]) == {
        "stdout": "one"
    }
    assert digests_of("odd") == digests_of(None) == {}


def test_times_are_held_against_the_runs_they_are_of() -> None:
    recorded = step(recorded=[stream("05:00:01")], started_at="2026-11-21T05:00:00Z", ended_at="2026-11-21T05:00:02Z")
    ran = CellOutcome("ok", [stream("06:00:01")], started_at="2026-11-24T06:00:00Z", ended_at="2026-11-24T06:00:02Z")
    found = verdict_of(recorded, ran, (1000, 1000))
    assert (found.verdict, found.why) == ("same", "Put aside: 1 time of the run's own clock.")
    assert verdict_of(recorded, ran, (1000, 1000), strict=True).verdict == "different"


def test_a_command_is_the_same_only_with_its_exit_code() -> None:
    command = step(kind="command", recorded=[stream("hi\n")], exit_code=3)
    assert verdict_of(command, CellOutcome("ok", [stream("hi\n")], exit_code=3), (1000, 1000)).verdict == "same"
    other = verdict_of(command, CellOutcome("ok", [stream("hi\n")], exit_code=0), (1000, 1000))
    assert (other.verdict, other.why) == ("different", "The command's exit code is 0, and was 3.")
    unlike = CellOutcome("ok", [stream("ho\n")], exit_code=2, why="its exit code is 2")
    assert verdict_of(command, unlike, (1000, 1000)).why == "Stdout differs. Its exit code is 2."


def test_what_was_stopped_and_is_stopped_again_is_the_same() -> None:
    assert (
        verdict_of(step(status="timeout", timeout_seconds=1.0), CellOutcome("timeout"), (1000, 1000)).verdict == "same"
    )
    found = verdict_of(step(status="interrupted", timeout_seconds=1.0), CellOutcome("timeout"), (1000, 1000))
    assert (found.verdict, "as long as in the record" in found.why) == ("same", True)
    assert verdict_of(step(), CellOutcome("timeout"), (1000, 1000)).verdict == "timed_out"
    other = step(status="interrupted", timeout_seconds=1.0, recorded=[stream("a 5\n")])
    assert verdict_of(other, CellOutcome("timeout", [stream("a 6\n")]), (1000, 1000)).verdict == "different"


def test_why_the_kernel_died_is_said() -> None:
    found = verdict_of(step(), CellOutcome("died", why="the kernel died (oom): too much"), (1000, 1000))
    assert found.verdict == "failed"
    assert "too much" in found.why


def test_a_session_is_told_what_did_not_come_back() -> None:
    verdicts = [CellReplay(2, "a", "same"), CellReplay(3, "b", "failed", "no such file")]
    text = summarize(Replay("r", "done", "new", 2, "now", of="old", verdicts=verdicts))
    assert "1 of its 2 cells" in text
    assert "`old`" in text
    assert "- cell 3: failed. no such file" in text
    assert "cell 2" not in text


def test_what_is_said_of_a_cell_is_sentences() -> None:
    raised = add_sentence("", "it raised NameError: name 'x' is not defined")
    assert raised == "It raised NameError: name 'x' is not defined."
    assert add_sentence("name 'x' is not defined", CARRIED) == f"name 'x' is not defined. {CARRIED}"
    assert add_sentence("It differs.", "why is not known") == "It differs. Why is not known."
