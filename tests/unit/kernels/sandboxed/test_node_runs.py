"""What ends a run by Node.js before it ends by itself."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from kernels.errors import SandboxGone
from kernels.execution.execution import Outcome
from kernels.guest_client.client import CommandResult, GuestClient
from kernels.sandbox import SandboxInfo, SandboxRuntime
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel


class EndlessCommands:
    """A guest whose commands do not end by themselves, and that is gone when a kernel is wanted."""

    def __init__(self) -> None:
        self.under_way = asyncio.Event()

    async def run_command(self, _line: str, **_bounds: Any) -> CommandResult:
        self.under_way.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def start_kernel(self, _generation: int, **_how: Any) -> None:
        raise SandboxGone("no kernel")

    async def aclose(self) -> None:
        """Nothing is open."""


class NoRuntime:
    """Nobody listens in its sandbox."""

    async def dial(self, _sandbox_id: str, _name: str, **_patience: Any) -> None:
        raise SandboxGone("nobody listens")


async def running(end: str) -> Outcome:
    kernel = SandboxedKernel(cast("SandboxRuntime", NoRuntime()), SandboxInfo("s", "/nowhere"), KernelLimits())
    guest = EndlessCommands()
    kernel.guest = cast("GuestClient", guest)
    code = kernel.execute(
        "for (;;);", timeout_seconds=900, emit=lambda _event: None, language="javascript", runtime="nodejs"
    )
    run = asyncio.ensure_future(code)
    await guest.under_way.wait()
    if end == "restart":
        with pytest.raises(SandboxGone):
            await kernel.restart()
    else:
        await kernel.interrupt()
    try:
        async with asyncio.timeout(120):
            return await run
    finally:
        await kernel.aclose()


def test_a_restart_ends_it_as_died() -> None:
    outcome = asyncio.run(running("restart"))
    assert outcome.status == "died"
    assert outcome.death is not None
    assert outcome.death.cause == "restart"


def test_an_interrupt_ends_it_as_interrupted() -> None:
    outcome = asyncio.run(running("interrupt"))
    assert (outcome.status, outcome.death) == ("interrupted", None)
