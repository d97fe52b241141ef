"""The relay's connections to one kernel: shell, iopub, stdin and control, each opened once the kernel has bound it."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from typing import cast

from .frames import CHANNELS, ProtocolError
from .splitter import GREETING, SUBSCRIBE_ALL, Splitter, ready

POLL_SECONDS = 0.003
LAST_WORDS_SECONDS = 0.5
UNREAD_BYTES = 4 * 1024 * 1024
"""What waits for a kernel that does not read, on one channel, before the gateway is not read either."""
_TYPES = {"shell": "DEALER", "control": "DEALER", "stdin": "DEALER", "iopub": "SUB"}

Taken = Callable[[int, list[tuple[int, bytes]]], None]
"""Gets the number of a channel, and flags and bytes of the pieces that came."""
Reach = Callable[[int], Awaitable[socket.socket]]
"""Connects to a channel by its number, from 1 on; raises OSError while nothing listens."""


class Channel(asyncio.Protocol):
    """One of them. `taken` gets the pieces as they come, `lost` is called once, with why."""

    def __init__(
        self,
        number: int,
        identity: bytes,
        taken: Taken,
        lost: Callable[[str], None],
        read_on: Callable[[], None],
    ) -> None:
        self._number = number
        self._identity = identity
        self._taken = taken
        self._lost = lost
        self._read_on = read_on
        self._splitter = Splitter()
        self._transport: asyncio.Transport | None = None
        self._why = "the kernel closed its connection"
        self._waiting = [SUBSCRIBE_ALL] if CHANNELS[number] == "iopub" else []
        """What is sent once the handshake is done: ZMQ drops who subscribes before."""
        self._waiting_bytes = 0
        self._full = False

    @property
    def is_full(self) -> bool:
        """Whether so much waits for the kernel to read it that nothing should be added."""
        return self._full or self._waiting_bytes > UNREAD_BYTES

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._read_on()

    def send(self, data: bytes) -> None:
        """Hand a message, as ZMTP frames, to the kernel."""
        if self._splitter.is_ready:
            if self._transport is not None:
                self._transport.write(data)
        else:
            self._waiting.append(data)
            self._waiting_bytes += len(data)

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def close(self) -> None:
        self._lost = lambda _why: None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(UNREAD_BYTES)
        self._transport.write(GREETING + ready(_TYPES[CHANNELS[self._number]], self._identity))

    def data_received(self, data: bytes) -> None:
        was_ready = self._splitter.is_ready
        try:
            pieces = self._splitter.feed(data)
        except ProtocolError as error:
            self._why = f"the kernel's socket left the protocol: {error}"
            if self._transport is not None:
                self._transport.abort()
            return
        if self._splitter.replies:
            self.send(self._splitter.replies)
            self._splitter.replies = b""
        if not was_ready and self._splitter.is_ready:
            for each in self._waiting:
                self.send(each)
            self._waiting.clear()
            self._waiting_bytes = 0
            if not self._full:
                self._read_on()
        if pieces:
            self._taken(self._number, pieces)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._full = False
        self._read_on()
        self._lost(self._why)


class Channels:
    """All four, to one kernel, as long as it is `alive()`. `lost` is called once."""

    def __init__(
        self,
        reach: Reach,
        alive: Callable[[], bool],
        taken: Taken,
        lost: Callable[[str], None],
        read_on: Callable[[], None],
    ) -> None:
        """`read_on` is called when a channel that was full is not any more."""
        self._reach = reach
        self._alive = alive
        self._lost: Callable[[str], None] | None = lost
        self._open = len(CHANNELS)
        identity = os.urandom(16)  # the same for all: a kernel asks for input on stdin by the identity on shell
        self._channels = [Channel(n, identity, taken, self._on_lost, read_on) for n in range(len(CHANNELS))]
        self._connecting = [asyncio.ensure_future(self._connect(each, n)) for n, each in enumerate(self._channels, 1)]

    def send(self, number: int, data: bytes) -> None:
        """A request for a channel; it waits where the kernel does not listen yet."""
        self._channels[number].send(data)

    def is_full(self, number: int) -> bool:
        """Whether the kernel is far behind with what was sent on that channel."""
        return self._channels[number].is_full

    def pause(self) -> None:
        """Read nothing more of what the kernel says."""
        for each in self._channels:
            each.pause()

    def resume(self) -> None:
        for each in self._channels:
            each.resume()

    def close(self) -> None:
        self._lost = None
        for task in self._connecting:
            task.cancel()
        for each in self._channels:
            each.close()

    async def _connect(self, channel: Channel, number: int) -> None:
        loop = asyncio.get_running_loop()
        while self._alive():
            try:
                connected = await self._reach(number)
            except OSError:  # nothing listens yet
                await asyncio.sleep(POLL_SECONDS)
                continue
            await loop.create_connection(lambda: channel, sock=connected)
            return
        self._on_lost("the kernel ended")

    def _on_lost(self, why: str) -> None:
        """One is closed: the others may still have something to say, and are closed a moment later."""
        self._open -= 1
        if self._open > 0 and self._open == len(self._channels) - 1:
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._tell_lost, why)
        elif self._open == 0:
            self._tell_lost(why)

    def _tell_lost(self, why: str) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(why)


async def reach_ipc(directory: str, file: str) -> socket.socket:
    """Connect to a kernel's own socket. Its directory is the user's: no link in it is followed. Raises OSError."""
    inner = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.stat(file, dir_fd=inner, follow_symlinks=False).st_mode):
            raise OSError("not a socket")
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.settimeout(0)
            client.connect(f"/proc/self/fd/{inner}/{file}")
        except BaseException:
            client.close()
            raise
        return client
    finally:
        os.close(inner)
