"""A path beneath a directory opened by one system call, which follows no link on the way: openat2 of Linux 5.6."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

_NUMBER = 437
_RESOLVE = 0x02 | 0x04 | 0x08  # NO_MAGICLINKS, NO_SYMLINKS, BENEATH
_LONGEST_BYTES = 4095
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    """`struct open_how` of openat2(2)."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def fits(path: bytes) -> bool:
    """Whether `open_beneath` can be asked for this path on this machine; what it cannot do is done step by step."""
    return len(path) <= _LONGEST_BYTES and _is_known()


def open_beneath(root: int, path: bytes, flags: int) -> int:
    """A descriptor of `path`, never of anything outside `root`; raises `OSError`, `ELOOP` for a link on the way."""
    if b"\0" in path:
        raise OSError(errno.EINVAL, "a path holds a NUL byte")
    how = _How(flags, 0, _RESOLVE)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    while True:
        found = int(_libc.syscall(ctypes.c_long(_NUMBER), ctypes.c_int(root), path, ctypes.byref(how), size))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


@cache
def _is_known() -> bool:
    """An older kernel, and the filter of some container engines, do not know the call."""
    top = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.close(open_beneath(top, b".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(top)
