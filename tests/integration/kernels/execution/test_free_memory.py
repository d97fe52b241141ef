"""A kernel that runs nothing holds no memory that its code has freed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from tests.integration.kernels.execution.running_kernel import Runner, RunningKernel

FREED_BYTES = 100_000_000
# Too large for Python's own allocator and too small for mappings of their own; the last lies above all of them, so that
# the C library does not give back what is below it by itself.
WORK = f"held = [bytes(1_000) for _ in range({FREED_BYTES // 1_000})]; last = held[-1]; del held"


def read_resident_bytes(kernel: RunningKernel) -> int:
    pages = int(Path(f"/proc/{kernel.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_what_code_has_freed_is_given_back(on_kernel: Callable[..., None]) -> None:
    async def test(runner: Runner) -> None:
        before = read_resident_bytes(runner.kernel)
        for _ in range(2):
            assert (await runner.run(WORK)).status == "ok"
            async with asyncio.timeout(120):
                while read_resident_bytes(runner.kernel) - before > FREED_BYTES // 2:
                    await asyncio.sleep(0.05)
        assert (await runner.run("print(len(last))")).stdout == "1000\n"

    on_kernel(test)
