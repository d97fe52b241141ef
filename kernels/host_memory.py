"""What the host says of its memory: how much is available, whether there is swap, how long programs wait for memory."""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_SCARCE_SHARE: Final = 1 / 8
"""Of all memory: while more is available, who waits for memory has come to a limit of its own, not to the host's."""


def read_meminfo(path: Path = _PROC / "meminfo") -> dict[str, int]:
    """The rows that are sizes, in bytes."""
    rows = (line.split() for line in path.read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) << 10 for row in rows if len(row) == 3}


class HostMemory:
    """Reads `meminfo` and `pressure/memory` in `directory`, each time it is asked."""

    def __init__(self, directory: Path = _PROC) -> None:
        self._directory = directory

    def available_bytes(self) -> int:
        """What programs may still take without any other's memory going to swap."""
        return read_meminfo(self._directory / "meminfo").get("MemAvailable", 0)

    def has_swap(self) -> bool:
        """Whether memory can be moved anywhere."""
        return read_meminfo(self._directory / "meminfo").get("SwapFree", 0) > 0

    def pressure_percent(self) -> float:
        """How much of the last ten seconds some program waited for memory; 0 where the kernel does not say."""
        return self._read_pressure("some")

    def stalled_percent(self) -> float:
        """How much of the last ten seconds all programs that had work waited for memory, the host's being scarce.

        0 where the kernel does not say, and while much is available: a sandbox alone can wait for its own limit.
        """
        found = read_meminfo(self._directory / "meminfo")
        if found.get("MemAvailable", 0) > found.get("MemTotal", 0) * _SCARCE_SHARE:
            return 0.0
        return self._read_pressure("full")

    def _read_pressure(self, whose: str) -> float:
        try:
            rows = (self._directory / "pressure" / "memory").read_text().splitlines()
        except OSError:  # a kernel without PSI
            return 0.0
        words = next((row.split() for row in rows if row.startswith(f"{whose} ")), [])
        return next((float(word.removeprefix("avg10=")) for word in words if word.startswith("avg10=")), 0.0)
