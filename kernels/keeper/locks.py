"""Locks that the kernel lets go of when their holder dies: one file per sandbox, and one for taking turns.

A sandbox whose file is not locked has lost its keeper.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from kernels.errors import DeadlineExceeded

_TURN: Final = "turn"
_TURN_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.02


class Locks:
    """The locks of one directory; what this process holds is let go of one by one, or all at its end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, int] = {}

    def names(self) -> set[str]:
        """Every sandbox that has a file here, locked or not."""
        return {path.name for path in self._directory.glob("*-*-*-*-*")}

    def hold(self, name: str) -> None:
        """Lock what is this process's own; raises BlockingIOError when it is another's."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self._directory / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        self._held[name] = descriptor

    def take_over(self, name: str) -> bool:
        """Lock a file that an earlier keeper made; False while its holder lives, be it this process."""
        if name in self._held:
            return False
        try:
            self.hold(name)
        except BlockingIOError:
            return False
        return True

    def release(self, name: str) -> None:
        """Let go, and forget that there was such a lock."""
        (self._directory / name).unlink(missing_ok=True)
        descriptor = self._held.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """One keeper at a time makes or removes what all share; raises `DeadlineExceeded`."""
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                while not self.take_over(_TURN):  # noqa: ASYNC110 - another process has it
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise DeadlineExceeded(f"another keeper did not finish its turn within {_TURN_SECONDS:g} s") from None
        try:
            yield
        finally:
            os.close(self._held.pop(_TURN))  # the file stays: who waits has it open
