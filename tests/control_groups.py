"""Looks for control groups and their files while other tests' groups come and go."""

from __future__ import annotations

import glob
from pathlib import Path


def find(pattern: str, top: Path = Path("/sys/fs/cgroup")) -> list[Path]:
    """What lies anywhere below `top` and matches."""
    return [Path(each) for each in glob.glob(f"{top}/**/{pattern}", recursive=True)]  # noqa: PTH207 - `Path.glob` fails for a directory that goes
