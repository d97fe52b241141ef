"""Room on the host's disk: work that needs some is refused below the reserve."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from kernel_gateway.errors import NoSpace

PATIENCE_SECONDS: Final = 3.0
"""How long a start waits: what a process that was just killed held is freed a moment after its end."""
_PAUSE_SECONDS: Final = 0.05


class DiskRoom:
    """The disk under `directory`, of which `reserve_bytes` stay free."""

    def __init__(self, directory: str, reserve_bytes: int) -> None:
        self._directory = directory
        self._reserve_bytes = reserve_bytes

    def require(self, size: int = 0) -> None:
        """Raises NoSpace when less is free than the reserve and `size` bytes."""
        found = os.statvfs(self._directory)
        free = found.f_bavail * found.f_frsize
        if free < self._reserve_bytes + size:
            raise NoSpace(
                f"the host's disk is full: {free:,} bytes are free, {self._reserve_bytes:,} are held back",
                free_bytes=free,
            )

    async def wait(self) -> None:
        """As `require`, but with some patience for what was just killed or removed to be freed."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    try:
                        return self.require()
                    except NoSpace:
                        await asyncio.sleep(_PAUSE_SECONDS)
        except TimeoutError:
            return self.require()
