"""What a request to S3 carries: bytes, or a file that is read as it is sent and so never whole in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from workspace_sync.store import FileSource

Body = bytes | bytearray | memoryview
Payload = Body | FileSource
PIECE_BYTES = 1 << 18
"""Of a payload at a time: each has the time that an answer has, however long the whole takes on a slow link."""


def size_of(payload: Payload) -> int:
    """In bytes."""
    return payload.size if isinstance(payload, FileSource) else len(payload)


def pieces_of(payload: Payload) -> Iterator[Body]:
    """All of it, from its start."""
    if isinstance(payload, FileSource):
        yield from payload.pieces(PIECE_BYTES)
        return
    with memoryview(payload) as view:
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


def sha256_of(payload: Payload) -> str:
    """The digest that a request is signed with."""
    return _digest(hashlib.sha256(), payload)


def md5_of(payload: Payload) -> str:
    """The ETag of the object where it is that."""
    return _digest(hashlib.md5(usedforsecurity=False), payload)


def _digest(digest: hashlib._Hash, payload: Payload) -> str:
    for piece in pieces_of(payload) if isinstance(payload, FileSource) else (payload,):
        digest.update(piece)
    return digest.hexdigest()
