"""A kernel's loopback ports as Unix sockets that the host can dial: carried byte for byte, nothing is read here.

The sockets lie in the guest's own directory, where user code can neither look nor put another in their place.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

from .egress import carry

CONNECTIONS = 16
"""At once and per port; further ones wait. Only the host comes here: it opens one each."""
LISTEN_SECONDS = 60.0
"""How long a connection waits for a kernel that starts to listen."""
ROUND_SECONDS = 0.02
PAUSE_SECONDS = 0.2


class Bridge:
    """Carries what comes to `<place>-<number>` to each port, the first being 1, while `alive()`."""

    def __init__(self, place: str, ports: Sequence[int], alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._paths = [f"{place}-{number}" for number in range(1, len(ports) + 1)]
        self._connections: set[asyncio.Task[None]] = set()
        listeners = [_listen(path) for path in self._paths]
        self._accepting = [
            asyncio.create_task(self._accept(listener, port)) for listener, port in zip(listeners, ports)
        ]

    async def close(self) -> None:
        """End everything; nothing is left of the sockets."""
        for task in (under_way := [*self._accepting, *self._connections]):
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for path in self._paths:
            with suppress(FileNotFoundError):
                os.unlink(path)

    async def _accept(self, listener: socket.socket, port: int) -> None:
        loop = asyncio.get_running_loop()
        room = asyncio.Semaphore(CONNECTIONS)
        with listener:
            while True:
                await room.acquire()
                try:
                    outside, _ = await loop.sock_accept(listener)
                except OSError:
                    room.release()
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                serving = loop.create_task(self._serve(outside, port))
                self._connections.add(serving)
                serving.add_done_callback(self._connections.discard)
                serving.add_done_callback(lambda _: room.release())

    async def _serve(self, outside: socket.socket, port: int) -> None:
        with outside, suppress(OSError), await self._reach(port) as inside:
            await carry(inside, outside)

    async def _reach(self, port: int) -> socket.socket:
        """A connection to the port, as soon as the kernel listens there; raises OSError when it will not."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + LISTEN_SECONDS
        while True:
            inside = _Prompt(socket.AF_INET, socket.SOCK_STREAM)
            inside.settimeout(0)
            inside.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                await loop.sock_connect(inside, ("127.0.0.1", port))
            except OSError:
                inside.close()
                if not self._alive() or loop.time() > give_up:
                    raise
            except BaseException:
                inside.close()
                raise
            else:
                return inside
            await asyncio.sleep(ROUND_SECONDS)


class _Prompt(socket.socket):
    """Acknowledges what it has read at once: a kernel with Nagle's algorithm waits for that between small messages."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        with suppress(OSError):
            self.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return data


def _listen(path: str) -> socket.socket:
    """Root's alone: the host comes as root of this sandbox or as itself."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.settimeout(0)
    try:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(CONNECTIONS)
    except BaseException:
        listener.close()
        raise
    return listener
