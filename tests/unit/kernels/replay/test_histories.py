"""Every labelled history through the verdict, from the outputs that its three runs showed."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kernel_gateway.services.replays.stage import CellOutcome
from kernel_gateway.services.replays.steps import Step
from kernel_gateway.services.replays.verdicts import verdict_of
from kernel_gateway.settings import Settings
from kernels.notebook.transcript import trim_output
from kernels.replay.tokens import Kind, tokens_of
from tests.replay_histories import RUNS, Cell, History, Run, load
from tests.replay_histories.matrix import Matrix

CAPS = (Settings.output_text_bytes, Settings.stored_text_bytes)


def test_no_change_is_called_same_and_hardly_any_noise_a_change(capsys: pytest.CaptureFixture[str]) -> None:
    matrix = Matrix()
    for history in load():
        began = {run: min(cell.runs[run].started_at for cell in history.cells) for run in RUNS}
        for number, cell in enumerate(history.cells, 1):
            verdict = judged(history, cell, number, began)
            matrix.add(cell.label, verdict, cell.verdicts, f"{history.family}/{history.name} cell {number}")
    with capsys.disabled():
        print(matrix)
    assert matrix.false_same == 0
    assert matrix.false_different <= 0.02


def test_a_change_of_one_word_or_line_of_the_record_is_never_called_same() -> None:
    draw = random.Random(16)
    missed = []
    for history in load():
        began = {run: min(cell.runs[run].started_at for cell in history.cells) for run in RUNS}
        for number, cell in enumerate(history.cells, 1):
            for outputs in changed(cell.runs["recorded"].outputs, draw) if cell.label == "same" else ():
                recorded = replace(cell.runs["recorded"], outputs=outputs)
                other = replace(cell, runs={**cell.runs, "recorded": recorded})
                if judged(history, other, number, began) == "same":
                    missed.append((history.name, number, outputs))
    assert missed == []


def changed(outputs: list[dict[str, Any]], draw: random.Random) -> Iterator[list[dict[str, Any]]]:
    """The outputs with a word of one printed line that is another, and with a line that was not there."""
    printed = [
        index for index, each in enumerate(outputs) if each["output_type"] == "stream" and "\r" not in each["text"]
    ]
    if not printed:
        return
    index = draw.choice(printed)
    lines = outputs[index]["text"].split("\n")
    at = draw.randrange(len(lines))
    words = [token.text for token in tokens_of(lines[at]) if token.kind is Kind.WORD]
    edits = [[*lines[:at], "one more", *lines[at:]]]
    if words:
        word = draw.choice(words)
        edits.append([*lines[:at], re.sub(rf"\b{re.escape(word)}\b", "altered", lines[at]), *lines[at + 1 :]])
    for edited in edits:
        yield [*outputs[:index], {**outputs[index], "text": "\n".join(edited)}, *outputs[index + 1 :]]


def judged(history: History, cell: Cell, number: int, began: dict[str, str]) -> str:
    """As a replay judges: by one run, and by a second one when there is a difference."""
    recorded = cell.runs["recorded"]
    step = Step(
        *(number, f"cell-{number}", "code", cell.source, recorded.outputs),
        status=status_of(recorded),
        started_at=recorded.started_at,
        ended_at=recorded.ended_at,
        together=[each.source for each in history.cells],
        place=number - 1,
    )
    times = [began[run] for run in RUNS]
    first, second = ran(cell.runs["first"]), ran(cell.runs["second"])
    verdict = verdict_of(step, first, CAPS, began=times).verdict
    return verdict if verdict != "different" else verdict_of(step, first, CAPS, second, began=times).verdict


def ran(run: Run) -> CellOutcome:
    """What a session stores of a run: texts cut, with the digests of the streams that were."""
    streams = {
        name: "".join(each["text"] for each in run.outputs if each.get("name") == name) for name in ("stdout", "stderr")
    }
    return CellOutcome(
        status_of(run),
        [trim_output(each, CAPS[1])[0] for each in run.outputs],
        started_at=run.started_at,
        ended_at=run.ended_at,
        digests={
            name: hashlib.sha256(text.encode()).hexdigest() for name, text in streams.items() if len(text) > CAPS[1]
        },
    )


def status_of(run: Run) -> str:
    return "error" if any(each["output_type"] == "error" for each in run.outputs) else "ok"
