"""Gives back what code has freed, once nothing runs: the C library would keep most of it for the next code.

After a mix of work with pandas that is more than half of what a kernel holds. Nothing is given back while code runs,
which would pay for it with page faults, nor between cells that follow each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

PAUSE_SECONDS = 1.0
"""How long no code has run by then."""


def find_trim() -> Callable[[int], int] | None:
    """glibc's `malloc_trim`; None where the C library is another one."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


class FreeMemory:
    """Both methods are for the thread that runs code, and `loop` is that thread's."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._trim = find_trim()
        self._timer: Any = None

    def code_begins(self) -> None:
        """Leave everything as it is."""
        timer, self._timer = self._timer, None
        if timer is not None:
            self._loop.remove_timeout(timer)

    def code_ended(self) -> None:
        """Give back what is free, unless other code begins soon."""
        if self._trim is not None:
            self.code_begins()
            self._timer = self._loop.call_later(PAUSE_SECONDS, self._trim, 0)
