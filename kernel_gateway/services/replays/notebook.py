"""The notebook that a replay gives back: the one that was run, with the replay's outputs and verdicts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from kernel_gateway.services.replays.stage import CellOutcome
from sandcell.models.replays import CellReplay

KEY: Final = "sandcell"
LEFT_OUT: Final[dict[str, Any]] = {
    "output_type": "stream",
    "name": "stderr",
    "text": "[left out: the outputs of this replay are more than one notebook holds]\n",
}


def build_notebook(
    document: Mapping[str, Any],
    ran: Mapping[int, CellOutcome],
    verdicts: Mapping[int, CellReplay],
    about: Mapping[str, Any],
) -> bytes:
    """The `.ipynb`. `ran` and `verdicts` go by the cells' numbers; `about` is said of the replay as a whole.

    What the cells' own record said (`metadata.sandcell`) is about the run before and goes.
    """
    cells = []
    for number, cell in enumerate(document["cells"], 1):
        made = {**cell, "metadata": {name: value for name, value in cell["metadata"].items() if name != KEY}}
        if cell["cell_type"] == "code":
            run = ran.get(number)
            made["outputs"] = run.outputs if run is not None else []
            made["execution_count"] = run.execution_count if run is not None else None
            if number in verdicts:
                made["metadata"][KEY] = {"replay": _describe_verdict(verdicts[number])}
        cells.append(made)
    metadata = {**document["metadata"], KEY: {"replay": dict(about)}}
    return msgspec.json.encode({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells}) + b"\n"


def _describe_verdict(verdict: CellReplay) -> dict[str, Any]:
    said = msgspec.to_builtins(verdict)
    return {name: value for name, value in said.items() if name not in ("number", "id") and value not in (None, "")}
