"""An object read as it comes: one request for all of it, and where that breaks off another one for the rest.

Nothing is held in memory but what the reader's own buffer and the system's hold; a reader that stands still keeps
nobody else from reading, and goes on by a new request when the server has closed its connection meanwhile.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from workspace_sync.errors import StoreUnavailable
from workspace_sync.s3_store_stretch import Stretch

ATTEMPTS = 3
"""Requests for the rest of an object that may break off in a row, without a byte."""


class ObjectReader(io.RawIOBase):
    """The bytes from `offset` to `end`, the first of which `stretch` brings; `ask(offset, size)` gets another one."""

    def __init__(self, stretch: Stretch, offset: int, end: int, ask: Callable[[int, int], Stretch]) -> None:
        super().__init__()
        self._stretch: Stretch | None = stretch
        self._at = offset
        self._end = end
        self._ask = ask

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes, none at the end. Raises `StoreUnavailable` when the store gives no more of them."""
        for _ in range(ATTEMPTS if self._at < self._end else 0):
            if self._stretch is None:
                self._stretch = self._ask(self._at, self._end - self._at)
            if taken := self._stretch.readinto(buffer):
                self._at += taken
                return taken
            self._let_go()
        if self._at < self._end:
            raise StoreUnavailable("an object breaks off before its end; it is read again")
        return 0

    def rest(self) -> bytearray:
        """All that is left, in memory."""
        data = bytearray(max(self._end - self._at, 0))
        with memoryview(data) as view:
            filled = 0
            while filled < len(data):
                filled += self.readinto(view[filled:])
        return data

    def close(self) -> None:
        self._let_go()
        super().close()

    def _let_go(self) -> None:
        if self._stretch is not None:
            self._stretch.close()
            self._stretch = None
