"""Opening and making things beneath a directory that others change meanwhile.

Every step is taken from a directory descriptor and follows no link, so a name swapped for a link ends in an `OSError`
(`ELOOP` or `ENOTDIR`) and never outside. Only regular files and directories are ever opened. An `Opener` opens what
their own mode closes to this process, by whoever may; it does so with the same care.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ESTALE, errno.EISDIR})
"""What opening says when a name has gone or has become something else."""


Opener = Callable[[bytes], int]
"""A path beneath the root to a read-only descriptor of what is there (of a link, one to look at); raises `OSError`."""


@contextlib.contextmanager
def opened_directory(
    root: int,
    path: bytes,
    *,
    owner: tuple[int, int] | None = None,
    make: bool = False,
    opener: Opener | None = None,
) -> Iterator[int]:
    """A descriptor of the directory `path` beneath `root` (empty: `root` itself); `make` creates what is missing."""
    try:
        descriptor = _step_by_step(root, path, owner, make=make)
    except PermissionError:
        if opener is None:
            raise
        descriptor = opener(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _step_by_step(root: int, path: bytes, owner: tuple[int, int] | None, *, make: bool) -> int:
    descriptor = os.open(b".", DIRECTORY, dir_fd=root)
    try:
        for name in path.split(b"/") if path else ():
            made = make and _make(name, descriptor)
            child = os.open(name, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
            if made and owner is not None:
                os.fchown(descriptor, *owner)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def split(path: bytes) -> tuple[bytes, bytes]:
    """The directory of a path (empty at the top) and its last name."""
    head, _, tail = path.rpartition(b"/")
    return head, tail


def open_regular(root: int, path: bytes, opener: Opener | None = None) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file `path` and its status; `OSError` for anything else, opened without blocking."""
    head, name = split(path)
    try:
        with opened_directory(root, head) as directory:
            descriptor = os.open(name, READ, dir_fd=directory)
    except PermissionError:
        if opener is None:
            raise
        descriptor = opener(path)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.ENXIO, "not a regular file")
    return descriptor, status


def examine(directory: int, name: bytes, path: bytes, opener: Opener | None) -> tuple[os.stat_result, bytes]:
    """The status of a name in a directory that is at `path` beneath the root, and where it points if it is a link."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        return status, os.readlink(name, dir_fd=directory) if stat.S_ISLNK(status.st_mode) else b""
    except PermissionError:  # the directory may be listed, and what is in it not be looked at
        if opener is None:
            raise
    descriptor = opener(path)
    try:
        status = os.fstat(descriptor)
        return status, os.readlink(b"", dir_fd=descriptor) if stat.S_ISLNK(status.st_mode) else b""
    finally:
        os.close(descriptor)


def remove_name(directory: int, name: bytes) -> None:
    """Remove a file or link of this name, if there is one."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)


def _make(name: bytes, directory: int) -> bool:
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        return False
    return True
