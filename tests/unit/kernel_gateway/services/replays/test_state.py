"""One replay in memory: its verdicts, its events, what it counts as."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import msgspec
import pytest

from kernel_gateway.errors import DeadlinePassed
from kernel_gateway.services.replays.state import MOST_DIFFS_BYTES, Replaying
from kernel_gateway.services.replays.steps import Step
from sandcell.models.replays import CellReplay, ReplayRequest


def begun(cells: int = 2) -> Replaying:
    steps = [Step(number, f"cell-{number}", "code", "", []) for number in range(1, cells + 1)]
    return Replaying("me", ReplayRequest(), steps, of=None, started_at="then", notebook_bytes=1_000, log_bytes=100_000)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "same"),
    [(["same", "new"], True), (["same", "not_run"], True), (["same", "different"], False), (["failed", "same"], False)],
)
def test_it_is_the_same_when_nothing_came_out_otherwise(said: list[str], same: bool) -> None:
    async def scenario() -> None:
        replay = begun()
        for number, verdict in enumerate(said, 1):
            replay.give(CellReplay(number, f"cell-{number}", verdict))  # type: ignore[arg-type]
        assert not replay.shape().same
        replay.end("done", "now")
        shape = replay.shape()
        assert (shape.same, shape.counts) == (same, {word: said.count(word) for word in sorted(said)})

    run(scenario)


def test_a_better_verdict_takes_the_place_of_the_first() -> None:
    async def scenario() -> None:
        replay = begun()
        replay.give(CellReplay(2, "cell-2", "same"))
        replay.give(CellReplay(1, "cell-1", "different"))
        replay.give(CellReplay(1, "cell-1", "not_deterministic"))
        assert [(each.number, each.verdict) for each in replay.shape().verdicts] == [
            (1, "not_deterministic"),
            (2, "same"),
        ]
        replay.end("done", "now")
        events = [event.event async for event in replay.log.follow(0)]
        assert events == ["verdict", "verdict", "verdict", "ended"]

    run(scenario)


def test_diffs_are_bounded_together() -> None:
    async def scenario() -> None:
        replay = begun(3)
        for _ in range(2):  # told twice, counted once
            replay.give(CellReplay(1, "cell-1", "different", diff="x" * (MOST_DIFFS_BYTES - 10)))
        replay.give(CellReplay(2, "cell-2", "different", "it differs.", diff="y" * 11))
        replay.give(CellReplay(3, "cell-3", "different", diff="z" * 10))
        first, second, third = replay.shape().verdicts
        assert len(first.diff) == MOST_DIFFS_BYTES - 10
        assert (second.diff, second.why[:11]) == ("", "it differs.")
        assert "left out" in second.why
        assert third.diff == "z" * 10

    run(scenario)


def test_it_counts_as_the_notebook_given_and_then_as_the_one_that_came_of_it() -> None:
    async def scenario() -> None:
        replay = begun()
        assert replay.size_bytes == 1_000
        replay.held_bytes = 500
        assert replay.size_bytes == 1_500
        replay.notebook = b'{"cells": []}'
        replay.end("failed", "now", DeadlinePassed("too long"))
        assert replay.size_bytes == len(replay.notebook) + replay.log.size_bytes
        shape = replay.shape(notebook=True)
        assert json.loads(msgspec.json.encode(shape))["notebook"] == {"cells": []}
        assert msgspec.to_builtins(shape.error) == {"code": "deadline_passed", "message": "too long"}
        await replay.wait()

    run(scenario)
