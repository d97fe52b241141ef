"""The number of processors that a sandbox is shown at /sys/devices/system/cpu, where the C library asks for it.

Without these files it would fall back to /proc/stat, which counts the host's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kernels.guest.processors import whole
from kernels.oci.made_once import made_once

_PLACE: Final = "devices/system/cpu"
_FILES: Final = ("online", "possible", "present")


def shown(directory: Path, vcpus: float) -> Path:
    """What to bind at /sys of a sandbox with so many vCPUs; made below `directory` once for each number."""
    count = whole(vcpus)

    def fill(building: Path) -> None:
        (building / _PLACE).mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            (building / _PLACE / name).write_text(f"0-{count - 1}\n" if count > 1 else "0\n")

    return made_once(directory / f"processors-{count}", fill)
