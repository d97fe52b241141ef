"""Names of files in the workspace: checked, split, and opened one component at a time without following a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..refusal import Refusal

MAX_PATH_BYTES = 4096
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def split_path(path: str) -> list[str]:
    """The components of a path relative to the workspace, none for the workspace; refuses what leads elsewhere."""
    if "\0" in path or path.startswith("/") or len(os.fsencode(path)) > MAX_PATH_BYTES:
        raise Refusal(400, "invalid_path", "a path is relative, has no NUL and at most 4096 bytes")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refusal(400, "invalid_path", "a path has no .. in it")
    return parts


@contextmanager
def directory(root: str, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """A descriptor of the directory at `parts` below `root`; `make` makes what is missing on the way."""
    descriptor = os.open(root, DIRECTORY_FLAGS)
    try:
        for part in parts:
            descriptor = _step(descriptor, part, make=make)
        yield descriptor
    finally:
        os.close(descriptor)


def open_directory(name: str, parent: int) -> int:
    """A descriptor of the directory of this name; ENOTDIR for a link, which gVisor follows whatever the flags say."""
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    descriptor = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    if not os.path.samestat(found, os.fstat(descriptor)):  # swapped in between
        os.close(descriptor)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return descriptor


def _step(descriptor: int, name: str, *, make: bool) -> int:
    """Go from a directory to one in it: closes the former, unless that fails."""
    try:
        below = open_directory(name, descriptor)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):  # user code may have made it meanwhile
            os.mkdir(name, dir_fd=descriptor)
        below = open_directory(name, descriptor)
    os.close(descriptor)
    return below
