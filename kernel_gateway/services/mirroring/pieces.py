"""What comes from the store piece by piece in a thread, as a service hands it on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol, Self

from kernel_gateway.errors import translated
from kernel_gateway.services.mirroring.mirrors import Mirrors


class Source(Protocol):
    """Blocking: the next piece, and the end; closing it again does no harm."""

    def __next__(self) -> bytes: ...

    def close(self) -> None: ...


class Pieces(AsyncIterator[bytes]):
    """The pieces of a source; it is closed at its end, on error, or by `aclose`, which waits for nothing.

    The threads are used on behalf of the owner. `on_close` is called once.
    """

    def __init__(
        self, mirrors: Mirrors, owner: str, source: Source, on_close: Callable[[], None] = lambda: None
    ) -> None:
        self._mirrors = mirrors
        self._owner = owner
        self._source = source
        self._on_close: Callable[[], None] | None = on_close

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            with translated():
                piece: bytes = await self._mirrors.run_durable(self._owner, lambda: next(self._source, b""))
        except BaseException:
            await self.aclose()
            raise
        if not piece:
            await self.aclose()
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Let go of the source, in a thread: one may still be reading it."""
        on_close, self._on_close = self._on_close, None
        if on_close is not None:
            on_close()
        try:
            self._mirrors.apart.submit(self._owner, self._source.close)
        except RuntimeError:  # the service is closing and has no threads any more
            self._source.close()
