"""Messages on their way to one client: those that are ready together go out in one write, which is what costs most.

Only what comes in one round of the loop waits here, `TOGETHER_BYTES` of it at most: a caller that has more waits until
the client has taken what was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Sequence
from typing import Final

from tornado.iostream import IOStream, StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketProtocol

TOGETHER_BYTES: Final = 64 * 1024
TEXT, BINARY = 0x1, 0x2
_LAST: Final = 0x80


class FrameWriter:
    """Writes data frames alongside tornado, which writes the control frames of the same connection."""

    def __init__(self, protocol: WebSocketProtocol, stream: IOStream, *, binary: bool) -> None:
        self._protocol = protocol
        self._stream = stream
        self._opcode = BINARY if binary else TEXT
        self._waiting: list[bytes] = []
        self._bytes = 0
        self._soon: asyncio.Handle | None = None
        self._taken: asyncio.Future[None] | None = None

    async def put(self, pieces: Sequence[bytes]) -> None:
        """Send a message, given in pieces, soon; returns when the next one may come. Raises WebSocketClosedError."""
        if not self._may_write:
            await self.drain()
        self._require_open()
        size = sum(map(len, pieces))
        self._waiting += (make_header(self._opcode, size), *pieces)
        self._bytes += size
        if self._bytes >= TOGETHER_BYTES:
            await self.drain()
        elif self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._flush)

    async def drain(self) -> None:
        """Return when the client has taken all that was put; raises WebSocketClosedError."""
        try:
            while self._waiting or not self._may_write:
                if self._may_write:
                    self._require_open()
                    self._write()
                if self._taken is not None:
                    await self._taken
        except StreamClosedError:
            raise WebSocketClosedError from None

    @property
    def _may_write(self) -> bool:
        """Whether all that was written has been taken."""
        return self._taken is None or self._taken.done()

    def _flush(self) -> None:
        """Called in the loop's next round."""
        self._soon = None
        if self._waiting and not self._protocol.is_closing():
            with contextlib.suppress(StreamClosedError):
                self._write()

    def _write(self) -> None:
        """Write what waits; a large piece is not copied."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        small: list[bytes] = []
        for piece in waiting:
            if len(piece) < TOGETHER_BYTES:
                small.append(piece)
                continue
            if small:
                self._stream.write(b"".join(small))
                small.clear()
            self._taken = self._stream.write(piece)
        if small:
            self._taken = self._stream.write(b"".join(small))

    def _require_open(self) -> None:
        if self._protocol.is_closing() or self._stream.closed():
            raise WebSocketClosedError


def make_header(opcode: int, length: int) -> bytes:
    """What stands before the data of a whole, unmasked frame (RFC 6455, section 5.2)."""
    if length < 126:
        return bytes((_LAST | opcode, length))
    if length < 1 << 16:
        return struct.pack("!BBH", _LAST | opcode, 126, length)
    return struct.pack("!BBQ", _LAST | opcode, 127, length)
