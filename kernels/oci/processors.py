"""The number of processors that a sandbox is shown at /sys/devices/system/cpu, where the C library asks for it.

Without these files it would fall back to /proc/stat, which counts the host's.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Final

from kernels.guest.processors import whole

_PLACE: Final = "devices/system/cpu"
_FILES: Final = ("online", "possible", "present")


def shown(directory: Path, vcpus: float) -> Path:
    """What to bind at /sys of a sandbox with so many vCPUs; made below `directory` once for each number."""
    count = whole(vcpus)
    target = directory / f"processors-{count}"
    if not target.exists():
        building = directory / f".{target.name}.{os.getpid()}.{threading.get_ident()}"
        (building / _PLACE).mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            (building / _PLACE / name).write_text(f"0-{count - 1}\n" if count > 1 else "0\n")
        with contextlib.suppress(OSError):
            building.rename(target)
        shutil.rmtree(building, ignore_errors=True)
    return target
