"""A million tiny files: what a flush of them takes of the gateway's memory. Long."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.workspace_sync.hostile_trees import removed

FILES = 1_000_000
MOST_MEGABYTES = 600
"""Names that a manifest of 64 MB has room for, as entries, signatures and a plan, and Python itself."""
LOOK = """
import os, resource, sys, time
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import encode_manifest
from workspace_sync.mirroring.plan import plan_flush
from workspace_sync.directory.scan import scan_directory

root = os.open(sys.argv[1], os.O_RDONLY)
limits = TransferLimits()
began = time.monotonic()
scan = scan_directory(root, limits)
plan = plan_flush({}, scan, limits.workspace_bytes)
seconds = time.monotonic() - began
size = len(encode_manifest(scan.entries.values(), ""))
again = scan_directory(root, limits)
assert again.cut == scan.cut is not None and again.entries == scan.entries
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(len(plan.send), len(plan.skipped), size, peak, f"{seconds:.1f}")
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "live"
    directory.mkdir()
    with removed(directory):
        yield directory


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("spread", [1, 1_000], ids=["one-directory", "a-thousand"])
def test_a_million_tiny_files_take_bounded_memory(spread: int, live: Path) -> None:
    for number in range(spread):
        (live / f"d{number:04}").mkdir()
        at = os.open(live / f"d{number:04}", os.O_RDONLY)
        for file in range(FILES // spread):
            os.mknod(f"f{file:06}", dir_fd=at)
        os.close(at)
    done = subprocess.run([sys.executable, "-c", LOOK, str(live)], capture_output=True, text=True, check=True)
    print(done.stdout)
    sent, skipped, size, peak = (int(each) for each in done.stdout.split()[:4])
    assert sent > 100_000
    assert skipped == 1
    assert size <= 64 * 1024 * 1024
    assert peak < MOST_MEGABYTES
