"""A kernel that the image declares: R's, Julia's, bash's, any that speaks Jupyter's protocol."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from kernels.errors import Death, KernelsError
from kernels.execution.dialect import Dialect
from kernels.execution.hub import Hub
from kernels.execution.outputs import UserError
from kernels.guest_client.client import GuestClient, KernelExit, KernelStarted, Why
from kernels.kernelspec import Kernelspec
from kernels.sandboxed.kernel_events import OnKernelEvent
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.second_kernel import SecondKernel
from kernels.wire.dialing import Dial, declared_socket


class DeclaredKernel(SecondKernel):
    """Started and interrupted as its kernelspec says."""

    def __init__(
        self,
        guest: GuestClient,
        dial: Dial,
        limits: KernelLimits,
        cause: Callable[[KernelExit], Awaitable[Death]],
        on_event: OnKernelEvent,
        *,
        spec: Kernelspec,
    ) -> None:
        super().__init__(guest, dial, limits, cause, on_event)
        self.runtime, self.title, self._spec = spec.name, spec.title, spec
        self.missing = f"the kernel {spec.name} ({spec.title}) cannot be started: this sandbox has no {spec.command[0]}"

    async def start(self) -> KernelStarted:
        return await self.guest.start_declared(self._spec)

    async def kill(self) -> None:
        await self.guest.signal_declared(self.runtime, "kill")

    async def send_interrupt(self, hub: Hub, why: Why = "request", run: str = "") -> None:
        if self._spec.by_message:
            return await super().send_interrupt(hub, why, run)
        with contextlib.suppress(KernelsError):
            await self.guest.signal_declared(self.runtime, "interrupt", why, run)
        return None

    def name_socket(self, generation: int, number: int) -> str:
        return declared_socket(generation, number)

    def make_dialect(self) -> Dialect:
        return AnyDialect()


class AnyDialect(Dialect):
    """Of kernels that say of an interrupt what they like: what ended after one is taken for interrupted.

    IRkernel shows an error of its own, bash's replies `abort`, those on MetaKernel (Octave's) `ok`.
    """

    def says_interrupted(self, error: UserError) -> bool:
        return True

    def says_done(self, reply: dict[str, Any]) -> bool:
        return False
