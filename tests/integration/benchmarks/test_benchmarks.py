"""The benchmarks run: a short form of each, for its own checks and not for its figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.__main__ import BENCHMARKS

REPOSITORY = Path(__file__).parent.parent.parent.parent


def test_every_benchmark_runs_and_prints_its_figures(environments_dir: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--short"],
        cwd=REPOSITORY,
        env={**os.environ, "SANDCELL_DATA_DIR": str(environments_dir.parent)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["machine", *BENCHMARKS]
