"""Opening and making things beneath a directory that others change meanwhile.

Every step is taken from a directory descriptor and follows no link, so a name swapped for a link ends in an `OSError`
(`ELOOP` or `ENOTDIR`) and never outside. Only regular files and directories are ever opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ESTALE, errno.EISDIR})
"""What opening says when a name has gone or has become something else."""


@contextlib.contextmanager
def opened_directory(
    root: int, path: bytes, *, owner: tuple[int, int] | None = None, make: bool = False
) -> Iterator[int]:
    """A descriptor of the directory `path` beneath `root` (empty: `root` itself); `make` creates what is missing."""
    descriptor = os.open(b".", DIRECTORY, dir_fd=root)
    try:
        for name in path.split(b"/") if path else ():
            made = make and _make(name, descriptor)
            child = os.open(name, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
            if made and owner is not None:
                os.fchown(descriptor, *owner)
        yield descriptor
    finally:
        os.close(descriptor)


def split(path: bytes) -> tuple[bytes, bytes]:
    """The directory of a path (empty at the top) and its last name."""
    head, _, tail = path.rpartition(b"/")
    return head, tail


def open_regular(root: int, path: bytes) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file `path` and its status; `OSError` for anything else, opened without blocking."""
    head, name = split(path)
    with opened_directory(root, head) as directory:
        descriptor = os.open(name, READ, dir_fd=directory)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise OSError(errno.ENXIO, "not a regular file")
    return descriptor, status


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
