"""Looks at what a sandbox holds in memory while code runs in it, so that somebody can act before memory runs out.

The kernel of the host says when memory passes a share of the limit, where it can (cgroup v1). It counts the pages of
files, which run out for nobody, so what is held is asked for then; and again and again, four times a second, while the
pages of files hide the next event, or where no events can be had. While no code runs nothing is asked. A sandbox makes
events as fast as it allocates: after each the next is not listened to for a moment, or until code runs again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, poll
from typing import Final, TypeAlias

from kernels.cancelling import cancel_all
from kernels.errors import KernelsError
from kernels.sandbox import SandboxRuntime, SandboxUsage

log = logging.getLogger(__name__)

POLL_SECONDS: Final = 0.25
"""Between two looks that no event has asked for."""
EVENT_SECONDS: Final = 0.02
"""Between the last look and one that an event asks for: pages of files may pass a share of the limit over and over.

As long no event is listened to after one.
"""
LOOK_SECONDS: Final = 5.0
"""How long one look may take."""
EVENT_BYTES: Final = 4_096

OnUse: TypeAlias = Callable[[SandboxUsage, bool], None]


class MemoryWatch:
    """Of one sandbox. `open` once, then `begin` and `end` around what runs; everything is on the loop."""

    def __init__(self, runtime: SandboxRuntime, sandbox_id: str) -> None:
        self._runtime = runtime
        self._sandbox_id = sandbox_id
        self._lowest = 0
        self._event: int | None = None
        self._unread = poll()
        """Whether the event has come and was not read yet."""
        self._listening = False
        self._pause: asyncio.TimerHandle | None = None
        """Until events are listened to again while code runs."""
        self._on_use: OnUse | None = None
        """What is told while code runs."""
        self._near = True
        """Whether what is held may be past a share already: no event would say so."""
        self._hidden = False
        """Whether the pages of files alone are past it, or were: events come for them, and none for the rest."""
        self._again = False
        """Whether there was an event during a look."""
        self._crossings = 0
        self._looked = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self._closed = False
        self._percents: tuple[int, ...] = ()

    async def open(self, percents: tuple[int, ...]) -> None:
        """Have the kernel say when memory passes one of these shares of its limit, if it can."""
        self._percents, self._lowest = percents, min(percents)
        if self._event is not None:
            return
        try:
            event = await self._runtime.watch_memory(self._sandbox_id, percents)
        except (KernelsError, OSError) as error:
            log.debug("memory_is_polled %s: %s", self._sandbox_id, error)
            return
        if self._closed or self._event is not None:
            os.close(event)
            return
        self._event = event
        self._unread = poll()
        self._unread.register(event, POLLIN)
        self._listen()

    async def prepare(self, percents: tuple[int, ...]) -> SandboxUsage:
        """`open`, and look once: the first code then need not ask. What it uses now; raises as `usage` does."""
        if percents:
            await self.open(percents)
        before = self._crossings
        usage = await self._runtime.usage(self._sandbox_id)
        if self._event is not None and self._crossings == before:
            self._compare(usage)
        return usage

    @property
    def crossings(self) -> int | None:
        """How often memory is known to have passed a share; None where it may have done so unseen."""
        if self._event is None or self._near or self._hidden:
            return None
        return None if self._unread.poll(0) else self._crossings

    def begin(self, on_use: OnUse) -> None:
        """Code runs from now. `on_use` gets each look, and whether it is of what there was when this code began."""
        self._on_use = on_use
        self._listen()
        if self._near:
            self._look(began=True)
        elif self._hidden or self._event is None:
            self._look_in(POLL_SECONDS)

    def end(self) -> None:
        """The code has ended: what is still to come is told to nobody."""
        self._on_use = None
        for each in (self._timer, self._pause):
            if each is not None:
                each.cancel()
        self._timer = self._pause = None

    async def aclose(self) -> None:
        self._closed = True
        self.end()
        self._stop_events()
        if self._looking is not None:
            await cancel_all([self._looking])

    async def renew(self) -> None:
        """Watch another control group: the sandbox was restored, and the last one's memory is nobody's any more."""
        if self._percents and not self._closed:
            self._stop_events()
            await self.open(self._percents)

    def _stop_events(self) -> None:
        self._stop_listening()
        event, self._event = self._event, None
        if event is not None:
            os.close(event)

    def _listen(self) -> None:
        """An event that came meanwhile is there to be read."""
        self._pause = None
        if self._event is not None and not self._listening:
            self._listening = True
            asyncio.get_running_loop().add_reader(self._event, self._take_event)

    def _stop_listening(self) -> None:
        if self._event is not None and self._listening:
            self._listening = False
            asyncio.get_running_loop().remove_reader(self._event)

    def _take_event(self) -> None:
        if self._event is None:
            return
        self._stop_listening()
        if self._on_use is not None:
            self._pause = asyncio.get_running_loop().call_later(EVENT_SECONDS, self._listen)
        try:
            if not os.read(self._event, EVENT_BYTES):  # none comes any more
                self._stop_events()
        except BlockingIOError:
            return
        except OSError:
            self._stop_events()
        self._near = True
        self._crossings += 1
        if self._on_use is None:
            return
        if self._looking is not None:
            self._again = True
        else:
            self._look_in(EVENT_SECONDS - (asyncio.get_running_loop().time() - self._looked))

    def _look_in(self, seconds: float) -> None:
        """The sooner of this look and the one that is due."""
        loop = asyncio.get_running_loop()
        when = loop.time() + max(seconds, 0)
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._look)

    def _look(self, *, began: bool = False) -> None:
        self._timer = None
        if self._looking is None and not self._closed:
            self._looking = asyncio.get_running_loop().create_task(self._ask(self._on_use, began=began))

    async def _ask(self, on_use: OnUse | None, *, began: bool) -> None:
        loop = asyncio.get_running_loop()
        self._looked, self._again = loop.time(), False
        try:
            usage: SandboxUsage | None = None
            with suppress(KernelsError, TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    usage = await self._runtime.usage(self._sandbox_id)
            if usage is not None:
                self._compare(usage)
                if on_use is not None and on_use is self._on_use:
                    on_use(usage, began)
        finally:
            self._looking = None
            self._go_on(began=on_use is not self._on_use)

    def _compare(self, usage: SandboxUsage) -> None:
        share = usage.memory_limit_bytes * self._lowest // 100
        self._near = self._again or usage.memory_held_bytes >= share
        self._hidden = usage.memory_bytes >= share

    def _go_on(self, *, began: bool) -> None:
        """The next look while code runs; other code than that of the last look gets its first one now."""
        if self._on_use is None or self._closed:
            return
        if began and self._near:
            self._look(began=True)
        elif self._again:
            self._look_in(EVENT_SECONDS)
        elif self._near or self._hidden or self._event is None:
            self._look_in(POLL_SECONDS)
