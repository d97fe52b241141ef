"""Local files of the client: written whole or not at all, in directories that are their user's alone."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def replacing(destination: Path, mode: int = 0o644) -> Iterator[IO[bytes]]:
    """A stream whose content becomes the file when the block ends well; otherwise an old file stays as it was."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{destination.name[:100]}.", dir=destination.parent)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(destination)) from None
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
        temporary = Path(name)
        temporary.chmod(mode)  # before it has its name, under which others may open it
        temporary.replace(destination)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def make_private_directory(directory: Path) -> None:
    """Make a directory, and those above it, that only its user may enter; raises `OSError`."""
    if directory.is_dir():
        return
    make_private_directory(directory.parent)
    with contextlib.suppress(FileExistsError):  # another process has made it meanwhile
        directory.mkdir(mode=0o700)
        hand_over(directory)


def hand_over(path: Path) -> None:
    """Give what root has made in another user's home, as under sudo, to the owner of the directory it is in."""
    if sys.platform != "win32" and os.geteuid() == 0:
        owner = path.parent.stat()
        if owner.st_uid != 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)  # links are of the user's making
