"""Launches sandboxed kernels on a runtime and takes up those that still run; what needs no kernel is the runtime's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from kernels.errors import SandboxFailed, SandboxGone
from kernels.execution.runs import Durable
from kernels.sandbox import SandboxInfo, SandboxRuntime, SandboxSpec
from kernels.sandboxed.kernel_events import OnKernelEvent, ignore_events
from kernels.sandboxed.kernel_limits import KernelLimits
from kernels.sandboxed.residence import WakingTurns
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel, open_kernel

THAWS = 5
THAW_PAUSE_SECONDS = 0.2


class KernelLauncher:
    """One runtime and the limits that all kernels on it share. `on_event` hears of what happens to a kernel.

    `turns`: those that their sandboxes take as they come back from swap.
    """

    def __init__(self, runtime: SandboxRuntime, limits: KernelLimits, turns: WakingTurns | None = None) -> None:
        self._runtime = runtime
        self._limits = limits
        self._turns = turns

    async def launch(
        self,
        spec: SandboxSpec,
        *,
        before_first_code: Callable[[SandboxInfo], Awaitable[None]],
        on_event: OnKernelEvent = ignore_events,
        start_seconds: float | None = None,
    ) -> SandboxedKernel:
        """Start a sandbox; `before_first_code` runs while the kernel starts and is done when this returns.

        The start may take `start_seconds` instead of what the limits of all kernels say.
        When either fails nothing is left behind. Raises what they raise. The sandbox's workspace does not count as
        ready before the runtime's `mark_workspace_ready`.
        """
        info = await self._runtime.create(spec)
        try:
            return await self._open(info, before_first_code, on_event, start_seconds)
        except BaseException:
            await asyncio.shield(self._runtime.destroy(spec.sandbox_id))
            raise

    async def adopt(
        self, info: SandboxInfo, on_event: OnKernelEvent = ignore_events, heard: Mapping[str, Durable] | None = None
    ) -> SandboxedKernel:
        """Take up a running sandbox: same kernel, same globals. Its generation may be past the one last known.

        `heard` is as `Hub` has it: with it what the kernel has said since comes once the execution that is taken up
        listens, or by `go_on`; without it at once.
        """
        await self._runtime.reopen(info.sandbox_id)
        await self._thaw(info.sandbox_id)  # its guest is to answer; what is in swap comes back as it is used
        kernel = await open_kernel(self._runtime, info, self._limits, on_event, heard=heard or {})
        kernel.residence.turns = self._turns
        if heard is None:
            kernel.go_on()
        return kernel

    async def _thaw(self, sandbox_id: str) -> None:
        """Tried again when it fails: with a sandbox that is not taken up all that its kernel holds is lost."""
        for _ in range(THAWS - 1):
            try:
                return await self._runtime.thaw(sandbox_id)
            except SandboxGone:
                raise
            except SandboxFailed:
                await asyncio.sleep(THAW_PAUSE_SECONDS)
        return await self._runtime.thaw(sandbox_id)

    async def _open(
        self,
        info: SandboxInfo,
        before_first_code: Callable[[SandboxInfo], Awaitable[None]],
        on_event: OnKernelEvent,
        start_seconds: float | None,
    ) -> SandboxedKernel:
        opening = asyncio.create_task(open_kernel(self._runtime, info, self._limits, on_event, start_seconds))
        preparing = asyncio.ensure_future(before_first_code(info))
        try:
            # What fails first is said at once: the other may wait for it.
            done, _ = await asyncio.wait({opening, preparing}, return_when=asyncio.FIRST_EXCEPTION)
            await asyncio.gather(*done)
            opening.result().residence.turns = self._turns
            return opening.result()
        except BaseException:
            opening.cancel()
            preparing.cancel()
            opened, _ = await asyncio.gather(opening, preparing, return_exceptions=True)
            if isinstance(opened, SandboxedKernel):
                await opened.aclose()
            raise
