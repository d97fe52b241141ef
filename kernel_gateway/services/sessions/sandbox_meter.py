"""What the sandboxes of one session use, one after another: processor time is counted on over the session's life."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from kernels.errors import KernelsError
from kernels.sandbox import SandboxUsage
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.sessions import Usage

USAGE_SECONDS = 2.0


class SandboxMeter:
    """`last` is what was measured last; its processor time includes that of the sandboxes before."""

    def __init__(self, find_kernel: Callable[[], SandboxedKernel | None]) -> None:
        self.last = Usage()
        self.has_measured = False
        """Whether any sandbox of the session was measured."""
        self._find_kernel = find_kernel
        self._spent_seconds = 0.0

    async def measure(self) -> Usage:
        """What the present sandbox uses; what was measured last when there is none, or it does not answer in time."""
        kernel = self._find_kernel()
        if kernel is None:
            return self.last
        with contextlib.suppress(KernelsError, TimeoutError):
            async with asyncio.timeout(USAGE_SECONDS):
                used = await kernel.usage()
            if kernel is self._find_kernel():  # else it is counted among those before by now
                self.note(used)
        return self.last

    def note(self, used: SandboxUsage) -> None:
        """What the present sandbox uses, or the one that is about to be."""
        self.has_measured = True
        self.last = Usage(
            memory_bytes=used.memory_bytes,
            memory_peak_bytes=used.memory_peak_bytes,
            memory_limit_bytes=used.memory_limit_bytes,
            cpu_seconds=self._spent_seconds + used.cpu_seconds,
            pids=used.pids,
            storage_used_bytes=used.storage_used_bytes,
            storage_limit_bytes=used.storage_limit_bytes,
        )

    def end_sandbox(self) -> None:
        """The sandbox that was measured last goes: the next begins to count at zero."""
        self._spent_seconds = self.last.cpu_seconds
