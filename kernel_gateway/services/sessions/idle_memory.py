"""Sessions that have been idle give up the machine's memory: their sandboxes are stopped, what they hold goes to swap.

The one that was used longest ago goes first. The next use of a session has its sandbox go on, which is not done here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

import structlog

from kernel_gateway.services.clock import Clock
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernels.errors import KernelsError
from kernels.host_memory import HostMemory
from kernels.sandboxed.residence import IN_USE

log = structlog.get_logger(__name__)
CHECK_SECONDS: Final = 5.0
"""Between two looks at which sessions are idle, and at the machine's memory; less where sessions are idle sooner."""
LEAST_SECONDS: Final = 0.1
REFUSED: Final = 3
"""Sessions that swap has no room for, after which one look gives up."""
RETRY_SECONDS: Final = 300.0
"""After which an idle session that could not be paged out is tried again: there may be swap by then, or less load."""
UNDER_PRESSURE: Final = 8
"""Sessions that are paged out after one look that found the machine short of memory; the next look sees what it did."""


class IdleMemory:
    """`run` for as long as the service lives; `relieve` when memory is wanted at once."""

    def __init__(self, *, settings: Settings, clock: Clock, registry: Registry, host: HostMemory) -> None:
        self._settings = settings
        self._clock = clock
        self._registry = registry
        self._host = host
        self._short = False
        """Whether swap had no room for the last one."""
        self._paging = asyncio.Lock()
        """One at a time: the disk below the swap is one."""

    async def run(self) -> None:
        """Look again and again; a look that fails is logged and the next one comes."""
        pause = max(min(self._settings.idle_memory_seconds / 2 or CHECK_SECONDS, CHECK_SECONDS), LEAST_SECONDS)
        while True:
            await self._clock.sleep(pause)
            try:
                await self.look()
            except Exception as error:
                log.error("idle_memory_failed", exc_info=error)

    async def look(self) -> None:
        """Page out who has been idle for long enough, and more while the machine is short of memory."""
        seconds = self._settings.idle_memory_seconds
        if not seconds or not self._host.has_swap():
            return
        since = self._clock.now() - seconds
        await self._page_out(lambda live: live.last_activity <= since)
        pressure, most = self._host.pressure_percent(), self._settings.memory_pressure_percent
        short = self._host.available_bytes() < self._settings.memory_reserve_bytes
        if short or (most and pressure >= most):
            moved = await self._page_out(lambda _live: True, most=UNDER_PRESSURE)
            log.warning("memory_pressure", some_percent=pressure, short=short, paged_out=moved)

    async def relieve(self, enough: Callable[[], bool]) -> None:
        """Page out idle sessions, whatever their idle time, until there is enough or none is left."""
        if self._settings.idle_memory_seconds and self._host.has_swap():
            await self._page_out(lambda _live: not enough())

    def held(self) -> tuple[int, int]:
        """How many sessions hold memory, and how much, by what was measured of each last."""
        resident = [live for live in self._registry if live.sandbox.memory == "resident"]
        return len(resident), sum(live.sandbox.meter.last.memory_bytes for live in resident)

    async def _page_out(self, wanted: Callable[[LiveSession], bool], *, most: int | None = None) -> int:
        """Those that are wanted and may be, the one that was used longest ago first; says how many."""
        moved = refused = 0
        async with self._paging:
            for live in sorted(self._registry, key=lambda each: each.last_activity):
                if moved == most or refused == REFUSED:
                    break
                self._note_use(live)
                if not wanted(live) or not may_be_stopped(live):
                    continue
                why = await self._page_out_one(live, partial(_is_still, live, wanted))
                if why is None:
                    moved += 1
                    self._short = False
                elif why != IN_USE.why:
                    refused += 1  # a smaller one may still find room: at the next look it is another's turn
                    live.keep_resident(RETRY_SECONDS)
                    if not self._short:  # said once, not at every look
                        log.warning("not_paged_out", session=live.id, why=why)
                    self._short = True
        return moved

    def _note_use(self, live: LiveSession) -> None:
        """Keep one that was woken resident for a while: reading its files is no activity, and may be done often."""
        if live.paged_out and live.sandbox.memory == "resident":
            live.paged_out = False
            live.keep_resident(self._settings.idle_memory_seconds)

    async def _page_out_one(self, live: LiveSession, still_idle: Callable[[], bool]) -> str | None:
        """None when it was paged out; else why not."""
        kernel = live.sandbox.kernel
        if kernel is None:
            return IN_USE.why
        try:
            moved = await kernel.page_out(still_idle)
        except (KernelsError, OSError) as error:  # of this one; the next may be fine
            live.keep_resident(RETRY_SECONDS)
            log.warning("not_paged_out", session=live.id, why=str(error))
            return IN_USE.why
        if not moved.moved_bytes:
            return moved.why
        live.paged_out = True
        log.info("paged_out", session=live.id, moved_bytes=moved.moved_bytes)
        return None


def may_be_stopped(live: LiveSession) -> bool:
    """Whether nothing goes on in a session that anybody has asked for or waits for, as far as this process knows."""
    sandbox = live.sandbox
    if live.ending is not None or live.row.record.keep_awake or live.busy or live.looking or live.held is not None:
        return False
    if live.kept_resident:
        return False
    if sandbox.memory != "resident" or sandbox.live_generation is None or not sandbox.workspace_ready:
        return False
    if live.audience is not None and live.audience.connections:
        return False
    return sandbox.mirror is not None and not sandbox.mirror.state.pending


def _is_still(live: LiveSession, wanted: Callable[[LiveSession], bool]) -> bool:
    return wanted(live) and may_be_stopped(live)
