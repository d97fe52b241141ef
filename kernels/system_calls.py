"""What Python's standard library has no function for, asked of the kernel through libc; a refusal is an `OSError`."""

from __future__ import annotations

import ctypes
import os
from typing import Final

libc: Final = ctypes.CDLL(None, use_errno=True)


def call(number: int, *arguments: object) -> int:
    """The system call of this number; whole numbers are passed as the kernel's long. Raises `OSError`."""
    converted = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *converted))
    if result < 0:
        raise failure()
    return result


def mount(source: str | None, target: str, kind: str | None, flags: int, options: bytes | None = None) -> None:
    """mount(2); raises `OSError`."""
    encoded = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    if libc.mount(*encoded, ctypes.c_ulong(flags), options) != 0:
        raise failure(f"mount {target}")


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument; raises `OSError`."""
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise failure(f"prctl {option}")


def failure(what: str = "") -> OSError:
    """Why the call just made through `libc` did not succeed; `what` says in words what was wanted."""
    number = ctypes.get_errno()
    reason = os.strerror(number)
    return OSError(number, f"{what}: {reason}" if what else reason)
