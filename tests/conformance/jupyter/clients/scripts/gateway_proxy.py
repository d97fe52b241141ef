"""A TCP proxy between a Jupyter server and its gateway, whose connections can be cut for a while."""

from __future__ import annotations

import asyncio
import contextlib


class Proxy:
    """Carries bytes to `host:port`; while `cut`, nothing gets through and nobody connects."""

    def __init__(self, host: str, port: int) -> None:
        self.port = 0
        self._target = (host, port)
        self._cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._server = server

    async def cut(self, seconds: float) -> None:
        self._cut = True
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(seconds)
        self._cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.transport.abort()
            return
        theirs, ours = await asyncio.open_connection(*self._target)
        self._writers |= {writer, ours}
        ways = [asyncio.create_task(self._carry(reader, ours)), asyncio.create_task(self._carry(theirs, writer))]
        await asyncio.wait(ways)
        self._writers -= {writer, ours}

    @staticmethod
    async def _carry(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65_536):
                target.write(data)
                await target.drain()
        target.transport.abort()
