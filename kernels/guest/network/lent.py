"""The way out of a sandbox whose gateway is on another machine: over connections that the gateway makes, and lends.

The sandbox itself connects to nothing. What comes to `egress/<name>.sock`, where a gateway on the same host would
listen itself, gets one of the connections that wait here: `ok` asks the gateway for its end, `go` says that it has it,
and from then on both ways are `pieces`.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import closing, suppress

from ..deadline import timeout
from ..options import NO_WAY_OUT, Options
from .egress import NOT_THERE, refusal
from .loopback import HTTP, PACKAGES, S3
from .pieces import PIECE_BYTES, Stream, join

PREFIX = "egress/"
"""What the names of ways out begin with, where the gateway says what a connection is for."""
MOST_WAITING = 16
"""Connections per way; the gateway keeps fewer, but those of one that is gone may still be here."""
LEND_SECONDS = 10.0
"""How long a program waits for one."""
GO_SECONDS = 5.0


class Lender:
    """All ways that this sandbox has, each with what the gateway has lent it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        wanted = {HTTP: options.network != NO_WAY_OUT, S3: bool(options.role), PACKAGES: bool(options.index)}
        self._ways = {name: _Way(options.network) for name, there in wanted.items() if there}
        self._servers: list[asyncio.AbstractServer] = []

    async def start(self) -> None:
        """Listen where the guest's ports lead to; raises OSError."""
        for name, way in self._ways.items():
            path = self._options.egress_socket(name)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            with suppress(FileNotFoundError):
                os.unlink(path)
            self._servers.append(await asyncio.start_unix_server(way.serve, path, limit=PIECE_BYTES))

    def close(self) -> None:
        for server in self._servers:
            server.close()

    async def lend(self, name: str, stream: Stream) -> None:
        """Have the way of this name use a connection; returns when it is of no use any more."""
        way = self._ways.get(name)
        if way is None or len(way.waiting) >= MOST_WAITING:
            stream[1].write(b"absent\n")
            return await stream[1].drain()
        return await way.keep(_Lent(stream))


class _Lent:
    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.answer = asyncio.ensure_future(stream[0].readline())
        """What the gateway says once it is asked; before that, that it is gone."""
        self.over = asyncio.Event()

    async def ask(self) -> bool:
        """Whether the gateway has an end for a program."""
        try:
            async with timeout(GO_SECONDS):
                self.stream[1].write(b"ok\n")
                return await self.answer == b"go\n"
        except (OSError, ValueError, asyncio.TimeoutError):
            return False


class _Way:
    def __init__(self, mode: str) -> None:
        self.waiting: deque[_Lent] = deque()
        self._mode = mode
        self._some = asyncio.Event()

    async def keep(self, lent: _Lent) -> None:
        """Until its gateway has gone, or the program that took it."""
        self.waiting.append(lent)
        self._some.set()
        try:
            await asyncio.wait({lent.answer})
            if lent not in self.waiting:
                await lent.over.wait()
        finally:
            lent.answer.cancel()
            with suppress(ValueError):
                self.waiting.remove(lent)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One program's connection."""
        with closing(writer):
            try:
                async with timeout(LEND_SECONDS):
                    lent = await self._take()
            except asyncio.TimeoutError:
                return writer.write(refusal(503, self._mode, NOT_THERE))
            try:
                await join((reader, writer), lent.stream)
            except (OSError, EOFError, ValueError):
                pass
            finally:
                lent.over.set()

    async def _take(self) -> _Lent:
        while True:
            while not self.waiting:
                self._some.clear()
                await self._some.wait()
            lent = (
                self.waiting.pop()
            )  # the newest: a gateway that others have taken over from may still keep older ones
            taken = False
            try:
                taken = await lent.ask()
            finally:
                if not taken:
                    lent.over.set()
            if taken:
                return lent
