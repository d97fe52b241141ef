"""The benchmarks run: a short form of each, for its own checks and not for its figures."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from tests.kubernetes_cluster import why_not

REPOSITORY = Path(__file__).parent.parent.parent.parent


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name not in ("attach", "doors", "pods")])
def test_a_benchmark_runs_and_prints_its_figures(name: str, environments_dir: Path) -> None:
    assert _printed("--short", name, environments_dir=environments_dir, timeout=280) == ["machine", name]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_memory_of_the_service_stays_bounded_when_nobody_reads(environments_dir: Path) -> None:
    """With nobody attached, and with a client that is stuck; the benchmark fails past its bound.

    `test_service_of_its_own` holds the service to it in every run; here another gateway is measured beside it.
    """
    assert _printed("--short", "attach", environments_dir=environments_dir, timeout=280) == ["machine", "attach"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_door_is_measured_whose_client_is_there(environments_dir: Path) -> None:
    assert _printed("--short", "doors", environments_dir=environments_dir, timeout=580) == ["machine", "doors"]


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is a cluster")
def test_pods_are_measured_beside_a_host(environments_dir: Path) -> None:
    assert _printed("--short", "pods", environments_dir=environments_dir, timeout=1100) == ["machine", "pods"]


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_agentcore_face_bears_fifty_sessions_and_ninety_megabytes(environments_dir: Path) -> None:
    """The benchmarks at full size; a call that fails fails them."""
    names = ["agentcore_load", "agentcore_files"]
    assert _printed(*names, environments_dir=environments_dir, timeout=1100) == ["machine", *names]


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_a_thousand_sessions_answer_for_ten_minutes(environments_dir: Path) -> None:
    """With a DataFrame each, thirty executions a second; the benchmark fails past its bounds."""
    given = ["--sessions", "1000", "--seconds", "600", "live_sessions"]
    assert _printed(*given, environments_dir=environments_dir, timeout=7000) == ["machine", "live_sessions"]


def _printed(*arguments: str, environments_dir: Path, timeout: int) -> list[str]:
    """The first word of every line that begins a benchmark's figures, among what a service logs on a slow machine."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "SANDCELL_DATA_DIR": str(environments_dir.parent)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first_words = [line.partition(":")[0] for line in done.stdout.splitlines()]
    return [word for word in first_words if word == "machine" or word in BENCHMARKS]
