"""A process narrows its own system calls, for good: to those of a program that computes and reads files.

What it may not do any more fails with EPERM: sockets, processes, threads, signals to others, writing to files it opens.
A filter of seccomp, written as the kernel's BPF; the numbers are those of each architecture's own table.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import Final

from kernels import system_calls

_ARCHITECTURES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""What AUDIT_ARCH says, and which of the numbers below are its."""

_CALLS: Final[dict[str, tuple[int | None, int | None]]] = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "pread64": (17, 67),
    "readv": (19, 65), "writev": (20, 66), "stat": (4, None), "lstat": (6, None), "newfstatat": (262, 79),
    "statx": (332, 291), "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439),
    "readlink": (89, None), "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "dup": (32, 23),
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216),
    "madvise": (28, 233), "membarrier": (324, 283),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "futex": (202, 98), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "getpid": (39, 172), "gettid": (186, 178), "getuid": (102, 174), "getgid": (104, 176), "geteuid": (107, 175),
    "getegid": (108, 177), "getrusage": (98, 165), "sysinfo": (99, 179), "uname": (63, 160),
    "gettimeofday": (96, 169), "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "getrandom": (318, 278), "exit": (60, 93), "exit_group": (231, 94),
}  # fmt: skip
_OPENING: Final[dict[str, tuple[tuple[int, int] | None, tuple[int, int] | None]]] = {
    "open": ((2, 1), None),
    "openat": ((257, 2), (56, 2)),
}
"""Numbers, and which argument holds the flags."""
_WRITING: Final = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, and what O_TMPFILE adds."""

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050001  # the last with EPERM
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32: Final = 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2


class _Program(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def restrict() -> None:
    """Do it; raises `OSError`, also on an architecture whose numbers are not known here."""
    if platform.machine() not in _ARCHITECTURES:
        raise OSError(f"the system calls of {platform.machine()} are not known")
    code = program(platform.machine())
    system_calls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    filtering = _Program(len(code) // 8, code)
    if system_calls.libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(filtering), 0, 0) != 0:
        raise system_calls.failure("seccomp")


def program(machine: str) -> bytes:
    """The filter for this architecture."""
    audited, column = _ARCHITECTURES[machine]
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, audited),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _KILL),
    ]
    for numbers in _CALLS.values():
        if (number := numbers[column]) is not None:
            steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    for opening in _OPENING.values():
        if (found := opening[column]) is not None:
            number, argument = found
            steps += [
                (_EQUAL, 0, 4, number),
                (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument),
                (_ANY_BIT, 0, 1, _WRITING),
                (_RETURN, 0, 0, _REFUSE),
                (_RETURN, 0, 0, _ALLOW),
            ]
    steps.append((_RETURN, 0, 0, _REFUSE))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
