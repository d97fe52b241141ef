"""Outputs in full, read by their content's digest: whole or a part, from this host's disk or from the store."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import BinaryIO

from kernel_gateway.errors import NotFound, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.pieces import Pieces
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.sessions.registry import Registry
from kernels.notebook.transcript import BLOB_DIRECTORY
from workspace_sync.errors import ObjectNotFound

DIGEST = re.compile(r"[0-9a-f]{64}")
PIECE_BYTES = 1 << 20
MEDIA_TYPES = {"txt": "text/plain; charset=utf-8", "png": "image/png", "jpg": "image/jpeg", "gif": "image/gif"}
"""Of what a browser may show; everything else is bytes to it."""
ENDINGS = ("txt", "png", "json", "html", "svg", "jpg", "gif", "pdf", "md", "tex", "bin")
Bounds = Callable[[int], tuple[int, int]]
"""From the size of the whole to the first byte wanted and the one after the last."""


@dataclass
class FullOutput:
    """Bytes `start` up to `end` of `size`, piece by piece; `media_type` is None for what is nothing but bytes."""

    chunks: AsyncIterator[bytes]
    start: int
    end: int
    size: int
    media_type: str | None


class Outputs:
    """Reading is no activity that keeps a session from idling, and needs no live session."""

    def __init__(self, mirrors: Mirrors, kept_outputs: KeptOutputs, registry: Registry) -> None:
        self._mirrors = mirrors
        self._kept_outputs = kept_outputs
        self._registry = registry

    async def read(self, principal: Principal, session_id: str, digest: str, bounds: Bounds) -> FullOutput:
        """An output of the principal's session; raises NotFound, StoreUnavailable, and what `bounds` raises."""
        await self._registry.row(principal, session_id)
        if not DIGEST.fullmatch(digest):
            raise NotFound("an output is named by the 64 hexadecimal digits of its SHA-256")
        with translated():
            source, size, ending = await self._mirrors.run_durable(principal.id, lambda: self._open(session_id, digest))
        try:
            start, end = bounds(size)
        except BaseException:
            source.close()
            raise
        chunks = Pieces(self._mirrors, principal.id, _Part(source, start, end - start))
        return FullOutput(chunks, start, end, size, MEDIA_TYPES.get(ending))

    def _open(self, session_id: str, digest: str) -> tuple[BinaryIO, int, str]:
        """Blocking. The store has a file before this host lets go of it, so nothing is missed in between."""
        found = self._kept_outputs.find(session_id, digest)
        if found is not None:
            try:
                source = found.open("rb")
            except FileNotFoundError:
                pass
            else:
                return source, _size_of(source), found.suffix[1:]
        durable = self._mirrors.durable(session_id)
        for ending in ENDINGS:
            try:
                stored, size = durable.open_beside(f"{BLOB_DIRECTORY}/{digest}.{ending}")
            except ObjectNotFound:
                continue
            return stored, size, ending
        raise NotFound("this session has no such output")


class _Part:
    """So many bytes of a source, from its byte `start` on, piece by piece; blocking."""

    def __init__(self, source: BinaryIO, start: int, length: int) -> None:
        self._source = source
        self._skip = start
        self._left = length

    def __next__(self) -> bytes:
        if self._left <= 0 or self._source.closed:
            raise StopIteration
        if self._skip:
            _skip(self._source, self._skip)
            self._skip = 0
        piece = self._source.read(min(self._left, PIECE_BYTES))
        self._left -= len(piece)
        return piece

    def close(self) -> None:
        self._source.close()


def _size_of(source: BinaryIO) -> int:
    size = source.seek(0, 2)
    source.seek(0)
    return size


def _skip(source: BinaryIO, count: int) -> None:
    """What comes from a store over a network cannot be sought in."""
    if source.seekable():
        source.seek(count)
        return
    while count > 0 and (piece := source.read(min(count, PIECE_BYTES))):
        count -= len(piece)
