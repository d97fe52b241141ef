"""What is still to be written or fetched, file by file, in the order in which it goes; little for each (pure)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

LARGEST = 2**62
"""No file is larger, whatever a listing says."""


class Pending:
    """Files by number; `files` and `size_bytes` of them are left."""

    def __init__(self, sized: Iterable[tuple[bytes, int]] = ()) -> None:
        self.paths: list[bytes] = []
        self._sizes = array("q")
        for path, size in sized:
            self.paths.append(path)
            self._sizes.append(max(0, min(size, LARGEST)))
        self._done = bytearray(len(self.paths))
        self.files = len(self.paths)
        self.size_bytes = sum(self._sizes)

    def done(self, number: int) -> None:
        """It is there now, or need not be any more."""
        if not self._done[number]:
            self._done[number] = 1
            self.files -= 1
            self.size_bytes -= self._sizes[number]

    def size(self, number: int) -> int:
        """Of one file, in bytes."""
        return self._sizes[number]

    def left(self) -> Iterator[int]:
        """The numbers of those that are left, in order."""
        return (number for number, done in enumerate(self._done) if not done)
