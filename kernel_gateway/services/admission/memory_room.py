"""Room in the host's memory: a sandbox starts only where there is some, by what the others really use.

While the host does little but wait for memory none starts: there is room only as long as somebody's goes to swap, and
what goes is wanted back at once.
Sandboxes that somebody waits for come first: a pool's starts only where one more would have room beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from kernel_gateway.errors import NoMemory

START_BYTES: Final = 64 << 20
"""What a sandbox takes until its first code has run."""
RELIEVE_SECONDS: Final = 30.0
"""How long a start waits for idle sessions to give up theirs."""
RETRY_SECONDS: Final = 10.0


class MemoryRoom:
    """The host's memory, of which `reserve_bytes` stay available.

    `relieve(enough)` makes room until there is enough; `held()` says how many sessions hold how many bytes of it,
    `stalled()` how many percent of the last seconds all waited for memory, of which `most_stalled` are put up with; 0
    of those: all.
    """

    def __init__(
        self,
        reserve_bytes: int,
        available: Callable[[], int],
        *,
        relieve: Callable[[Callable[[], bool]], Awaitable[None]],
        held: Callable[[], tuple[int, int]],
        stalled: Callable[[], float] = lambda: 0.0,
        most_stalled: float = 0.0,
    ) -> None:
        self._reserve_bytes = reserve_bytes
        self._available = available
        self._relieve = relieve
        self._held = held
        self._stalled = stalled
        self._most_stalled = most_stalled
        self._promised = 0
        self._waiting = 0
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def start(self) -> AsyncIterator[None]:
        """For as long as a sandbox starts: what it will take counts as taken. Raises NoMemory."""
        if self.is_stalled():
            raise self._make_error(f"its programs waited for memory {self._stalled():g} % of the last ten seconds")
        if self._waiting or not self.has_room():  # what is made for those who wait is not for a newcomer
            await self._make_room()
        else:
            self._take()
        try:
            yield
        finally:
            self._promised -= START_BYTES

    @contextmanager
    def start_spare(self) -> Iterator[None]:
        """As `start`, of a sandbox that nobody waits for yet, which `has_room_to_spare` has let in."""
        self._promised += START_BYTES
        try:
            yield
        finally:
            self._promised -= START_BYTES

    def has_room(self) -> bool:
        """Whether one more sandbox may start now."""
        return self._fits(1)

    def has_room_to_spare(self) -> bool:
        """Whether one may start that nobody waits for: another would still have room, and none is short of it."""
        return not self._waiting and self._fits(2) and not self.is_stalled()

    def is_stalled(self) -> bool:
        """Whether the host has done little but wait for memory in the last seconds."""
        return bool(self._most_stalled) and self._stalled() >= self._most_stalled

    async def _make_room(self) -> None:
        """One start at a time: what was made for it is its own before the next one looks. Raises NoMemory."""
        self._waiting += 1
        try:
            async with asyncio.timeout(RELIEVE_SECONDS), self._turn:
                await self._relieve(self.has_room)
                self._take()
        except TimeoutError:
            self._take()
        finally:
            self._waiting -= 1

    def _take(self) -> None:
        if not self.has_room():
            raise self._make_error("none is left to be given up")
        self._promised += START_BYTES

    def _fits(self, starts: int) -> bool:
        if not self._reserve_bytes:
            return True
        return self._available() >= self._reserve_bytes + self._promised + starts * START_BYTES

    def _make_error(self, why: str) -> NoMemory:
        available, (sessions, held) = self._available(), self._held()
        return NoMemory(
            f"the host's memory is full: {why}; {available:,} bytes are available, {self._reserve_bytes:,} are held"
            f" back, and {sessions:,} sessions hold {held:,}",
            retry_after_seconds=RETRY_SECONDS,
            available_bytes=available,
            reserve_bytes=self._reserve_bytes,
            held_bytes=held,
            holding_sessions=sessions,
            stalled_percent=self._stalled(),
        )
