"""Room in the host's memory: a session starts only where there is some, by what the others really use."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from kernel_gateway.errors import NoMemory

START_BYTES: Final = 64 << 20
"""What a sandbox takes until its first code has run."""
RELIEVE_SECONDS: Final = 30.0
"""How long a start waits for idle sessions to give up theirs."""
RETRY_SECONDS: Final = 10.0


class MemoryRoom:
    """The host's memory, of which `reserve_bytes` stay available.

    `relieve(enough)` makes room until there is enough; `held()` says how many sessions hold how many bytes of it.
    """

    def __init__(
        self,
        reserve_bytes: int,
        available: Callable[[], int],
        *,
        relieve: Callable[[Callable[[], bool]], Awaitable[None]],
        held: Callable[[], tuple[int, int]],
    ) -> None:
        self._reserve_bytes = reserve_bytes
        self._available = available
        self._relieve = relieve
        self._held = held
        self._promised = 0

    @asynccontextmanager
    async def start(self) -> AsyncIterator[None]:
        """For as long as a sandbox starts: what it will take counts as taken. Raises NoMemory."""
        if not self.has_room():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELIEVE_SECONDS):
                    await self._relieve(self.has_room)
        if not self.has_room():
            raise self._make_error()
        self._promised += START_BYTES
        try:
            yield
        finally:
            self._promised -= START_BYTES

    def has_room(self) -> bool:
        """Whether one more sandbox may start now."""
        if not self._reserve_bytes:
            return True
        return self._available() >= self._reserve_bytes + self._promised + START_BYTES

    def _make_error(self) -> NoMemory:
        available, (sessions, held) = self._available(), self._held()
        return NoMemory(
            f"the host's memory is full: {available:,} bytes are available, {self._reserve_bytes:,} are held back, and"
            f" {sessions:,} sessions hold {held:,}",
            retry_after_seconds=RETRY_SECONDS,
            available_bytes=available,
            reserve_bytes=self._reserve_bytes,
            held_bytes=held,
            holding_sessions=sessions,
        )
