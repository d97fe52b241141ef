"""Where the memory of one sandbox is: resident, or in swap with all of the sandbox stopped, or saved to its disk.

A stopped sandbox answers nothing, so what speaks with it says so first: it finds `wake` of this object wherever it
sends something, which is None while the sandbox runs. Waking cuts a move short that is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, Literal

from kernels.cancelling import cancel_all
from kernels.errors import SandboxGone
from kernels.sandbox import PagedOut, SandboxRuntime

Memory = Literal["resident", "paged_out"]
MOST_WAKING: Final = 2
"""Sandboxes that take their memory back at a time while the host is short of it."""
WAKING_SECONDS: Final = 1.0
"""How long one counts as doing so from when it goes on: its memory comes back as it is used."""
LONGEST_TURN_SECONDS: Final = 10.0
"""How long one waits for the others; then it goes on beside them."""

_LET_GO: Final = "the service let go of this sandbox"
IN_USE: Final = PagedOut(0, "the sandbox is in use")


class WakingTurns:
    """While the host is short of memory few sandboxes go on at a time.

    Each takes back what it holds, and many at once would push each other's out again. `is_short` is asked at each use.
    """

    def __init__(self, is_short: Callable[[], bool]) -> None:
        self._is_short = is_short
        self._places = asyncio.Semaphore(MOST_WAKING)

    async def wait(self) -> None:
        """Return when one more may go on."""
        if not self._is_short():
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_TURN_SECONDS):
                await self._places.acquire()
                asyncio.get_running_loop().call_later(WAKING_SECONDS, self._places.release)


class Residence:
    """`on_change` is called before the sandbox may stop and after it goes on, as `stopped` says; it returns at once."""

    def __init__(
        self,
        runtime: SandboxRuntime,
        sandbox_id: str,
        on_change: Callable[[], None],
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`prepare` is awaited before the runtime is asked to save the sandbox; what it raises keeps that running."""
        self.saving = False
        """Whether it stops to be saved: all connections with it end then, and are made again as it goes on."""
        self.memory: Memory = "resident"
        self.stopped = False
        """Whether the sandbox stands still, or may: what is sent to it waits until it is woken."""
        self._runtime = runtime
        self._sandbox_id = sandbox_id
        self._on_change = on_change
        self._prepare = prepare
        self._moving: asyncio.Task[PagedOut] | None = None
        self._waking: asyncio.Task[None] | None = None
        self.turns: WakingTurns | None = None
        """Those of all sandboxes of this host, where it has any."""
        self._closed = False

    async def save(self) -> PagedOut:
        """The same as `page_out`, with its processes saved and ended."""
        return await self.page_out(save=True)

    async def page_out(self, *, save: bool = False) -> PagedOut:
        """Stop the sandbox and move its memory; it runs on when nothing was moved or somebody wanted it meanwhile."""
        if self.stopped:
            return IN_USE
        self.stopped, self.saving = True, save
        self._on_change()
        moving = self._moving = asyncio.ensure_future(self._move())
        try:
            await asyncio.wait({moving})  # the runtime's verbs have deadlines of their own
            if moving.cancelled():  # the sandbox was let go meanwhile
                return IN_USE
            moved = moving.result()
        except BaseException:
            self.wake()
            raise
        wanted = self._waking is not None  # by somebody meanwhile; that ends with a thaw after this move
        if moved.moved_bytes and not wanted:
            self.memory = "paged_out"
            return moved
        await self.awake()
        return IN_USE if wanted else moved

    async def _move(self) -> PagedOut:
        if not self.saving:
            return await self._runtime.page_out(self._sandbox_id)
        if self._prepare is not None:
            await self._prepare()
        if self._waking is not None:  # wanted meanwhile: this one may be wanted for long
            return IN_USE
        return await self._runtime.save(self._sandbox_id)

    def wake(self) -> None:
        """Have the sandbox go on; returns at once."""
        if self.stopped and self._waking is None and not self._closed:
            self._waking = asyncio.ensure_future(self._wake())
            self._waking.add_done_callback(_retrieve)

    async def awake(self) -> None:
        """Return when the sandbox runs. Raises what the runtime raises, `SandboxGone` of one that was let go.

        After a failure the next call tries again.
        """
        while self.stopped:  # again when it was stopped once more before this caller went on
            self.wake()
            waking = self._waking
            if waking is None:
                raise SandboxGone(_LET_GO)
            await asyncio.wait({waking})
            if waking.cancelled():
                raise SandboxGone(_LET_GO)
            waking.result()

    async def aclose(self) -> None:
        """Let go of the sandbox as it is; who waits for it hears that."""
        self._closed = True
        await cancel_all([task for task in (self._moving, self._waking) if task is not None])

    async def _wake(self) -> None:
        moving = self._moving if self._moving is not None and not self._moving.done() else None
        try:
            if self.turns is not None and self.memory == "paged_out":
                await self.turns.wait()
            await self._runtime.thaw(self._sandbox_id)
            if moving is not None:
                # The two may be taken in another order than they were asked for: it is thawed again after the move.
                await asyncio.wait({moving})
                await self._runtime.thaw(self._sandbox_id)
            self.stopped, self.memory, self._moving = False, "resident", None
            self._on_change()
            self.saving = False
        finally:
            self._waking = None


def _retrieve(task: asyncio.Task[None]) -> None:
    """Those who wait hear of a failure; the next use tries again."""
    if not task.cancelled():
        task.exception()
