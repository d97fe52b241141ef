"""What a doctor that is killed leaves on the host, and who removes it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_gateway.server import doctor
from kernel_gateway.settings import Settings
from tests import leftovers
from tests.conftest import MakeService
from tests.shared_guest import share_guest

KILLED = """
import os, signal
from kernels.oci.runtime import OciRuntime
from sandcell.cli.main import sandcell

async def usage(self, sandbox_id):
    os.kill(os.getpid(), signal.SIGKILL)

OciRuntime.usage = usage
sandcell(["doctor"])
"""
"""Ends while the sandbox that it tries runs."""


def kill_doctor(settings: Settings) -> Path:
    """The directory that a doctor has left."""
    variables = {
        "PATH": os.environ["PATH"],
        leftovers.MARK: os.environ[leftovers.MARK],
        "SANDCELL_DATA_DIR": settings.data_dir,
        "SANDCELL_ENVIRONMENTS_DIR": settings.environments_dir,
        "SANDCELL_RUN_DIR": settings.run_dir,
    }
    before = places(settings)
    done = subprocess.run(
        [sys.executable, "-c", KILLED], env=variables, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
    (left,) = places(settings) - before
    assert len(list((left / "sandboxes").iterdir())) == 1
    return left


def places(settings: Settings) -> set[Path]:
    return set(Path(settings.data_dir).glob("doctor*"))


@pytest.mark.sample("kills")
def test_what_a_killed_doctor_leaves_is_removed_by_the_next_and_by_the_start_of_a_service(
    tmp_path: Path, short_directory: Path, environments_dir: Path, make_service: MakeService
) -> None:
    data_dir = share_guest(tmp_path, short_directory)
    settings = Settings(data_dir=str(data_dir), environments_dir=str(environments_dir), run_dir=str(leftovers.RUN_DIR))
    left = kill_doctor(settings)
    at_work = os.open(left, os.O_RDONLY)
    fcntl.flock(at_work, fcntl.LOCK_EX)
    assert [each for each in doctor.run(settings, host_only=True) if each.name == "leftovers"] == []
    assert places(settings) == {left}, "it may be at work"
    os.close(at_work)
    (data_dir / "doctor-notes").mkdir()
    doctor.run(settings, host_only=True)
    assert places(settings) == {data_dir / "doctor-notes"}
    kill_doctor(settings)
    make_service(data_dir=data_dir).stop()
    assert places(settings) == {data_dir / "doctor-notes"}
