"""What the guest does on request: restarts of the kernel, commands, files. Knows no HTTP."""

from __future__ import annotations

import asyncio
import shutil

from .boot import make_directories
from .kernel import Event, Kernel
from .options import Options
from .processes import kill_all
from .reaper import Reaper
from .refusal import Refusal, refusal_of

START_DEADLINE_SECONDS = 3.0


class Control:
    """Owns the kernel once the loop runs."""

    def __init__(self, options: Options, reaper: Reaper, kernel: Kernel) -> None:
        self.kernel = kernel
        self._options = options
        self._reaper = reaper
        self._starting = asyncio.Lock()

    async def start_kernel(self, generation: int) -> Event:
        """Kill what is left of the old kernel and start a new one; asked again for the running one, names it."""
        async with self._starting:
            if generation == self.kernel.generation and self.kernel.pid is not None:
                return self.kernel.started()
            if generation <= self.kernel.generation:
                raise Refusal(409, "stale_generation", f"the kernel is at generation {self.kernel.generation}")
            if not await kill_all(lambda: (), self._reaper.reap):
                raise Refusal(503, "busy", "processes of the user could not be killed in time")
            shutil.rmtree(self._options.kernel_directory, ignore_errors=True)
            make_directories(self._options)
            await self._start_when_possible(generation)
            return self.kernel.started()

    async def _start_when_possible(self, generation: int) -> None:
        """Start it, again and again for a while: those just killed may still count against the process limit."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_DEADLINE_SECONDS
        while True:
            try:
                return self.kernel.start(generation)
            except BlockingIOError as error:
                if loop.time() > deadline:
                    raise refusal_of(error) from error
            except OSError as error:
                raise refusal_of(error) from error
            await asyncio.sleep(0.02)

    async def close(self) -> None:
        """Kill every process of the sandbox."""
        await kill_all(lambda: (), self._reaper.reap)
