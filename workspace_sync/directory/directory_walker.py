"""Directories beneath a root entered one after another, each from the nearest one above it that is still open.

In the order of a walk that goes down first, a tree costs a few openings a directory however deep it is. The rules are
those of `confined`. A directory that is moved while it is open is walked as it was found; others are found by name.
"""

from __future__ import annotations

import contextlib
import os
from types import TracebackType

from workspace_sync.directory.safe_open import DIRECTORY, Opener, open_closed_directory, split

NEAR = 32
"""How many of the directories above the last one stay open; further up it is each `NEAR`th."""


class DirectoryWalker:
    """`enter` directories beneath the descriptor `root`; `close` in the end, or use it as a context."""

    def __init__(self, root: int, opener: Opener | None = None) -> None:
        self.opener = opener
        self._path = b""
        self._open: list[int | None] = [os.open(b".", DIRECTORY, dir_fd=root)]

    def __enter__(self) -> DirectoryWalker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def enter(self, path: bytes) -> int:
        """A descriptor of this directory (empty: the root), good until the next call; raises `OSError`."""
        while self._path and self._path != path and not path.startswith(self._path + b"/"):
            self._path = split(self._path)[0]
            self._drop(self._open.pop())
        descriptor = self._reopen()
        for name in path[len(self._path) :].lstrip(b"/").split(b"/") if path != self._path else ():
            descriptor = self._descend(descriptor, name)
        return descriptor

    def close(self) -> None:
        """Close what is open; safe to call again."""
        while self._open:
            self._drop(self._open.pop())

    def _descend(self, above: int, name: bytes) -> int:
        path = self._path + b"/" + name if self._path else name
        descriptor = self._open_directory(above, name, path)
        self._path = path
        self._open.append(descriptor)
        far = len(self._open) - 1 - NEAR
        if far > 0 and far % NEAR:
            self._drop(self._open[far])
            self._open[far] = None
        return descriptor

    def _reopen(self) -> int:
        """The directory that was entered last, opened again when it has been closed meanwhile."""
        nearest = len(self._open) - 1
        while (descriptor := self._open[nearest]) is None:
            nearest -= 1
        names = self._path.split(b"/") if self._path else []
        for depth in range(nearest + 1, len(self._open)):
            descriptor = self._open_directory(descriptor, names[depth - 1], b"/".join(names[:depth]))
            self._open[depth] = descriptor
        return descriptor

    def _open_directory(self, above: int, name: bytes, path: bytes) -> int:
        try:
            return os.open(name, DIRECTORY, dir_fd=above)
        except PermissionError:
            if self.opener is None:
                raise
        return open_closed_directory(self.opener, path)

    def _drop(self, descriptor: int | None) -> None:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(descriptor)
