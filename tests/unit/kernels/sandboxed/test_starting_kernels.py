"""A sandbox is in use while a kernel beside Python's starts in it, whether code waits for that or a client."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from kernels.errors import SandboxGone
from kernels.guest_client.client import KernelStarted
from kernels.kernelspec import Kernelspec
from kernels.sandbox import SandboxInfo, SandboxRuntime
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.residence import IN_USE
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from tests.unit.kernels.sandboxed.test_residence import SlowRuntime


class Runtime(SlowRuntime):
    """Nobody listens in its sandbox."""

    async def dial(self, _sandbox_id: str, _name: str, **_patience: Any) -> None:
        raise SandboxGone("nobody listens")


class Guest:
    """It is asked for no more than a start, which takes for ever: as the wait for a kernel's sockets would."""

    busy = False
    awake = None

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def start_declared(self, _spec: Kernelspec) -> KernelStarted:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def runs_commands(self) -> bool:
        return False

    def forget_connections(self) -> None:
        """There are none."""

    async def aclose(self) -> None:
        """Nothing is open."""


class IdleHub(SimpleNamespace):
    """The connections to a Python kernel that has nothing to do."""

    error, awaits_reply, wake = None, False, None

    def fail(self, _error: object) -> None:
        """Nobody waits."""

    async def aclose(self) -> None:
        """Nothing is open."""


def test_a_sandbox_does_not_stop_while_a_declared_kernel_starts() -> None:
    async def run() -> None:
        runtime, guest = Runtime(), Guest()
        runtime.move.set()
        made = SandboxedKernel(cast("SandboxRuntime", runtime), SandboxInfo("s", "/nowhere"), KernelLimits())
        kernel = cast("Any", made)
        kernel.guest, kernel._hub = guest, IdleHub()
        starting = asyncio.ensure_future(made.reach_declared(Kernelspec("r", "r", "R", ("R",))))
        await guest.asked.wait()
        assert await made.page_out() is IN_USE
        starting.cancel()
        await asyncio.wait({starting})
        assert (await made.page_out()).moved_bytes
        await made.aclose()

    asyncio.run(run())
