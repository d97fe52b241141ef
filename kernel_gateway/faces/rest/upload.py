"""A request body on its way into a service, chunk by chunk, held up while the service is busy.

`Upload` joins the reader of the socket (`put`) with the task that consumes it (`chunks`); at most `MOST_CHUNKS` of the
server's 64 KB wait in between. It ends by `finish`, by `abort`, or by the task itself, which may fail early.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic, TypeVar

MOST_CHUNKS = 8
T = TypeVar("T")


class Upload(Generic[T]):
    """`start` gets the chunks and returns the coroutine that consumes them."""

    def __init__(self, start: Callable[[AsyncIterator[bytes]], Coroutine[Any, Any, T]]) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_CHUNKS)
        self.task: asyncio.Task[T] = asyncio.ensure_future(start(self._read_chunks()))
        self.task.add_done_callback(self._release)

    async def put(self, chunk: bytes) -> None:
        """Hand on a chunk; returns at once when the task has ended."""
        if not self.task.done():
            await self._queue.put(chunk)

    async def finish(self) -> T:
        """The body is complete: the consumer's result, or what it raised."""
        if not self.task.done():
            await self._queue.put(None)
        return await self.task

    async def abort(self) -> None:
        """The body will not be completed: the consumer is cancelled and gone when this returns."""
        self.task.cancel()
        await asyncio.wait({self.task})

    async def _read_chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._queue.get()) is not None:
            yield chunk

    def _release(self, task: asyncio.Future[T]) -> None:
        """Let go of a `put` that waits on a consumer which has ended."""
        while not self._queue.empty():
            self._queue.get_nowait()
        if not task.cancelled():
            task.exception()
