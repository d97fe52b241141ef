"""Connecting to the Unix sockets in a sandbox's socket directory.

The directory is hostile. Each step into it is taken from a directory descriptor and follows no link; what is connected
to is a socket in that directory or nothing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import stat
import time
from typing import Final

from kernels.errors import NotListening, SandboxFailed, SandboxGone
from kernels.wire.dialing import GUEST, PATIENCE_SECONDS, POLL_SECONDS, RELAY, Dial

_KERNEL: Final = re.compile(r"kernel/(g[1-9][0-9]{0,7}-[1-5])")
_SECOND: Final = re.compile(r"kernel/((?:deno|spec)-g[1-9][0-9]{0,7}-[1-4])")
"""The sockets of kernels beside Python's are the guest's own, and lie beside the guest's."""
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)
"""Says nothing of the sandbox: it is this process or its host that can open no more."""
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def dial_in(directory: str) -> Dial:
    """Connects to the sockets of the sandbox whose socket directory this is."""

    async def dial(name: str, *, patience_seconds: float = 0) -> socket.socket:
        give_up = time.monotonic() + min(patience_seconds, PATIENCE_SECONDS)
        place, tried = "/".join((directory, *_place(name))), False
        while True:
            late = time.monotonic() >= give_up
            # A look is a tenth of the work of a try, and waiting is mostly looking at nothing.
            if late or not tried or os.path.lexists(place):
                tried = True
                try:
                    return connect(directory, name)
                except NotListening:
                    if late:
                        raise
            await asyncio.sleep(POLL_SECONDS)

    return dial


def connect(directory: str, name: str) -> socket.socket:
    """Connect now. Raises `NotListening`, `SandboxGone`, and `SandboxFailed` when too many others wait."""
    part, file = _place(name)
    try:
        top = os.open(directory, _DIRECTORY)
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise SandboxFailed(f"the sandbox's sockets cannot be looked at: {error.strerror}") from None
        raise SandboxGone(f"the sandbox's sockets are gone: {error.strerror}") from None
    try:
        return _connect(top, part, file)
    except BlockingIOError:
        raise SandboxFailed(f"{name} has more connections waiting than it takes") from None
    except OSError as error:
        if error.errno in _EXHAUSTED:
            raise SandboxFailed(f"{name} cannot be connected to: {error.strerror}") from None
        raise NotListening(f"nothing listens at {name}: {error.strerror or error}") from None
    finally:
        os.close(top)


def _place(name: str) -> tuple[str, str]:
    """The directory and the file name of a socket."""
    if name == GUEST:
        return GUEST, "http.sock"
    if name == RELAY:
        return GUEST, "relay.sock"
    if found := _KERNEL.fullmatch(name):
        return "kernel", found[1]
    if found := _SECOND.fullmatch(name):
        return GUEST, found[1]
    raise SandboxFailed(f"a sandbox has no socket {name[:60]!r}")


def _connect(top: int, part: str, file: str) -> socket.socket:
    inner = os.open(part, _DIRECTORY, dir_fd=top)
    try:
        if not stat.S_ISSOCK(os.stat(file, dir_fd=inner, follow_symlinks=False).st_mode):
            raise NotListening(f"{part}/{file} is not a socket")
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            client.settimeout(0)
            # Through the descriptor, so that a long path is no longer than a short one.
            client.connect(f"/proc/self/fd/{inner}/{file}")
        except BaseException:
            client.close()
            raise
        return client
    finally:
        os.close(inner)
