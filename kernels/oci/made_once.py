"""Directories that are made once and shared: built beside their place and renamed into it, so never seen unfinished."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path


def made_once(target: Path, fill: Callable[[Path], None]) -> Path:
    """`target`, which `fill` writes the content of when it is not there; of several makers at once one's stays."""
    if not target.exists():
        building = target.with_name(f".{target.name}.{os.getpid()}.{threading.get_ident()}")
        building.mkdir(exist_ok=True)
        try:
            fill(building)
            with contextlib.suppress(OSError):
                building.rename(target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target
