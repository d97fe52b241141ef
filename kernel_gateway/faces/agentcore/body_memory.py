"""Memory for large requests: a budget in bytes that they share, first come, first served.

A JSON body with a file in it has to be there whole before anything can be done with it. So a large one is not read
before there is room for it and for what is decoded from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from kernel_gateway.errors import LimitReached

TURN_SECONDS: Final = 20.0
"""How long a large request waits for its turn: less than clients wait for an answer."""
RETRY_SECONDS: Final = 2.0


class BodyMemory:
    """`reserve` before the body is read. One request alone may always go on, however small the budget is."""

    def __init__(self, limit_bytes: int, turn_seconds: float = TURN_SECONDS) -> None:
        self.limit_bytes = limit_bytes
        self._turn_seconds = turn_seconds
        self._free = limit_bytes
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def held_bytes(self) -> int:
        return self.limit_bytes - self._free

    async def reserve(self, size: int) -> Reservation:
        """Wait for room; raises LimitReached when it does not come in time."""
        size = min(size, self.limit_bytes)
        if self._waiting or size > self._free:
            await self._turn(size)
        else:
            self._free -= size
        return Reservation(self, size)

    async def _turn(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            async with asyncio.timeout(self._turn_seconds):
                await asyncio.shield(turn)
        except BaseException as error:
            if turn.done():
                self.give_back(size)
            else:
                self._waiting.remove((size, turn))
                self.give_back(0)
            if isinstance(error, TimeoutError):
                raise LimitReached(
                    "other large requests are under way; send this one again, or its files one by one",
                    retry_after_seconds=RETRY_SECONDS,
                ) from None
            raise

    def give_back(self, size: int) -> None:
        """Called by reservations: make room, and let those go on whose turn it is."""
        self._free += size
        while self._waiting and self._waiting[0][0] <= self._free:
            wanted, turn = self._waiting.popleft()
            self._free -= wanted
            turn.set_result(None)


class Reservation:
    """Room that one request holds until it is released; releasing it again is fine."""

    def __init__(self, memory: BodyMemory, size: int) -> None:
        self._memory = memory
        self._size = size

    def shrink(self, size: int) -> None:
        """Less is needed from now on."""
        if size < self._size:
            less, self._size = self._size - size, size
            self._memory.give_back(less)

    def release(self) -> None:
        self.shrink(0)
