"""Launches sandboxed kernels on a runtime, takes up those that still run, and removes them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec
from kernels.sandboxed import sandboxed_kernel
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel


class KernelLauncher:
    """One runtime and the limits that all kernels on it share."""

    def __init__(self, runtime: SandboxRuntime, limits: KernelLimits) -> None:
        self._runtime = runtime
        self._limits = limits

    async def launch(
        self, spec: SandboxSpec, *, before_first_code: Callable[[SandboxInfo], Awaitable[None]]
    ) -> SandboxedKernel:
        """Start a sandbox; `before_first_code` runs beside the kernel's start and is done when this returns.

        When either fails nothing is left behind. Raises what they raise. The sandbox is not `furnished` yet.
        """
        info = await self._runtime.create(spec)
        try:
            return await self._open(info, before_first_code)
        except BaseException:
            await asyncio.shield(self._runtime.destroy(spec.sandbox_id))
            raise

    async def mark_workspace_ready(self, sandbox_id: str) -> None:
        """All that belongs in it is there; called before any code runs."""
        await self._runtime.mark_workspace_ready(sandbox_id)

    async def adopt(self, info: SandboxInfo, generation: int) -> SandboxedKernel:
        """Take up a running sandbox: same kernel, same globals. The kernel may be past the `generation` last known."""
        await self._runtime.reopen(info.sandbox_id)
        return await sandboxed_kernel.launch(self._runtime, info, self._limits)

    async def list(self) -> tuple[SandboxInfo, ...]:
        """Every sandbox that has anything left on the host."""
        return await self._runtime.list()

    async def running(self, sandbox_id: str) -> bool:
        """Whether its PID 1 is alive."""
        return await self._runtime.running(sandbox_id)

    async def reopen(self, sandbox_id: str) -> None:
        """Make the workspace of a sandbox that runs no more readable again."""
        await self._runtime.reopen(sandbox_id)

    async def listen(self, sandbox_id: str, name: str) -> socket.socket:
        """A listening socket on which the sandbox's guest calls to get out: `http` or `s3`."""
        return await self._runtime.listen(sandbox_id, name)

    async def open_beneath(self, sandbox_id: str, path: bytes) -> int:
        """A descriptor of what the user closed to himself in the workspace."""
        return await self._runtime.open_beneath(sandbox_id, path)

    async def destroy(self, sandbox_id: str) -> None:
        """Remove every trace; absent is fine."""
        await self._runtime.destroy(sandbox_id)

    async def _open(
        self, info: SandboxInfo, before_first_code: Callable[[SandboxInfo], Awaitable[None]]
    ) -> SandboxedKernel:
        opening = asyncio.create_task(sandboxed_kernel.launch(self._runtime, info, self._limits))
        try:
            await before_first_code(info)
            return await opening
        except BaseException:
            opening.cancel()
            done = await asyncio.gather(opening, return_exceptions=True)
            if isinstance(done[0], SandboxedKernel):
                await done[0].aclose()
            raise
