"""A connected socket with nothing buffered in this process: what is read is one piece, and it goes on before the next.

So the memory of a connection is one piece per direction, and no connection has more than a piece of the loop's turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

PIECE_BYTES: Final = 64 * 1024


class Stream:
    """One end of a connection. Reading and writing may be under way at once, each once."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._loop = asyncio.get_running_loop()

    async def read(self) -> bytes:
        """What has come, a piece at most; empty at the end. Raises OSError."""
        await asyncio.sleep(0)
        return await self._loop.sock_recv(self._socket, PIECE_BYTES)

    async def write(self, data: bytes) -> None:
        """Send it all; raises OSError."""
        await self._loop.sock_sendall(self._socket, data)

    def end(self) -> None:
        """Say that nothing more will be written."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._socket.close()
