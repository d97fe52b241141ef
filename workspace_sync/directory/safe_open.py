"""Opening and making things beneath a directory that others change meanwhile.

Everything is opened from a directory descriptor and follows no link, so a name swapped for a link ends in an `OSError`
(`ELOOP` or `ENOTDIR`) and never outside. A name is looked at through a descriptor before it is opened, so that no FIFO
or device ever is: only regular files and directories are. An `Opener` opens, with more rights and the same care, what
their own mode closes to this process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator

from workspace_sync.directory import openat2

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

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
        descriptor = _make_directories(root, path, owner) if make else _open_existing(root, path)
    except PermissionError:
        if opener is None:
            raise
        descriptor = open_closed_directory(opener, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_closed_directory(opener: Opener, path: bytes) -> int:
    """What the opener opens, which has to be a directory still."""
    descriptor = opener(path)
    if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotADirectoryError(errno.ENOTDIR, "not a directory")
    return descriptor


def split(path: bytes) -> tuple[bytes, bytes]:
    """The directory of a path (empty at the top) and its last name."""
    head, _, tail = path.rpartition(b"/")
    return head, tail


def open_regular(root: int, path: bytes, opener: Opener | None = None) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file `path` and its status; `OSError` for anything else, which is not opened."""
    try:
        descriptor = _open_if_regular(root, path)
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


def _open_if_regular(root: int, path: bytes) -> int:
    """Look at it first, then open what was looked at."""
    if openat2.fits(path):
        looked = openat2.open_beneath(root, path, _LOOK)
    else:
        head, name = split(path)
        with opened_directory(root, head) as directory:
            looked = os.open(name, _LOOK, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(looked).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        return os.open(f"/proc/self/fd/{looked}", _READ)
    finally:
        os.close(looked)


def _open_existing(root: int, path: bytes) -> int:
    if path and openat2.fits(path):
        return openat2.open_beneath(root, path, DIRECTORY)
    descriptor = os.open(b".", DIRECTORY, dir_fd=root)
    try:
        for name in path.split(b"/") if path else ():
            child = os.open(name, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _make_directories(root: int, path: bytes, owner: tuple[int, int] | None) -> int:
    """The directory, made in the nearest one above it that exists, with all that are between."""
    missing: list[bytes] = []
    while True:
        try:
            descriptor = _open_existing(root, path)
            break
        except FileNotFoundError:
            if not path:
                raise
            path, name = split(path)
            missing.append(name)
    try:
        for name in reversed(missing):
            made = _make(name, descriptor)
            child = os.open(name, DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = child
            if made and owner is not None:
                os.fchown(descriptor, *owner)  # not by its name, which may be another directory's by now
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _make(name: bytes, directory: int) -> bool:
    try:
        os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        return False
    return True
