"""Directory trees that belong to this process, in which modes may close anything to it, and which may be of any depth.

As when a workspace is laid out to be sent on. No other process changes such a tree; links in it lead anywhere, and
are not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

from workspace_sync.directory.directory_walker import DirectoryWalker
from workspace_sync.directory.safe_open import DIRECTORY, split

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OwnedDirectory:
    """`open` is an `Opener` of what is beneath the directory: it lends the owner the right, and takes it back."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._lending = threading.Lock()

    def open(self, path: bytes) -> int:
        """A descriptor of a file or directory, to read; of a link, one to look at. Raises `OSError`."""
        with self._lending:
            found = os.open(self._directory, _LOOK | os.O_DIRECTORY)
            try:
                for name in path.split(b"/") if path else ():
                    if not stat.S_ISDIR(os.fstat(found).st_mode):
                        raise NotADirectoryError(errno.ENOTDIR, "not a directory")
                    with _grant_owner(found):
                        inner = os.open(name, _LOOK, dir_fd=found)
                    os.close(found)
                    found = inner
                mode = os.fstat(found).st_mode
                if stat.S_ISLNK(mode):
                    return os.dup(found)
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    raise OSError(errno.ENXIO, "neither a file nor a directory")
                with _grant_owner(found):
                    return os.open(f"/proc/self/fd/{found}", _READ)
            finally:
                os.close(found)


def remove_tree(directory: Path) -> None:
    """Remove the directory with all that is in it. Raises `OSError`."""
    top = os.open(directory, _LOOK | os.O_DIRECTORY)
    try:
        Path(f"/proc/self/fd/{top}").chmod(0o700)
        root = os.open(".", DIRECTORY, dir_fd=top)
    finally:
        os.close(top)
    try:
        with DirectoryWalker(root, OwnedDirectory(str(directory)).open) as descent:
            _remove_below(descent)
    finally:
        os.close(root)
    directory.rmdir()


def _remove_below(descent: DirectoryWalker) -> None:
    found, waiting = [], [b""]
    while waiting:
        path = waiting.pop()
        at = descent.enter(path)
        os.fchmod(at, 0o700)
        with os.scandir(at) as listing:
            names = [(os.fsencode(item.name), item.is_dir(follow_symlinks=False)) for item in listing]
        for name, is_directory in names:
            if is_directory:
                waiting.append(path + b"/" + name if path else name)
                found.append(waiting[-1])
            else:
                os.unlink(name, dir_fd=at)
    for path in reversed(found):
        head, name = split(path)
        os.rmdir(name, dir_fd=descent.enter(head))


@contextlib.contextmanager
def _grant_owner(descriptor: int) -> Iterator[None]:
    """The owner may do everything with it meanwhile."""
    mode, itself = stat.S_IMODE(os.fstat(descriptor).st_mode), Path(f"/proc/self/fd/{descriptor}")
    if mode & 0o700 == 0o700:
        yield
        return
    itself.chmod(mode | 0o700)
    try:
        yield
    finally:
        itself.chmod(mode)
