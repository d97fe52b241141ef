"""Why a kernel or its sandbox ended: from what the guest says and what the control group counts to a `Death`.

The control group counts every process that memory has cost, and does not say which. So the count is read while the
kernel is known to live: what was counted by then were others, children of its code and commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from kernels.cancelling import cancel_all
from kernels.errors import DeadlineExceeded, Death, KernelsError
from kernels.guest_client.client import KernelExit
from kernels.sandbox import SandboxUsage

log = logging.getLogger(__name__)

GLOBALS_GONE: Final = "its globals are gone"
ALL_GONE: Final = "every global and /tmp are gone"
_MEGABYTE: Final = 1024 * 1024
PAUSE_SECONDS: Final = 0.25
"""Between two readings of the count: it takes longer than that to fill a sandbox's memory."""
FRESH_SECONDS: Final = 0.1
"""A reading that takes longer may already count the kernel."""
SILENT_SECONDS: Final = 1.0
"""A guest that passes on what floods it is in the middle of a message again and again, and in each for a moment."""
ANSWER_SECONDS: Final = 10.0
"""How long one reading may take. A death that is not explained by then is reported as if memory had no part in it."""


class MemoryKills:
    """The count when the kernel was last known to live; `usage` reads it and raises `KernelsError`.

    `crossings` says how often memory has come near its limit, before which nothing is killed; None where nobody knows.
    """

    def __init__(
        self,
        usage: Callable[[], Awaitable[SandboxUsage]],
        crossings: Callable[[], int | None] = lambda: None,
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._usage = usage
        self._crossings = crossings
        self._answer_seconds = answer_seconds
        self._counted = 0
        self._counted_at: int | None = None
        """After how many crossings."""
        self._read_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """The kernel has just been connected."""
        with contextlib.suppress(KernelsError):
            self._counted = (await self._measure()).oom_kills

    def note(self, counted: int) -> None:
        """So many were counted a moment ago, and the kernel lives."""
        self._counted, self._counted_at = counted, self._crossings()

    def note_life(self) -> None:
        """The kernel lives now. Reads in a task of its own, not again so soon, and not while memory stays far away."""
        if time.monotonic() - self._read_at < PAUSE_SECONDS:
            return
        crossings = self._crossings()
        if crossings is not None and crossings == self._counted_at:
            return
        if self._reading is None or self._reading.done():
            self._read_at = time.monotonic()
            self._reading = asyncio.get_running_loop().create_task(self._read())

    def explain_one(self) -> None:
        """One of them has been reported; the next is another's."""
        self._counted += 1

    async def since(self) -> SandboxUsage | None:
        """What the sandbox uses, if memory has cost it a process since; raises `KernelsError`."""
        if self._reading is not None:  # it may have been of a kernel that lived, and be older than this one's death
            await asyncio.wait({self._reading}, timeout=self._answer_seconds)
        usage = await self._measure()
        return usage if usage.oom_kills > self._counted else None

    async def aclose(self) -> None:
        if self._reading is not None:
            await cancel_all([self._reading])

    async def _measure(self) -> SandboxUsage:
        try:
            async with asyncio.timeout(self._answer_seconds):
                return await self._usage()
        except TimeoutError:
            log.warning("memory_kills_not_read within %g s", self._answer_seconds)
            raise DeadlineExceeded(f"the sandbox's memory was not told within {self._answer_seconds:g} s") from None

    async def _read(self) -> None:
        began, crossings = time.monotonic(), self._crossings()
        with contextlib.suppress(KernelsError):
            counted = (await self._measure()).oom_kills
            if time.monotonic() - began < FRESH_SECONDS:
                self._counted, self._counted_at = counted, crossings


async def kernel_death(gone: KernelExit, kills: MemoryKills, lost: str = GLOBALS_GONE) -> Death:
    """Why a kernel ended: the guest knows code and signal, the control group whether memory ran out.

    `lost` says what it took with it, as for the next.
    """
    if gone.signal == "SIGKILL":
        with contextlib.suppress(KernelsError):
            usage = await kills.since()
            if usage is not None:
                return _memory_death(usage, "the kernel was killed because the sandbox", lost)
    if gone.signal is not None:
        return Death("signal", f"the kernel was ended by {gone.signal}; {lost}", signal=gone.signal)
    detail = f"the kernel exited with status {gone.exit_code}; {lost}"
    return Death("exit", detail, exit_code=gone.exit_code)


async def sandbox_death(kills: MemoryKills, lost: str = ALL_GONE) -> Death:
    """Why the sandbox ended; its control group outlives it. A gVisor sandbox runs out of memory as a whole."""
    with contextlib.suppress(KernelsError):
        usage = await kills.since()
        if usage is not None:
            return _memory_death(usage, "the sandbox was killed because it", lost)
    return Death("sandbox", f"the sandbox ended: its first process is gone; {lost}")


def silent_death(seconds: float, lost: str = ALL_GONE) -> Death:
    """A sandbox that was given up: whatever its guest is at, nobody can use it."""
    why = f"its first process runs but did not answer for {seconds:.0f} s"
    return Death("sandbox", f"the sandbox was given up: {why}; {lost}")


def deadline_death(timeout_seconds: float, grace_seconds: float, lost: str, silent_seconds: float = 0.0) -> Death:
    """Code that did not stop, or whose end was not heard: its guest has been in the middle of a message for so long."""
    silent = silent_seconds >= SILENT_SECONDS
    heard = f"; its guest stopped in the middle of a message {silent_seconds:.0f} s ago" if silent else ""
    return Death(
        "deadline",
        f"the code ran past its timeout of {timeout_seconds:g} s and did not stop within {grace_seconds:g} s of an"
        f" interrupt, so its kernel was killed{heard}; {lost}",
        signal="SIGKILL",
    )


def _memory_death(usage: SandboxUsage, who: str, lost: str) -> Death:
    return Death(
        "oom",
        f"{who} used all of its {usage.memory_limit_bytes // _MEGABYTE} MB of memory; {lost}",
        signal="SIGKILL",
        memory_limit_bytes=usage.memory_limit_bytes,
        memory_peak_bytes=usage.memory_peak_bytes,
    )
