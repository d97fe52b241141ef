"""Acts before a session's memory runs out: says so while code runs, and interrupts code before its kernel is killed.

`MemoryWatch` looks; here is decided what follows. Code that begins when memory is short already, as to delete
variables, is left alone until it holds more than before. What the kernel names as its largest variables is believed in
form alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Final, Literal

import msgspec
import structlog

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.background import Background
from kernel_gateway.services.environments.egress import Find
from kernel_gateway.services.results.jobs import Job
from kernels.environment import MemoryLevels
from kernels.errors import KernelsError
from kernels.execution import variables
from kernels.languages import PYTHON
from kernels.sandbox import SandboxUsage
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.executions import LargeVariable, MemoryShortage

log = structlog.get_logger(__name__)

MOST_NAMED: Final = 5
"""Largest variables that are named."""
LONGEST_NAME: Final = 100
"""Characters of a variable's name and of its type's, each."""
TELL_SECONDS: Final = 1.0
"""How long the kernel has to name its variables: code that holds the interpreter's lock keeps it from answering."""
SETTLE_SECONDS: Final = 2.0
"""How long the end of an execution waits for what is being said of it."""
PAUSE_SECONDS: Final = 1.0
"""Between two interrupts of code that goes on."""
GROWTH_PERCENT: Final = 1
"""Of the limit: how much more code that was left alone, or went on, has to hold before it is interrupted."""
MEGABYTE: Final = 1 << 20
FULL: Final = "the session uses {held:,} MB of its {limit:,} MB of memory"
STOPPED: Final = ": the code was interrupted before the system would have killed its kernel. Variables are kept"
DIED: Final = ": the code was interrupted, and its kernel died all the same"


def describe_end(shortage: MemoryShortage | None, status: str) -> MemoryShortage | None:
    """What there is to say of it once the code has ended with this status: of a kernel that died nothing is kept."""
    if shortage is None or status != "died":
        return shortage
    return msgspec.structs.replace(shortage, detail=shortage.detail.replace(STOPPED, DIED))


