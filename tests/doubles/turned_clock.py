"""A clock that a test turns: time passes, and sleepers wake, only by `advance`."""

from __future__ import annotations

import asyncio
import time


class TurnedClock:
    """Starts at the real time, so that what others stamp with theirs is near."""

    def __init__(self) -> None:
        self._start = int(time.time() * 64) / 64  # no sum with it, and no microsecond of it, is ever rounded
        self._passed = self._stepped = 0.0
        self._turned = asyncio.Event()

    def now(self) -> float:
        return self._start + self._passed + self._stepped

    def stepped(self) -> float:
        return self._stepped

    async def sleep(self, seconds: float) -> None:
        until = self._passed + seconds
        while self._passed < until:
            await self._turned.wait()

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._passed += seconds
        self._turned.set()
        self._turned = asyncio.Event()

    def step(self, seconds: float) -> None:
        """Set the wall time forward, or back, as an operator or NTP does: no time passes."""
        self._stepped += seconds
