"""When an open file came into being, which nobody can set, unlike its other times: statx of Linux."""

from __future__ import annotations

import ctypes
import struct

_EMPTY_PATH = 0x1000
_BIRTH = 0x800
_SIZE = 256
_MASK = struct.Struct("=I")
_MOMENT = struct.Struct("=qI")
_MOMENT_AT = 80
_libc = ctypes.CDLL(None)


def born_ns(descriptor: int) -> int | None:
    """Nanoseconds since the epoch; None where the file system or the C library does not say."""
    statx = getattr(_libc, "statx", None)
    told = ctypes.create_string_buffer(_SIZE)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, ctypes.c_uint(_BIRTH), told) != 0:
        return None
    if not _MASK.unpack_from(told)[0] & _BIRTH:
        return None
    seconds, nanoseconds = _MOMENT.unpack_from(told, _MOMENT_AT)
    return int(seconds) * 10**9 + int(nanoseconds)
