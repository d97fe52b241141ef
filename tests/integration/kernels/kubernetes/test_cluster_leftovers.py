"""What a cluster of the tests finds of one whose test was killed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes_cluster import NAMESPACES, NotStarted, remove_leftovers

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="a network namespace needs root and iproute2"
)
PREFIX = f"scl{os.getpid()}"
NAMES = (f"{PREFIX}-cp", f"{PREFIX}-n1")


@pytest.fixture
def _left() -> Iterator[None]:
    for name in NAMES:
        subprocess.run(["ip", "netns", "add", name], check=True)
    yield
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.usefixtures("_left")
def test_networks_in_which_nothing_runs_are_removed_and_others_are_left() -> None:
    with subprocess.Popen(["nsenter", f"--net={NAMESPACES / NAMES[1]}", "cat"], stdin=subprocess.PIPE) as inside:
        network = (NAMESPACES / NAMES[1]).stat().st_ino
        while Path(f"/proc/{inside.pid}/ns/net").stat().st_ino != network:
            pass
        with pytest.raises(NotStarted, match=NAMES[1]):
            remove_leftovers(PREFIX)
        assert all((NAMESPACES / name).exists() for name in NAMES)
        inside.communicate(timeout=60)
    remove_leftovers(PREFIX)
    assert not any((NAMESPACES / name).exists() for name in NAMES)
