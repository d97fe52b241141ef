"""Listening sockets of the service inside a sandbox: the way out that its guest alone can take.

They lie in `egress/` of the socket directory. That directory is the host's root's, so that nothing in the sandbox can
put anything of its own in their place; each socket is the sandbox's root's, so that user code cannot connect.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
from pathlib import Path
from typing import Final

from kernels.errors import SandboxFailed, SandboxGone

DIRECTORY: Final = "egress"
NAMES: Final = ("http", "s3", "packages")
_BACKLOG: Final = 64
_OPEN: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def listen(transport: Path, name: str, guest: int) -> socket.socket:
    """A listening, non-blocking socket `egress/<name>.sock`, in place of an earlier one; `guest` is its owner."""
    if name not in NAMES:
        raise SandboxFailed(f"a sandbox has no way out {name[:60]!r}; there are: {', '.join(NAMES)}")
    with contextlib.ExitStack() as opened:
        try:
            top = os.open(transport, _OPEN)
        except OSError as error:
            raise SandboxGone(f"the sandbox's sockets are gone: {error.strerror}") from None
        opened.callback(os.close, top)
        try:
            directory = os.open(DIRECTORY, _OPEN, dir_fd=top)
            opened.callback(os.close, directory)
            _require_ours(top, directory)
            return _listen(directory, name, guest)
        except OSError as error:
            raise SandboxFailed(f"the sandbox's way out cannot be opened: {error.strerror or error}") from None


def _require_ours(top: int, directory: int) -> None:
    """The sandbox may have put a directory of its own there: one that it can write is not listened in."""
    above, here = os.fstat(top), os.fstat(directory)
    if here.st_uid != 0 or here.st_dev != above.st_dev or stat.S_IMODE(here.st_mode) & 0o022:
        raise SandboxFailed("the sandbox's directory for ways out is not the one that was made for it")


def _listen(directory: int, name: str, guest: int) -> socket.socket:
    file, new = f"{name}.sock", f".{secrets.token_hex(4)}"
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        server.settimeout(0)
        # By descriptor: no link that the sandbox made is followed, and the address fits into the 108 bytes it may have.
        server.bind(f"/proc/self/fd/{directory}/{new}")
        os.chmod(new, 0o600, dir_fd=directory)
        os.chown(new, guest, guest, dir_fd=directory, follow_symlinks=False)
        server.listen(_BACKLOG)
        # Last of all, so that what the guest finds under this name listens, and is the guest's.
        os.replace(new, file, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        server.close()
        with contextlib.suppress(OSError):
            os.unlink(new, dir_fd=directory)
        raise
    return server
