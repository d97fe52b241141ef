"""Swap for tests: a file that the kernel swaps to for as long as a test needs it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NAME = "sandcell-swap"
PLACE = Path("/var/tmp")


@contextmanager
def swap_file(megabytes: int = 256) -> Iterator[Path]:
    """A swap file in use; the test is skipped where the kernel takes none, as in a container or on a tmpfs.

    The whole machine swaps to it, so there is one at a time: another test's waits here, before its deadlines begin.
    """
    with _turn(), tempfile.TemporaryDirectory(prefix=f"{NAME}-", dir=PLACE) as directory:
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


@contextmanager
def _turn() -> Iterator[None]:
    """Also among several test runs: the lock is on a directory that all of them have, and ends with its process."""
    directory = os.open(PLACE, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)
