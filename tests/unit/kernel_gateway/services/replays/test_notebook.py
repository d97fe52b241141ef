"""The notebook that a replay gives back."""

from __future__ import annotations

import json
from typing import Any

import nbformat

from kernel_gateway.services.replays.notebook import build_notebook
from kernel_gateway.services.replays.stage import CellOutcome
from sandcell.models.replays import CellReplay

RECORDED: dict[str, Any] = {
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "sandcell": {"session_id": "before"}},
    "cells": [
        {
            "id": "note-1",
            "cell_type": "markdown",
            "metadata": {"sandcell": {"kind": "started"}},
            "source": "**Started**",
        },
        {
            "id": "one",
            "cell_type": "code",
            "metadata": {"tags": ["kept"], "sandcell": {"hash": "of before"}},
            "source": "print(1)",
            "outputs": [{"output_type": "stream", "name": "stdout", "text": "0\n"}],
            "execution_count": 7,
        },
        {"id": "two", "cell_type": "code", "metadata": {}, "source": "2", "outputs": [], "execution_count": None},
    ],
}


def replayed() -> Any:
    output = {"output_type": "stream", "name": "stdout", "text": "1\n"}
    ran = {2: CellOutcome("ok", [output], execution_id="x", execution_count=1, seconds=0.5)}
    verdicts = {
        2: CellReplay(2, "one", "different", "text differs", "-0\n+1\n", "ok", "x", 0.5),
        3: CellReplay(3, "two", "not_run", "stopped"),
    }
    return json.loads(build_notebook(RECORDED, ran, verdicts, {"replay_id": "r"}))


def test_it_is_a_notebook_with_the_outputs_and_verdicts_of_the_replay() -> None:
    made = replayed()
    nbformat.validate(nbformat.from_dict(made))
    note, one, two = made["cells"]
    assert (note["source"], note["metadata"]) == ("**Started**", {})
    assert (one["outputs"][0]["text"], one["execution_count"]) == ("1\n", 1)
    assert one["metadata"]["tags"] == ["kept"]
    assert one["metadata"]["sandcell"]["replay"]["verdict"] == "different"
    assert one["metadata"]["sandcell"]["replay"]["execution_id"] == "x"
    assert two["metadata"]["sandcell"] == {"replay": {"verdict": "not_run", "why": "stopped"}}
    assert (two["outputs"], two["execution_count"]) == ([], None)
    assert made["metadata"]["sandcell"] == {"replay": {"replay_id": "r"}}


def test_it_does_not_change_what_was_given() -> None:
    before = json.dumps(RECORDED)
    replayed()
    assert json.dumps(RECORDED) == before
