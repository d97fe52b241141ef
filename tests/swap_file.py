"""Swap for tests: a file that the kernel swaps to for as long as a test needs it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAME = "sandcell-swap"


@contextmanager
def swap_file(megabytes: int = 512) -> Iterator[Path]:
    """A swap file in use; the test is skipped where the kernel takes none, as in a container or on a tmpfs."""
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-", dir="/var/tmp") as directory:
        file = Path(directory, NAME)
        with file.open("wb") as opened:
            os.posix_fallocate(opened.fileno(), 0, megabytes << 20)
        file.chmod(0o600)
        subprocess.run(["mkswap", file], check=True, capture_output=True)
        # First of all that there is, so that a host's own swap takes nothing of what a test moves.
        done = subprocess.run(["swapon", "--priority", "32000", file], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"no swap can be added here: {done.stderr.strip()}")
        try:
            yield file
        finally:
            subprocess.run(["swapoff", file], check=True)
