"""The trial to its full breadth, as a program of its own: 40 sessions, and 1,000 that come and go."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kubernetes_cluster import REPOSITORY, why_not


@pytest.mark.long
@pytest.mark.timeout(5400)
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "there is a cluster")
def test_the_full_trial_finds_nothing(environments_dir: Path) -> None:
    command = [sys.executable, "-m", "tests.kubernetes_trial", "--full", "--data-dir", str(environments_dir.parent)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=5300, check=False)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
