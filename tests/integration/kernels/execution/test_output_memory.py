"""The short form of `benchmarks/output_memory.py`: printing does not move the memory of the process that reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.output_memory import BOUND_MB, WAYS

MEASURE = (
    "import dataclasses, json, sys\nfrom benchmarks.output_memory import measure\n"
    "print(json.dumps(dataclasses.asdict(measure(sys.argv[1], 60))))"
)


@pytest.mark.sample(1)  # each way prints sixty megabytes
@pytest.mark.parametrize("way", WAYS)
def test_memory_does_not_follow_what_is_printed(way: str) -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, way], cwd=root, stdout=subprocess.PIPE, text=True, timeout=120, check=True
    )
    figures = json.loads(done.stdout)
    assert figures["printed"] >= 60
    assert figures["growth"] < BOUND_MB / 2, "and a longer print would not move it further"
    # what one string weighs is the code's own; nothing that we keep may weigh as much again
    assert figures["kernel_peak"] < 90 + (4 * 60 if way == "one string" else 0)
