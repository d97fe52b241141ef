"""What the guest does on request: restarts of the kernel, commands, files. Knows no HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ..network.packages import MissingIndex
from ..options import Options
from ..processes.commands import Command, Commands
from ..processes.families import ROUND_SECONDS, kill_all
from ..processes.kernel import Event, Kernel
from ..processes.programs import FollowedProgram, FollowedPrograms
from ..processes.reaper import Reaper
from ..refusal import Refusal, refusal_of
from ..workspace import shared_memory
from ..workspace.batch import Batch
from ..workspace.files import Upload, Workspace
from ..workspace.identity import UserThreads, assume
from ..workspace.sandbox_tree import SandboxTree

if TYPE_CHECKING:
    from ..processes.bridged import BridgedKernel
    from ..processes.declared import DeclaredKernel
    from ..processes.deno import DenoKernel
    from ..relay.kernels import Relays

START_DEADLINE_SECONDS = 3.0
ROOM_DEADLINE_SECONDS = 10.0
NO_ROOM = (
    "the sandbox has as many processes as it may have, and what runs holds them: interrupt it, or restart the kernel"
)
REAP_ROUNDS = 100
Started = TypeVar("Started")


class Control:
    """What routes call: owns the kernels once the loop runs, the commands, and the threads for files.

    `deno` is None until it is asked for, and so are those `declared` missing: a session that runs Python alone pays
    nothing for them.
    """

    def __init__(self, options: Options, reaper: Reaper, kernel: Kernel) -> None:
        self.kernel = kernel
        self.deno: DenoKernel | None = None
        self.declared: dict[str, DeclaredKernel] = {}
        self._declared_generation = 0
        """Of them all: each start has the next number, which its sockets are named by."""
        self._options = options
        self._reaper = reaper
        self._starting = asyncio.Lock()
        self.commands = Commands(options, reaper)
        self.programs = FollowedPrograms(options, reaper)
        self.missing_index = MissingIndex(options)
        self.files = Workspace(options.workspace)
        self.every_file = SandboxTree("/")
        self._relays: Relays | None = None
        self.stand_by: Callable[[], None] | None = None
        """Closes what the host comes in by, for the sandbox to be saved; the server sets it."""
        self.watches = 0
        """How many directories callers watch."""
        self._threads = UserThreads(options.user)
        self.as_user = self._threads.run

    def accept_gateway(self) -> asyncio.Protocol:
        """A gateway comes for what kernels say: the protocol of its connection."""
        from ..relay.kernels import Relays  # noqa: PLC0415 - the first kernel starts meanwhile

        if self._relays is None:
            self._relays = Relays(self._options, self._find_kernel)
        return self._relays.accept()

    def drop_gateways(self) -> None:
        """End the connections of those who listen to the kernels; they come again for the rest."""
        if self._relays is not None:
            self._relays.drop_gateways()

    def require_at_rest(self) -> None:
        """Raises Refusal while anything runs that a caller has started, or a kernel beside Python's."""
        if any(each.pid is not None for each in self._seconds()):
            raise Refusal(409, "busy", "a kernel for another language runs")
        if self.list_started() or self.watches or self._starting.locked():
            raise Refusal(409, "busy", "a command or a program runs, or a directory is watched")

    def _find_kernel(self, name: str) -> Kernel | None:
        return {"python": self.kernel, "deno": self.deno, **self.declared}.get(name)

    def note_interrupt(self, name: str, why: str, run_id: str) -> bool:
        """Before a kernel is interrupted: who comes for what it says next reads of it, and why it was.

        False where it is not to be: it was for a run that has ended.
        """
        relay = None if self._relays is None else self._relays.find(name)
        return relay is None or relay.note_interrupt(why, run_id)

    def interrupt_by_message(self, name: str, why: str, run_id: str, message: bytes) -> None:
        """The same of a kernel that is interrupted by a message, which it is sent."""
        relay = None if self._relays is None else self._relays.find(name)
        if relay is None:
            raise Refusal(409, "no_kernel", "no gateway has come for such a kernel")
        relay.interrupt(why, message, run_id)

    def story(self) -> list[Event]:
        """What a new follower must know of the kernels."""
        return [event for each in (self.kernel, *self._seconds()) for event in each.story()]

    def _seconds(self) -> list[BridgedKernel]:
        """The kernels beside the first that have been asked for."""
        return [*([] if self.deno is None else [self.deno]), *self.declared.values()]

    async def start_kernel(self, generation: int, *, keep_deno: bool = False, key: str = "") -> Event:
        """Kill what is left of the old kernel and start a new one; asked again for the running one, names it."""
        async with self._starting:
            if generation == self.kernel.generation and self.kernel.pid is not None:
                return self.kernel.describe_start()
            if generation <= self.kernel.generation:
                raise Refusal(409, "stale_generation", f"the kernel is at generation {self.kernel.generation}")
            await self._clear_away(keep_deno=keep_deno)
            await self._start_when_possible(lambda: self.kernel.start(generation, key))
            return self.kernel.describe_start()

    async def renumber_kernel(self, generation: int) -> Event:
        """Have the kernel that runs be of a later generation: it was started before anybody knew for whom."""
        async with self._starting:
            kernel = self.kernel
            if kernel.pid is None:
                raise Refusal(409, "no_kernel", "no kernel is running")
            if generation < kernel.generation:
                raise Refusal(409, "stale_generation", f"the kernel is at generation {kernel.generation}")
            self.renumber(generation)
            return kernel.describe_start()

    def renumber(self, generation: int) -> None:
        """The same before anybody has been told of the kernel, or under the lock of who was."""
        self.kernel.renumber(generation)
        if self._relays is not None:
            self._relays.renumber("python", generation)

    async def start_deno(self) -> Event:
        """Start the kernel for JavaScript and TypeScript; while one runs, names it."""
        async with self._starting:
            deno = self.deno = self.deno or self._second()
            if deno.pid is None:
                await deno.close_bridge()
                await self._start_when_possible(lambda: deno.start_generation(deno.generation + 1))
            return deno.describe_start()

    async def kill_deno(self) -> None:
        """Kill it, and return when it is gone: who asks for one next gets another."""
        if self.deno is None:
            raise Refusal(409, "no_kernel", "no kernel for JavaScript and TypeScript is running")
        await _kill(self.deno)

    async def start_declared(
        self, name: str, command: list[str], variables: dict[str, str], *, by_message: bool = False
    ) -> Event:
        """Start a kernel that the image declares, as it is said here; while one of the name runs, names that."""
        from ..processes.declared import DeclaredKernel  # noqa: PLC0415 - few sessions need it

        async with self._starting:
            kernel = self.declared.get(name)
            if kernel is None:
                kernel = DeclaredKernel(name, self._options, self._reaper, self.kernel.subscribers)
            if kernel.pid is None:
                kernel.command, kernel.variables, kernel.heeds_signals = command, variables, not by_message
                await kernel.close_bridge()
                self._declared_generation += 1
                await self._start_when_possible(lambda: kernel.start_generation(self._declared_generation))
                self.declared[name] = kernel
            return kernel.describe_start()

    async def kill_declared(self, name: str) -> None:
        """As for JavaScript's."""
        await _kill(self._running(name))

    def interrupt_declared(self, name: str, why: str, run_id: str) -> None:
        """SIGINT to it and what it started."""
        kernel = self._running(name)
        if self.note_interrupt(name, why, run_id):
            kernel.interrupt()

    def _running(self, name: str) -> DeclaredKernel:
        found = self.declared.get(name)
        if found is None or found.pid is None:
            raise Refusal(409, "no_kernel", "no kernel of this name is running")
        return found

    def _second(self) -> DenoKernel:
        from ..processes.deno import DenoKernel  # noqa: PLC0415 - few sessions need it

        if not os.path.exists(self._options.deno):
            raise Refusal(404, "no_deno", f"the image has no {self._options.deno}")
        return DenoKernel(self._options, self._reaper, self.kernel.subscribers)

    async def _clear_away(self, *, keep_deno: bool) -> None:
        """Leave nothing of the old kernel: no process, and nothing in the directory of its sockets."""
        if not await kill_all(self._list_spared if keep_deno else self.list_started, self._reaper.reap):
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
        if os.getpid() == 1 and self._options.user:  # elsewhere the segments may be another program's
            shared_memory.release(self._options.user)
        assume(self._options.user)

    def _list_spared(self) -> list[int]:
        """Heads of the families that outlive a kernel."""
        return [*(each.pid for each in self._seconds() if each.pid is not None), *self.list_started()]

    def list_started(self) -> list[int]:
        """Pids of what callers have started."""
        return [*self.commands.running(), *self.programs.running()]

    async def _start_when_possible(self, start: Callable[[], None]) -> None:
        """Start it, again and again for a while: those just killed may still count against the process limit."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_DEADLINE_SECONDS
        while True:
            try:
                return start()
            except BlockingIOError as error:
                if loop.time() > deadline:
                    raise refusal_of(error) from error
            except OSError as error:
                raise refusal_of(error) from error
            await asyncio.sleep(0.02)

    async def start_command(
        self,
        line: str,
        *,
        timeout_seconds: float,
        output_bytes: int,
        background: bool,
        merge_output: bool,
        command_id: str = "",
    ) -> Command:
        """Start a command. When no process fits, those go first that ended commands and cells have left behind."""
        return await self._make_room_for(
            lambda: self.commands.start(
                line,
                timeout_seconds=timeout_seconds,
                output_bytes=output_bytes,
                background=background,
                merge_output=merge_output,
                command_id=command_id,
            )
        )

    async def start_program(self, command: list[str], **asked: Any) -> FollowedProgram:
        """Start a program to be followed, as `FollowedPrograms.start` does; room is made as for a command."""
        return await self._make_room_for(lambda: self.programs.start(command, **asked))

    async def _make_room_for(self, start: Callable[[], Started]) -> Started:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ROOM_DEADLINE_SECONDS
        while True:
            try:
                return start()
            except Refusal as refusal:
                if refusal.code != "no_processes":
                    raise
                if loop.time() > deadline:
                    raise Refusal(503, refusal.code, NO_ROOM) from refusal
            await kill_all(self._at_work, self._reaper.reap, seconds=ROOM_DEADLINE_SECONDS, at_any_price=False)
            await asyncio.sleep(ROUND_SECONDS)

    def _at_work(self) -> list[int]:
        """Heads of the families that a caller still waits for."""
        kernel = [] if self.kernel.pid is None else [self.kernel.pid]
        return [*kernel, *self._list_spared()]

    def discard(self, upload: Upload | Batch) -> None:
        """Forget an upload whose sender is gone."""
        self._threads.submit(upload.abort)

    async def close(self) -> None:
        """Kill every process of the sandbox."""
        for each in self._seconds():
            await each.close_bridge()
        await kill_all(lambda: (), self._reaper.reap)


async def _kill(kernel: BridgedKernel) -> None:
    if not kernel.kill():
        raise Refusal(409, "no_kernel", "no such kernel is running")
    for _ in range(REAP_ROUNDS):
        if kernel.pid is None:
            break
        await asyncio.sleep(ROUND_SECONDS)
