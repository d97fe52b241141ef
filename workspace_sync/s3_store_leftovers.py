"""Where a directory may stand in an object's way on servers that keep objects as files.

Such a server may keep the directory of objects that were removed. rclone's then acknowledges an object of that name and
drops it; only a second look tells. So what is written under such a name is looked at once more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

MOST_BYTES = 1024 * 1024
"""Names that are remembered, together; the oldest are forgotten."""


class Leftovers:
    """The directories of keys that were removed by this process; safe to use from several threads."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._names: dict[str, None] = {}
        self._guard = threading.Lock()

    def note(self, removed: Iterable[str]) -> None:
        """These keys were removed."""
        with self._guard:
            for key in removed:
                name = key
                while (name := name.rpartition("/")[0]) and name not in self._names:
                    self._names[name] = None
                    self._bytes += len(name)
            while self._bytes > self._most:
                oldest = next(iter(self._names))
                del self._names[oldest]
                self._bytes -= len(oldest)

    def may_stand_at(self, key: str) -> bool:
        """Whether there may be a directory of this name."""
        with self._guard:
            return key in self._names
