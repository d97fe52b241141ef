"""An object read in ranges, the next ones on their way while one is consumed.

Ranges ahead are held in memory, so few for all readers of a store together; a reader for which there is no place reads
without: a slow consumer keeps nobody else from reading.
"""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from workspace_sync.errors import StoreUnavailable
from workspace_sync.s3_store_requests import Piece

RANGE_BYTES = 2 << 20
"""One range; a reader holds one."""
RANGES_AHEAD = 4
"""Ranges fetched ahead of their readers, for one store."""
WAIT_SECONDS = 900.0
"""Longer than a request with all its attempts takes."""


class RangeReader(io.RawIOBase):
    """The bytes after `first`, which begins at `offset`, up to `end`. `fetch(offset, size)` gets a piece."""

    def __init__(
        self,
        first: Piece,
        offset: int,
        end: int,
        fetch: Callable[[int, int], Piece],
        *,
        executor: Executor,
        places: threading.Semaphore,
    ) -> None:
        super().__init__()
        self._piece = memoryview(first.data)
        self._asked = self._at = offset + len(first.data)
        self._end = end
        self._fetch = fetch
        self._executor = executor
        self._places = places
        self._ahead: deque[Future[Piece]] = deque()
        self._look_ahead()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._piece and self._at < self._end:
            self._piece = memoryview(self._next().data)
            self._at += len(self._piece)
            if not self._piece:
                raise StoreUnavailable("an object ended before its end; it is read again")
            self._look_ahead()
        taken = min(len(buffer), len(self._piece))
        buffer[:taken] = self._piece[:taken]
        self._piece = self._piece[taken:]
        return taken

    def close(self) -> None:
        while self._ahead:
            future = self._ahead.popleft()
            future.cancel()
            future.add_done_callback(lambda _: self._places.release())
        self._piece = memoryview(b"")
        super().close()

    def _next(self) -> Piece:
        if self._ahead:
            try:
                return self._ahead.popleft().result(WAIT_SECONDS)
            except TimeoutError as error:
                raise StoreUnavailable("an object takes too long to come; it is read again") from error
            finally:
                self._places.release()
        size = self._size()
        self._asked += size
        return self._fetch(self._asked - size, size)

    def _size(self) -> int:
        return min(RANGE_BYTES, self._end - self._asked)

    def _look_ahead(self) -> None:
        while (size := self._size()) > 0 and len(self._ahead) < RANGES_AHEAD // 2:
            if not self._places.acquire(blocking=False):
                return
            try:
                future = self._executor.submit(self._fetch, self._asked, size)
            except BaseException:
                self._places.release()
                raise
            self._ahead.append(future)
            self._asked += size
