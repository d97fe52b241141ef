"""Mounts by descriptor: a copy of a directory's mount that is nowhere yet, changed, then moved to its place.

The system calls of Linux 5.12 that mount(8) of the distributions does not know: open_tree, move_mount, mount_setattr.
Their numbers are the same on every architecture we run on. Every function raises `OSError`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kernels import system_calls

NOSUID: Final = 0x2
NODEV: Final = 0x4
NOEXEC: Final = 0x8
IDMAP: Final = 0x100000
NOSYMFOLLOW: Final = 0x200000

_MOVE_MOUNT, _OPEN_TREE, _MOUNT_SETATTR = 429, 428, 442
_HERE: Final = -100  # AT_FDCWD
_CLONE: Final = 0x1 | os.O_CLOEXEC  # OPEN_TREE_CLONE
_NO_FOLLOW: Final = 0x100  # AT_SYMLINK_NOFOLLOW
_EMPTY_PATH: Final = 0x1000  # AT_EMPTY_PATH
_FROM_DESCRIPTOR: Final = 0x4  # MOVE_MOUNT_F_EMPTY_PATH
_RECURSIVE: Final = 0x8000  # AT_RECURSIVE
_DETACH: Final = 0x2 | 0x8  # MNT_DETACH | UMOUNT_NOFOLLOW
_NOT_MOUNTED: Final = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)
_BIND, _SHARED = 0x1000, 0x100000  # MS_BIND, MS_SHARED


class _Attributes(ctypes.Structure):
    """`struct mount_attr` of mount_setattr(2)."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@contextlib.contextmanager
def clone(directory: Path, *, recursive: bool = False) -> Iterator[int]:
    """A descriptor of a copy of the mount at `directory`, which is not a link; gone at the end unless it was placed."""
    flags = _CLONE | _NO_FOLLOW | (_RECURSIVE if recursive else 0)
    tree = system_calls.call(_OPEN_TREE, _HERE, os.fsencode(directory), flags)
    try:
        yield tree
    finally:
        os.close(tree)


def set_attributes(tree: int, attributes: int, user_namespace: int = 0) -> None:
    """Give a copy these attributes; with `IDMAP`, its files the owners that the user namespace maps them to."""
    wanted = _Attributes(attributes, 0, 0, user_namespace)
    system_calls.call(_MOUNT_SETATTR, tree, b"", _EMPTY_PATH, ctypes.byref(wanted), ctypes.sizeof(wanted))


def place(tree: int, directory: Path) -> None:
    """Put a copy over `directory`."""
    system_calls.call(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(directory), _FROM_DESCRIPTOR)


def is_mounted(directory: Path) -> bool:
    """Whether something is mounted at this very place, also when it is of the same file system as what is above."""
    try:
        return _mount_of(directory) != _mount_of(directory.parent)
    except FileNotFoundError:
        return False


def _mount_of(directory: Path) -> str:
    descriptor = os.open(directory, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    finally:
        os.close(descriptor)
    return next(line for line in lines if line.startswith("mnt_id:"))


def detach(directory: Path) -> None:
    """Unmount now; what still has it open keeps it until it closes it. Not mounted is fine."""
    if system_calls.libc.umount2(os.fsencode(directory), _DETACH) != 0 and ctypes.get_errno() not in _NOT_MOUNTED:
        raise system_calls.failure()


def share(directory: Path) -> None:
    """Make a directory a mount whose later mounts appear also in the namespaces that follow this one."""
    place = str(directory)
    system_calls.mount(place, place, None, _BIND)
    system_calls.mount(None, place, None, _SHARED)