class SessionMemory:
    """Of one session. `guard` is around each run of its code."""

    def __init__(
        self, session_id: str, *, find_environment: Find, background: Background, say: Callable[[str], None]
    ) -> None:
        self._session_id = session_id
        self._find_environment = find_environment
        self._background = background
        self._say_to_clients = say
        self._kernel: SandboxedKernel | None = None
        """Whose memory is watched, by these levels."""
        self._levels = MemoryLevels(0, 0)
        self._job: Job | None = None
        self._floor: int | None = None
        """The least that was held since the code was interrupted, or left alone; None before that."""
        self._interrupted_at = float("-inf")
        self._telling: tuple[Job, asyncio.Task[None]] | None = None

    @contextlib.contextmanager
    def guard(self, job: Job, kernel: SandboxedKernel) -> Iterator[None]:
        """Around what a job runs in this kernel."""
        self._job, self._floor, self._interrupted_at = job, None, float("-inf")
        if self._kernel is kernel:
            self._begin(kernel)
        else:
            self._kernel, self._levels = kernel, MemoryLevels(0, 0)
            self._background.spawn(self._open(job, kernel), f"memory of {self._session_id}")
        try:
            yield
        finally:
            self._job = None
            kernel.memory.end()

    async def settle(self, job: Job) -> None:
        """Wait until what was begun to be said of this job is said; a moment, and for most jobs none.

        No interrupt of it reaches the kernel afterwards: the guest lets go of one that comes later.
        """
        if self._telling is None or self._telling[0] is not job:
            return
        telling, self._telling = self._telling[1], None
        await asyncio.wait({telling}, timeout=SETTLE_SECONDS)
        telling.cancel()

    async def _open(self, job: Job, kernel: SandboxedKernel) -> None:
        """The first code of a sandbox runs: find out what holds for it, and watch."""
        try:
            levels = (await self._find_environment()).memory_levels
        except GatewayError as error:
            log.warning("memory_not_watched", session=self._session_id, error=error.code)
            if self._kernel is kernel:
                self._kernel = None  # the next code tries again
            return
        if levels.percents:
            await kernel.memory.open(levels.percents)
        if self._kernel is kernel:
            self._levels = levels
            if self._job is not None:
                self._begin(kernel)

    def _begin(self, kernel: SandboxedKernel) -> None:
        if self._levels.percents:
            kernel.memory.begin(self._take)

    def _take(self, usage: SandboxUsage, began: bool) -> None:  # noqa: FBT001 - a callback's place in the signature
        """Called with each look while the job runs."""
        job, kernel = self._job, self._kernel
        held, limit, levels = usage.memory_held_bytes, usage.memory_limit_bytes, self._levels
        if job is None or kernel is None or limit <= 0:
            return
        if self._floor is not None:
            self._floor = min(self._floor, held)
        if levels.guard_percent and held * 100 >= limit * levels.guard_percent:
            if began:  # of code that has had no time to hold anything
                self._floor = held
            elif self._may_interrupt(held, limit):
                self._floor, self._interrupted_at = held, asyncio.get_running_loop().time()
                self._say(job, kernel, "interrupted", held, limit)
                return
        if job.memory is None and levels.warn_percent and held * 100 >= limit * levels.warn_percent:
            self._say(job, kernel, "warning", held, limit)

    def _may_interrupt(self, held: int, limit: int) -> bool:
        if asyncio.get_running_loop().time() - self._interrupted_at < PAUSE_SECONDS:
            return False
        return self._floor is None or (held - self._floor) * 100 >= limit * GROWTH_PERCENT

    def _say(
        self, job: Job, kernel: SandboxedKernel, level: Literal["warning", "interrupted"], held: int, limit: int
    ) -> None:
        detail = FULL.format(held=held // MEGABYTE, limit=limit // MEGABYTE)
        detail += STOPPED if level == "interrupted" else ""
        before = job.memory
        shortage = MemoryShortage(level, held, limit, detail, [] if before is None else before.largest)
        job.memory = shortage  # at once: the job may end before the kernel has named anything
        earlier = None if self._telling is None else self._telling[1]
        telling = self._tell(job, kernel, shortage, earlier)
        self._telling = job, self._background.spawn(telling, f"memory of {job.row.id}")

    async def _tell(
        self, job: Job, kernel: SandboxedKernel, shortage: MemoryShortage, earlier: asyncio.Task[None] | None
    ) -> None:
        if shortage.level == "interrupted" and self._job is job:
            await self._interrupt(job, kernel, shortage)
        if earlier is not None:
            await asyncio.wait({earlier})  # each has deadlines of its own, and their order is that of the log
        if job.row.runtime == PYTHON:
            shortage.largest = await _find_largest(kernel) or shortage.largest
        log.info("memory_short", session=self._session_id, level=shortage.level, held_bytes=shortage.held_bytes)
        await job.note_memory(shortage)
        self._say_to_clients(f"[{shortage.detail}]\n")

    async def _interrupt(self, job: Job, kernel: SandboxedKernel, shortage: MemoryShortage) -> None:
        try:
            if job.row.runtime == PYTHON:
                await kernel.guest.guard_memory(shortage.held_bytes, shortage.limit_bytes, seconds=SETTLE_SECONDS)
            else:
                await kernel.interrupt()
        except KernelsError as error:  # the kernel may be dead by now: its end says why
            log.warning("memory_guard_failed", session=self._session_id, error=str(error))


async def _find_largest(kernel: SandboxedKernel) -> list[LargeVariable]:
    """The largest variables, if the kernel can name them now."""
    hub = kernel.hub
    if hub is None:
        return []
    try:
        async with asyncio.timeout(TELL_SECONDS):
            found = (await variables.ask(hub)).variables
    except (KernelsError, TimeoutError):
        return []
    sized = sorted((each for each in found if each.size_bytes), key=lambda each: -(each.size_bytes or 0))
    return [
        LargeVariable(each.name[:LONGEST_NAME], each.type[:LONGEST_NAME], each.size_bytes or 0)
        for each in sized[:MOST_NAMED]
    ]
