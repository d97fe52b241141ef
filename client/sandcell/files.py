"""Local files of the client: written whole or not at all."""

from __future__ import annotations

import contextlib
import os
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
        temporary.chmod(mode)
        temporary.replace(destination)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(name).unlink()
        raise
