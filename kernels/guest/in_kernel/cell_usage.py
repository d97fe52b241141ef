"""What a cell used, as the kernel's own process knows it: processor time, memory, bytes read and written.

Loaded by `kernel_main.py` from its directory. Needs the standard library and nothing of Sandcell's.
"""

from __future__ import annotations

import os
import resource
from typing import NamedTuple

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
KILOBYTE = 1024


class Counts(NamedTuple):
    """As they are at one moment; what the system does not tell is None. `highest` is since the process began."""

    cpu_seconds: float
    resident: int
    highest: int
    read: int | None
    written: int | None


class Meter:
    """Measures between `start` and `read`. Processes that the kernel started count once they were waited for.

    A sandbox's system does not forget the highest memory of earlier cells. A cell that goes above that has its own;
    of any other the larger of what was resident at its beginning and at its end is reported.
    """

    def __init__(self) -> None:
        self._before = _counts()

    def start(self) -> None:
        """A cell begins."""
        self._before = _counts()

    def read(self) -> dict[str, float | int | None]:
        """What was used since then."""
        before, now = self._before, _counts()
        rose = now.highest > before.highest
        return {
            "cpu_seconds": round(max(now.cpu_seconds - before.cpu_seconds, 0.0), 6),
            "memory_peak_bytes": max(now.highest if rose else 0, before.resident, now.resident),
            "read_bytes": _since(before.read, now.read),
            "written_bytes": _since(before.written, now.written),
        }


def _counts() -> Counts:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    pages = _read("/proc/self/statm").split()
    return Counts(cpu, int(pages[1]) * PAGE_BYTES, _highest() or own.ru_maxrss * KILOBYTE, *_bytes_moved())


def _highest() -> int:
    """The most memory that this program had resident; what `getrusage` tells includes the program before its exec."""
    for line in _read("/proc/self/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * KILOBYTE
    return 0


def _bytes_moved() -> tuple[int | None, int | None]:
    """Through read and write calls, those of children that ended included; gVisor does not count them."""
    try:
        with open("/proc/self/io", "rb", buffering=0) as counters:
            lines = dict(line.split(b": ") for line in counters.read(4096).splitlines())
        return int(lines[b"rchar"]), int(lines[b"wchar"])
    except (OSError, ValueError, KeyError):
        return None, None


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(4096)


def _since(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else max(now - before, 0)
