"""A sandbox of a pool: its kernel lives, no code of a caller's has run in it, and it belongs to nobody yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from kernels.environment import Environment
from kernels.errors import KernelsError, SandboxFailed
from kernels.sandbox import SandboxRuntime
from kernels.sandboxed.kernel_events import KernelConnected, KernelEvent, OnKernelEvent
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel

log = structlog.get_logger(__name__)
DESTROY_SECONDS = 60.0


class EventRelay:
    """Hears what happens to a kernel, and passes it on to its session once it has one.

    Until then any event but the kernel's first connection means that the sandbox is no longer as it was made: `spoiled`
    is set and `on_spoiled` called.
    """

    def __init__(self) -> None:
        self.spoiled = False
        self.on_spoiled: Callable[[], None] = lambda: None
        self._connected = False
        self._target: OnKernelEvent | None = None

    def connect(self, target: OnKernelEvent) -> None:
        """From here on it is the session that hears."""
        self._target = target

    def __call__(self, event: KernelEvent) -> None:
        if self._target is not None:
            self._target(event)
        elif isinstance(event, KernelConnected) and not self._connected:
            self._connected = True
        else:
            self.spoiled = True
            self.on_spoiled()


class SpareSandbox:
    """Reserved by a start that means to use it; its own from `hand_over` on. `forget` is called when a pool lets go."""

    def __init__(
        self,
        kernel: SandboxedKernel,
        events: EventRelay,
        *,
        environment: Environment,
        memory_bytes: int,
        runtime: SandboxRuntime,
        forget: Callable[[SpareSandbox], None],
    ) -> None:
        self.kernel = kernel
        self.environment = environment
        self.memory_bytes = memory_bytes
        self._events = events
        self._runtime = runtime
        self._forget = forget

    @property
    def id(self) -> str:
        """The sandbox's, and that of the session which gets it."""
        return self.kernel.info.sandbox_id

    @property
    def usable(self) -> bool:
        """Whether its first kernel still lives, as far as is known."""
        return not self._events.spoiled and self.kernel.hub is not None

    def watch(self, on_spoiled: Callable[[], None]) -> None:
        """Have `on_spoiled` called when it dies in the pool."""
        self._events.on_spoiled = on_spoiled

    def hand_over(self, on_event: OnKernelEvent) -> SandboxedKernel:
        """It is a session's now, and never a pool's again; raises SandboxFailed for one that has died."""
        self._forget(self)
        if not self.usable:
            raise SandboxFailed("the sandbox died while it waited for a session")
        self._events.connect(on_event)
        return self.kernel

    async def discard(self) -> None:
        """Remove every trace; what resists is left to the sweep, which finds that it is nobody's."""
        try:
            await self.kernel.aclose()
            async with asyncio.timeout(DESTROY_SECONDS):
                await self._runtime.destroy(self.id)
        except (KernelsError, OSError, TimeoutError) as error:
            log.error("sandbox_not_destroyed", sandbox=self.id, error=str(error))
        finally:
            self._forget(self)
