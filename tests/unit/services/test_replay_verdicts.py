"""What is said of a cell, beyond the comparison of its outputs."""

from __future__ import annotations

from typing import Any

from kernel_gateway.replay_shapes import CellReplay, Replay
from kernel_gateway.services.replay_stage import Ran
from kernel_gateway.services.replay_steps import Step
from kernel_gateway.services.replay_verdicts import told, verdict_of
from kernels.capped_text import cut_middle


def step(**more: Any) -> Step:
    return Step(**{"number": 2, "id": "cell", "kind": "code", "source": "x", "recorded": [], "status": "ok", **more})


def stream(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def test_texts_are_cut_alike_before_they_are_compared() -> None:
    long = "the start\n" * 500 + "the end\n" * 500
    returned = cut_middle(long, 1_000)[0]
    stored = cut_middle(returned, 100)[0]
    for recorded in (long, stored):
        found = verdict_of(step(recorded=[stream(recorded)]), Ran("ok", [stream(stored)]), (1_000, 100))
        assert found.verdict == "same", found
    other = verdict_of(step(recorded=[stream("A" + long)]), Ran("ok", [stream(stored)]), (1_000, 100))
    assert other.verdict == "different"


def test_a_command_is_the_same_only_with_its_exit_code() -> None:
    command = step(kind="command", recorded=[stream("hi\n")], exit_code=3)
    assert verdict_of(command, Ran("ok", [stream("hi\n")], exit_code=3), (1000, 1000)).verdict == "same"
    other = verdict_of(command, Ran("ok", [stream("hi\n")], exit_code=0), (1000, 1000))
    assert (other.verdict, other.why) == ("different", "the command's exit code is 0, and was 3")


def test_what_was_stopped_and_is_stopped_again_is_the_same() -> None:
    assert verdict_of(step(status="timeout", timeout_seconds=1.0), Ran("timeout"), (1000, 1000)).verdict == "same"
    found = verdict_of(step(status="interrupted", timeout_seconds=1.0), Ran("timeout"), (1000, 1000))
    assert (found.verdict, "as long as in the record" in found.why) == ("same", True)
    assert verdict_of(step(), Ran("timeout"), (1000, 1000)).verdict == "timed_out"


def test_why_the_kernel_died_is_said() -> None:
    found = verdict_of(step(), Ran("died", why="the kernel died (oom): too much"), (1000, 1000))
    assert found.verdict == "failed"
    assert "too much" in found.why


def test_a_session_is_told_what_did_not_come_back() -> None:
    verdicts = [CellReplay(2, "a", "same"), CellReplay(3, "b", "failed", "no such file")]
    text = told(Replay("r", "done", "new", 2, "now", of="old", verdicts=verdicts))
    assert "1 of its 2 cells" in text
    assert "`old`" in text
    assert "- cell 3: failed. no such file" in text
    assert "cell 2" not in text
