"""The ways out of pods: the service dials each pod and lends it connections, over which programs reach the proxy.

So a pod needs no route to anything: its policy closes it off entirely, and nobody but the service decides what is
carried. For each way a few connections wait at the guest (`kernels.guest.network.lent`); one that a program takes is
led to the listening socket at which the service accepts that session's, and another is made in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from kernels.cancelling import cancel_all
from kernels.errors import KernelsError, SandboxFailed, SandboxGone
from kernels.guest.network.lent import PREFIX
from kernels.guest.network.pieces import PIECE_BYTES, Stream, join
from kernels.oci.egress_sockets import NAMES

WAITING: Final = 4
"""Connections that wait at a guest, per way."""
MOST_CARRIED: Final = 128
"""Of one way, for programs; those of further ones wait in the pod. The service has a limit of its own below this."""
SPACING_SECONDS: Final = 0.05
"""Between two connections in the same place: a guest that throws them away costs the service 80 a second at most."""
_AGAIN_SECONDS: Final = (0.05, 5.0)
"""First and longest pause before a guest that was not reached is tried again."""
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))

Reach = Callable[[], Awaitable[Stream]]
"""Makes a connection to the guest. Raises KernelsError; SandboxGone when there will be none."""


class WaysOut:
    """All that this process lends; `directory` is its own, for a moment of each socket's life."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ways: dict[tuple[str, str], _Way] = {}

    async def open(self, sandbox_id: str, name: str, reach: Reach) -> socket.socket:
        """The listening, non-blocking socket of one way, in the place of an earlier one. Raises SandboxFailed."""
        if name not in NAMES:
            raise SandboxFailed(f"a sandbox has no way out {name[:60]!r}; there are: {', '.join(NAMES)}")
        if (earlier := self._ways.pop((sandbox_id, name), None)) is not None:
            await earlier.aclose()
        try:
            listener, handle = _listen(self._directory)
        except OSError as error:
            raise SandboxFailed(f"the sandbox's way out cannot be opened: {error.strerror or error}") from None
        self._ways[sandbox_id, name] = _Way(name, handle, reach)
        return listener

    async def close(self, sandbox_id: str) -> None:
        for name in NAMES:
            if (way := self._ways.pop((sandbox_id, name), None)) is not None:
                await way.aclose()

    async def aclose(self) -> None:
        for sandbox_id, _ in list(self._ways):
            await self.close(sandbox_id)


class _Way:
    """`handle` leads to the service's socket, which has no name any more: nobody else finds it."""

    def __init__(self, name: str, handle: int, reach: Reach) -> None:
        self._name = name
        self._handle = handle
        self._reach = reach
        self._room = asyncio.Semaphore(MOST_CARRIED)
        self._carrying: set[asyncio.Task[None]] = set()
        self._lending = [asyncio.create_task(self._lend()) for _ in range(WAITING)]

    async def aclose(self) -> None:
        await cancel_all([*self._lending, *self._carrying])
        os.close(self._handle)

    async def _lend(self) -> None:
        """Keep one connection at the guest, until the service has closed its socket or the sandbox is gone."""
        pause = _AGAIN_SECONDS[0]
        while True:
            await self._room.acquire()
            try:
                lent = await self._offer()
            except (SandboxGone, ConnectionRefusedError):
                self._room.release()
                return
            except (KernelsError, OSError, ValueError):
                self._room.release()
                await asyncio.sleep(pause)
                pause = min(pause * 2, _AGAIN_SECONDS[1])
                continue
            except BaseException:
                self._room.release()
                raise
            carrying = asyncio.create_task(_carry(*lent))
            self._carrying.add(carrying)
            carrying.add_done_callback(self._over)
            pause = _AGAIN_SECONDS[0]
            await asyncio.sleep(SPACING_SECONDS)

    def _over(self, carrying: asyncio.Task[None]) -> None:
        self._carrying.discard(carrying)
        self._room.release()

    async def _offer(self) -> tuple[Stream, Stream]:
        """The service's end and the guest's, of a program that has come. Raises ConnectionRefusedError when the
        service takes none any more.
        """
        far = await self._reach()
        try:
            connection = far[1].get_extra_info("socket")
            if connection.family != socket.AF_UNIX:  # one that is forwarded is kept alive behind that
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                for option, value in _KEEPALIVE:
                    connection.setsockopt(socket.IPPROTO_TCP, option, value)
            far[1].write(f"{PREFIX}{self._name}\n".encode())
            if await far[0].readline() != b"ok\n":
                raise ConnectionResetError("the guest keeps no connection")
            near = await asyncio.open_unix_connection(f"/proc/self/fd/{self._handle}", limit=PIECE_BYTES)
            far[1].write(b"go\n")
        except BaseException:
            far[1].transport.abort()
            raise
        return near, far


async def _carry(near: Stream, far: Stream) -> None:
    try:
        with contextlib.suppress(OSError, EOFError, ValueError):
            await join(near, far)
    finally:
        near[1].close()
        far[1].close()


def _listen(directory: Path) -> tuple[socket.socket, int]:
    """A listening socket, and a handle by which to connect to it; its name is gone by then."""
    directory.mkdir(mode=0o711, exist_ok=True)
    with contextlib.ExitStack() as opened:
        place = opened.enter_context(tempfile.TemporaryDirectory(dir=directory, prefix=".way-"))  # we alone enter it
        inside = os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, inside)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        on_failure = opened.enter_context(contextlib.ExitStack())
        on_failure.callback(listener.close)
        path = f"/proc/self/fd/{inside}/s"  # addresses have 108 bytes at most
        listener.bind(path)
        # Never more than are carried come at once: a full backlog would be taken for a connection.
        listener.listen(MOST_CARRIED + WAITING)
        listener.setblocking(False)  # noqa: FBT003
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
        on_failure.pop_all()
        return listener, handle
