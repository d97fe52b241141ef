"""Opening what a sandbox's user has closed to himself, and nothing else: read only, beneath the workspace.

For the mirror, which reads a workspace as the user would if the user let himself. The kernel resolves the path
(openat2): it follows no link, leaves no file system and climbs nowhere. What is there is looked at before it is opened,
so that no FIFO or device ever is.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path
from typing import Final

from kernels import system_calls

LONGEST_PATH_BYTES: Final = 4096
_OPENAT2: Final = 437
_RESOLVE: Final = 0x01 | 0x02 | 0x04 | 0x08  # NO_XDEV, NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class _How(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(top: Path, path: bytes) -> int:
    """A descriptor of the regular file or directory `path` beneath `top`, to read; of a link, one to look at.

    Raises `OSError` with the kernel's reason, and ENXIO for anything else that may be there.
    """
    if len(path) > LONGEST_PATH_BYTES or b"\0" in path:
        raise OSError(errno.ENAMETOOLONG if b"\0" not in path else errno.EINVAL, "no such path can be")
    directory = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = _open_at(directory, path or b".")
    finally:
        os.close(directory)
    kind = os.fstat(found).st_mode
    if stat.S_ISLNK(kind):
        return found
    try:
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise OSError(errno.ENXIO, "neither a file nor a directory")
        return os.open(f"/proc/self/fd/{found}", _READ)
    finally:
        os.close(found)


def _open_at(directory: int, path: bytes) -> int:
    how = _How(_LOOK, 0, _RESOLVE)
    return system_calls.call(_OPENAT2, directory, path, ctypes.byref(how), ctypes.sizeof(how))
