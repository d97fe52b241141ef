"""Waiting for ends on an asyncio loop: of a process, and of the other end of a socket."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import subprocess


async def await_end(child: subprocess.Popen[bytes]) -> None:
    """Return when the process has ended; it is still to be waited for."""
    descriptor = os.pidfd_open(child.pid)
    try:
        await _await_readable(descriptor)
    finally:
        os.close(descriptor)


async def await_hangup(end: socket.socket) -> None:
    """Return when the other end of a stream is closed altogether; one that only says no more is still there."""
    with select.epoll() as watch:
        watch.register(end.fileno(), 0)  # no event: EPOLLHUP is always reported
        await _await_readable(watch.fileno())


async def _await_readable(descriptor: int) -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, done.set)
    try:
        await done.wait()
    finally:
        loop.remove_reader(descriptor)
