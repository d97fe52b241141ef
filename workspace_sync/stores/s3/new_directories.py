"""One write at a time begins a directory, on servers that keep objects as files.

Two writes that make the same directory at once may make it twice there: rclone's server then acknowledges both objects
and shows the files of one, until its cache of directories is made anew minutes later. So the first write into a
directory goes ahead, and others of that directory, or of one above it that is new as well, wait for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator

MOST_NAMES = 10_000
"""Directories that are remembered; beyond, all are forgotten, and the next write into each goes ahead again."""
WAIT_SECONDS = 5.0
"""How long a write waits for another; one that takes longer is not worth holding the rest back."""


Entered = Callable[..., contextlib.AbstractContextManager[None]]
"""`DirectoryCreationLock.entered`, or what takes its place where there are none."""


class DirectoryCreationLock:
    """The directories into which this process has written; safe to use from several threads."""

    def __init__(self, wait_seconds: float = WAIT_SECONDS) -> None:
        self._wait_seconds = wait_seconds
        self._known: set[str] = set()
        self._beginning: set[str] = set()
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def entered(self, key: str, *, makes: bool = True) -> Iterator[None]:
        """Around a request that writes below the directories of this key; `makes`: it is there once that succeeds."""
        above = list(_above(key))
        begun = self._begun(above)
        made = False
        try:
            yield
            made = makes
        finally:
            with self._changed:
                self._beginning.discard(begun)
                if made:
                    self._remember(above)
                self._changed.notify_all()

    def forget(self, removed: Iterable[str]) -> None:
        """These keys were removed, and with them perhaps the directories that held nothing else."""
        with self._changed:
            for key in removed:
                self._known.difference_update(_above(key))

    def _begun(self, above: list[str]) -> str:
        """Wait for one's turn; returns the topmost new directory, which is this write's to make, or ''."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._new(above) not in self._beginning, self._wait_seconds):
                return ""
            new = self._new(above)
            if new:
                self._beginning.add(new)
            return new

    def _new(self, above: list[str]) -> str:
        return next((name for name in above if name not in self._known), "")

    def _remember(self, above: list[str]) -> None:
        if len(self._known) + len(above) > MOST_NAMES:
            self._known.clear()
        self._known.update(above)


def _above(key: str) -> Iterator[str]:
    """The directories of a key, the topmost first."""
    at = key.find("/")
    while at >= 0:
        yield key[:at]
        at = key.find("/", at + 1)
