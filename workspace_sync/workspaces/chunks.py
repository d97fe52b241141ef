"""A stream's bytes piece by piece, read in one thread at a time and closed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from workspace_sync.store import CHUNK_BYTES


class Chunks(Iterator[bytes]):
    """A file's bytes, piece by piece; closed at its end, on error, or by `close`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __next__(self) -> bytes:
        try:
            piece = b"" if self._stream.closed else self._stream.read(CHUNK_BYTES)
        except BaseException:
            self.close()
            raise
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Let go of the stream; safe to call again."""
        self._stream.close()
