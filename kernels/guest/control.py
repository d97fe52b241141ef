"""What the guest does on request: restarts of the kernel, commands, files. Knows no HTTP."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

from . import shared_memory
from .batch import Batch
from .commands import Command, Commands
from .files import Upload, Workspace
from .identity import UserThreads, assume
from .kernel import Event, Kernel
from .options import Options
from .processes import ROUND_SECONDS, kill_all
from .reaper import Reaper
from .refusal import Refusal, refusal_of

START_DEADLINE_SECONDS = 3.0
ROOM_DEADLINE_SECONDS = 5.0
NO_ROOM = (
    "the sandbox has as many processes as it may have, and what runs holds them: interrupt it, or restart the kernel"
)
REAP_ROUNDS = 100


class Control:
    """What routes call: owns the kernel once the loop runs, the commands, and the threads for files."""

    def __init__(self, options: Options, reaper: Reaper, kernel: Kernel) -> None:
        self.kernel = kernel
        self._options = options
        self._reaper = reaper
        self._starting = asyncio.Lock()
        self.commands = Commands(options, reaper)
        self.files = Workspace(options.workspace)
        self._threads = UserThreads(options.user)
        self.as_user = self._threads.run

    async def start_kernel(self, generation: int) -> Event:
        """Kill what is left of the old kernel and start a new one; asked again for the running one, names it."""
        async with self._starting:
            if generation == self.kernel.generation and self.kernel.pid is not None:
                return self.kernel.started()
            if generation <= self.kernel.generation:
                raise Refusal(409, "stale_generation", f"the kernel is at generation {self.kernel.generation}")
            await self._clear_away()
            await self._start_when_possible(generation)
            return self.kernel.started()

    async def _clear_away(self) -> None:
        """Leave nothing of the old kernel: no process, and nothing in the directory of its sockets."""
        if not await kill_all(self.commands.running, self._reaper.reap):
            raise Refusal(503, "busy", "processes of the user could not be killed in time")
        for _ in range(REAP_ROUNDS):
            if self.kernel.pid is None:
                break
            await asyncio.sleep(ROUND_SECONDS)
            self._reaper.reap()
        await self.as_user(self._release_memory)
        with suppress(OSError, Refusal):  # what is left there is only in the user's own way
            Workspace(self._options.kernel_directory).remove("", recursive=True)

    def _release_memory(self) -> None:
        """In a thread: let go of what would keep memory from the next kernel, and be the user for files again."""
        if os.getpid() == 1 and self._options.user:  # elsewhere the segments may be somebody else's
            shared_memory.release(self._options.user)
        assume(self._options.user)

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

    async def start_command(
        self, line: str, *, timeout_seconds: float, output_bytes: int, background: bool, merge_output: bool
    ) -> Command:
        """Start a command. When no process fits, those go first that ended commands and cells have left behind."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ROOM_DEADLINE_SECONDS
        while True:
            try:
                return self.commands.start(
                    line,
                    timeout_seconds=timeout_seconds,
                    output_bytes=output_bytes,
                    background=background,
                    merge_output=merge_output,
                )
            except Refusal as refusal:
                if refusal.code != "no_processes":
                    raise
                if loop.time() > deadline:
                    raise Refusal(503, refusal.code, NO_ROOM) from refusal
            await kill_all(self._at_work, self._reaper.reap, seconds=ROOM_DEADLINE_SECONDS, at_any_price=False)
            await asyncio.sleep(ROUND_SECONDS)

    def _at_work(self) -> list[int]:
        """Heads of the families that somebody still waits for."""
        kernel = [] if self.kernel.pid is None else [self.kernel.pid]
        return [*kernel, *self.commands.running()]

    def discard(self, upload: Upload | Batch) -> None:
        """Forget an upload whose sender is gone."""
        self._threads.submit(upload.abort)

    async def close(self) -> None:
        """Kill every process of the sandbox."""
        await kill_all(lambda: (), self._reaper.reap)
