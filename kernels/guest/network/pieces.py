"""Bytes both ways over one connection of which each way ends by itself, as asyncio's TLS has no half-closed streams.

Both ends speak so, the guest and the service: each piece goes after its length in four bytes, and an empty one ends
that way. What comes is as hostile as its sender: a longer piece than there may be, or none where the connection ends,
cuts both.
"""

from __future__ import annotations

import asyncio
from typing import Tuple

PIECE_BYTES = 64 * 1024
_LENGTH = 4
Stream = Tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(plain: Stream, pieces: Stream) -> None:
    """Carry what comes plain in pieces and the other way round, until both ways have ended.

    Raises OSError, EOFError, ValueError where one was cut. Closing both is the caller's.
    """
    ways = [asyncio.ensure_future(_cut(plain[0], pieces[1])), asyncio.ensure_future(_paste(pieces[0], plain[1]))]
    try:
        await asyncio.gather(*ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _cut(plain: asyncio.StreamReader, pieces: asyncio.StreamWriter) -> None:
    while True:
        piece = await plain.read(PIECE_BYTES)
        pieces.write(len(piece).to_bytes(_LENGTH, "big") + piece)
        await pieces.drain()
        if not piece:
            return


async def _paste(pieces: asyncio.StreamReader, plain: asyncio.StreamWriter) -> None:
    while True:
        length = int.from_bytes(await pieces.readexactly(_LENGTH), "big")
        if length > PIECE_BYTES:
            raise ValueError(f"a piece has at most {PIECE_BYTES} bytes, not {length}")
        if not length:
            plain.write_eof()
            return
        plain.write(await pieces.readexactly(length))
        await plain.drain()
