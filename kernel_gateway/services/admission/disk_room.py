"""Room on the host's disk: work that needs some is refused below the reserve."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from kernel_gateway.errors import NoSpace

PATIENCE_SECONDS: Final = 3.0
"""How long a start waits: what a process that was just killed held is freed a moment after its end."""
_PAUSE_SECONDS: Final = 0.05


def require_room(directory: str, reserve_bytes: int, size: int = 0) -> None:
    """Raises NoSpace when the disk under `directory` has less free than the reserve and `size` bytes."""
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize
    if free < reserve_bytes + size:
        raise NoSpace(
            f"the host's disk is full: {free:,} bytes are free, {reserve_bytes:,} are held back", free_bytes=free
        )


async def await_room(directory: str, reserve_bytes: int) -> None:
    """As `require_room`, once there has been a moment for it."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                try:
                    return require_room(directory, reserve_bytes)
                except NoSpace:
                    await asyncio.sleep(_PAUSE_SECONDS)
    except TimeoutError:
        return require_room(directory, reserve_bytes)
