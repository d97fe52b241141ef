"""Sandboxes that are killed between the opening of their kernel and the moment in which the session takes it on."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kernels.sandboxed import kernel_launcher
from kernels.sandboxed.kernel_events import KernelEvent, SandboxLost
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel, open_kernel


def lose_kernels_when_open(patches: pytest.MonkeyPatch, data_dir: str) -> None:
    """Kill each sandbox once its kernel is open, and hand the kernel over when its loss has been said."""

    async def open_and_lose(
        runtime: Any, info: Any, limits: Any, on_event: Any, start_seconds: float | None = None, **taken_up: Any
    ) -> SandboxedKernel:
        lost = asyncio.Event()

        def pass_on(event: KernelEvent) -> None:
            on_event(event)
            if isinstance(event, SandboxLost):
                lost.set()

        kernel = await open_kernel(runtime, info, limits, pass_on, start_seconds, **taken_up)
        pid = Path(data_dir, "sandboxes", info.sandbox_id, "bundle", "pid").read_text()
        os.kill(int(pid), signal.SIGKILL)
        async with asyncio.timeout(120):
            await lost.wait()
        return kernel

    patches.setattr(kernel_launcher, "open_kernel", open_and_lose)
