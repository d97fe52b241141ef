"""The program that describes a file in a sandbox, as a process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kernel_gateway.dataset_profile import packing

ABORTS_AT_THE_END = """\
import atexit, os, runpy, sys
atexit.register(os.abort)
program, *sys.argv[1:] = sys.argv[1:]
runpy.run_path(program, run_name="__main__")
"""


def test_an_interpreter_that_aborts_at_its_end_costs_no_answer(tmp_path: Path) -> None:
    """PyArrow's thread that reads ahead does that, rarely and on slow machines."""
    program, file = tmp_path / "profile.pyz", tmp_path / "ragged.csv"
    program.write_bytes(packing.build_archive())
    file.write_text("a,b\n1,2\n3,4,5\n")
    command = [sys.executable, "-I", "-B", "-c", ABORTS_AT_THE_END, program, file]
    ended = subprocess.run(command, capture_output=True, timeout=600, check=False)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["refused"]["reason"]
