"""A clock that a test turns: time passes, and sleepers wake, only by `advance`."""

from __future__ import annotations

import asyncio
import time


class TurnedClock:
    """Starts at the real time, so that what others stamp with theirs is near."""

    def __init__(self) -> None:
        self._now = int(time.time() * 64) / 64  # no sum with it, and no microsecond of it, is ever rounded
        self._turned = asyncio.Event()

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        until = self._now + seconds
        while self._now < until:
            await self._turned.wait()

    def advance(self, seconds: float) -> None:
        self._now += seconds
        self._turned.set()
        self._turned = asyncio.Event()
