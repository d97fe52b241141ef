"""Kernels that break the protocol: the hub and its executions survive each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.execution import execution
from kernels.execution.execution import Outcome
from kernels.execution.outputs import OutputCaps
from kernels.wire.message import Message
from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel, with_hub

MISBEHAVING = str(Path(__file__).parent / "misbehaving_kernel.py")
Start = Callable[..., RunningKernel]


def run_twice(kernel: RunningKernel, **options: float | OutputCaps) -> tuple[Outcome, Outcome, int]:
    """Both outcomes, and how many messages were refused. What the first run provokes must not break the second."""

    async def scenario(runner: Runner) -> tuple[Outcome, Outcome, int]:
        first = await runner.run("fault", **options)  # type: ignore[arg-type]
        second = await runner.run("fault again", **options)  # type: ignore[arg-type]
        return first, second, runner.hub.refused

    outcomes: tuple[Outcome, Outcome, int] = asyncio.run(with_hub(kernel, scenario))
    return outcomes


def test_frames_that_are_no_messages_are_refused_and_counted(start: Start) -> None:
    first, second, refused = run_twice(start(MISBEHAVING, "garbage"))
    assert first.status == second.status == "ok"
    assert first.stdout.endswith("after the garbage")
    assert refused == 2 * 2 * 7


def test_a_large_display_passes_and_a_giant_one_leaves_a_note(start: Start) -> None:
    first, second, _ = run_twice(start(MISBEHAVING, "giant"), caps=OutputCaps(rich_bytes=50_000_000))
    assert first.status == second.status == "ok"
    large, giant, text = first.outputs
    assert len(large["data"]["image/png"]) == 30 * 1024 * 1024
    assert "larger than any message may be" in giant["data"]["text/plain"]
    assert first.truncated.outputs > 113 * 1024 * 1024
    assert text["text"] == "after the giant"


def test_a_message_of_thousands_of_frames_is_dropped(start: Start) -> None:
    first, _, _ = run_twice(start(MISBEHAVING, "frames"))
    assert first.stdout == "after the frames"


def test_messages_that_name_another_parent_neither_end_nor_enter_a_run(start: Start) -> None:
    first, second, _ = run_twice(start(MISBEHAVING, "forged"))
    assert (first.status, first.stdout) == ("ok", "of this run")
    assert (second.status, second.stdout) == ("ok", "of this run")


def test_an_end_that_is_forged_whole_leaves_what_comes_after_it_for_others(start: Start) -> None:
    """It cannot be told from a true one; nothing that follows it is lost."""

    async def scenario(runner: Runner) -> None:
        late: list[tuple[str | None, str]] = []

        def deliver(channel: str, message: Message) -> None:
            if channel == "iopub" and message.msg_type == "stream":
                late.append((runner.hub.runs.late_of(message, runner.hub.position), message.content["text"]))

        runner.hub.subscribe(deliver)
        assert (await runner.run("fault", execution_id="the first")).stdout == ""
        async with asyncio.timeout(120):
            while not late:
                await asyncio.sleep(0.01)
        assert late == [("the first", "after all")]

    asyncio.run(with_hub(start(MISBEHAVING, "ends_early"), scenario))


def test_a_flood_of_small_outputs_is_bounded(start: Start) -> None:
    first, _, _ = run_twice(start(MISBEHAVING, "flood"))
    assert first.status == "ok"
    assert len(first.outputs) == 10_000
    assert len(first.stdout) == len(first.stderr) == 3_000
    assert first.truncated.outputs > 0


@pytest.mark.parametrize(("fault", "missing"), [("no_idle", "idle status"), ("no_reply", "reply")])
def test_a_run_that_is_only_half_ended_ends_with_a_note(
    start: Start, monkeypatch: pytest.MonkeyPatch, fault: str, missing: str
) -> None:
    monkeypatch.setattr(execution, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(execution, "REPLY_SECONDS", 0.2)
    first, second, _ = run_twice(start(MISBEHAVING, fault))
    assert first.status == second.status == "ok"
    assert first.stdout.startswith("never")
    assert missing in first.note
