"""How far printing 1 GB moves the memory of the process that reads it. Run as `python -m benchmarks.output_memory`.

A real kernel (the launcher that runs in sandboxes) prints in three ways: line by line, as one string, by a subprocess.
The hub and the execution run in this process; its resident memory is sampled while they do. Exits with status 1 when
the growth is past the bound.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.host_kernel import HostKernel
from kernels.execution.execution import Outcome, execute
from kernels.execution.hub import Hub
from kernels.execution.outputs import OutputCaps

MEGABYTE = 1_000_000
BOUND_MB = 50
WAYS = {
    "lines of 1,000 characters": "for _ in range({mb} * 1000): print('x' * 999)",
    "one string": "print('x' * ({mb} * 1_000_000 - 1))",
    "a subprocess": "import subprocess; subprocess.run('yes {line} | head -c {mb}000000', shell=True); None",
}


@dataclass(frozen=True)
class Figures:
    """What one way of printing did; sizes in MB."""

    way: str
    printed: float
    growth: float
    kernel_peak: float
    seconds: float


class ResidentMemory:
    """The highest resident memory of this process while the context is open, in bytes, above what it was before."""

    def __enter__(self) -> ResidentMemory:
        self._before = self.peak = resident_bytes("self")
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    @property
    def growth(self) -> int:
        return self.peak - self._before

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.peak = max(self.peak, resident_bytes("self"))


def resident_bytes(process: int | str, field: str = "VmRSS") -> int:
    """A memory figure of a process, from /proc."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


async def run(kernel: HostKernel, code: str) -> Outcome:
    """Run code on a hub of its own, as the service does."""
    hub = Hub(kernel.connection)
    try:
        await hub.open(60)
        return await execute(
            hub,
            code,
            timeout_seconds=1800,
            interrupt_grace_seconds=5,
            caps=OutputCaps(),
            interrupt=kernel.interrupt,
            emit=lambda _event: None,
        )
    finally:
        await hub.aclose()


def measure(way: str, megabytes: int) -> Figures:
    """One way of printing, on a kernel of its own."""
    with tempfile.TemporaryDirectory(prefix="scb", dir="/tmp") as directory, HostKernel(directory) as kernel:
        asyncio.run(run(kernel, "pass"))
        began = time.monotonic()
        with ResidentMemory() as memory:
            outcome = asyncio.run(run(kernel, WAYS[way].format(mb=megabytes, line="x" * 70)))
        seconds = time.monotonic() - began
        printed = len(outcome.stdout.encode()) + outcome.truncated.stdout
        if outcome.status != "ok" or printed < megabytes * MEGABYTE:
            raise SystemExit(f"{way}: {outcome.status}, {printed:,} bytes arrived")
        return Figures(
            way,
            printed / MEGABYTE,
            memory.growth / MEGABYTE,
            resident_bytes(kernel.pid, "VmHWM") / MEGABYTE,
            seconds,
        )


def main() -> int:
    """Print a table; a ratio says how many bytes were printed for each byte that memory grew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    megabytes = parser.parse_args().megabytes
    print(f"{'printed as':<28}{'MB':>7}{'growth MB':>11}{'ratio':>8}{'kernel peak MB':>16}{'MB/s':>7}")
    worst = 0.0
    for way in WAYS:
        seen = measure(way, megabytes)
        worst = max(worst, seen.growth)
        ratio = seen.printed / max(seen.growth, 0.1)
        rate = seen.printed / seen.seconds
        print(f"{way:<28}{seen.printed:>7.0f}{seen.growth:>11.1f}{ratio:>8.0f}{seen.kernel_peak:>16.0f}{rate:>7.0f}")
    print(f"bound: {BOUND_MB} MB; on {os.cpu_count()} processors")
    return 0 if worst < BOUND_MB else 1


if __name__ == "__main__":
    sys.exit(main())
