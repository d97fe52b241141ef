"""Many files as one stream of bytes to a guest, in pieces of bounded size whatever the files hold. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

from kernels.guest.workspace.batch import head

PIECE_BYTES: Final = 256 * 1024

Content = bytes | str
"""A file's content; text is written as UTF-8."""


async def stream(files: Sequence[tuple[str, Content]]) -> AsyncIterator[bytes]:
    """The files one after the other, as `kernels.guest.workspace.batch` takes them."""
    gathered = bytearray()
    for path, content in files:
        gathered += head(path, size_of(content))
        for piece in _pieces(content):
            gathered += piece
            if len(gathered) >= PIECE_BYTES:
                yield bytes(gathered)
                gathered.clear()
    if gathered:
        yield bytes(gathered)


def size_of(content: Content) -> int:
    """How many bytes the file will have."""
    if isinstance(content, bytes) or content.isascii():
        return len(content)
    return sum(len(piece) for piece in _pieces(content))


def _pieces(content: Content) -> Iterator[bytes]:
    for start in range(0, len(content), PIECE_BYTES):
        piece = content[start : start + PIECE_BYTES]
        yield piece.encode() if isinstance(piece, str) else piece
