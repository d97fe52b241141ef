"""Many files in one stream: where each begins and ends, and how each is written as it comes.

A file in the stream is a head (the length of its path in 4 bytes, of its content in 8, then the path) and its content.
Files are independent: one that is refused is skipped, and the others are written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..refusal import Refusal, of_one
from .files import Upload
from .paths import MAX_PATH_BYTES

MAX_FILES = 100_000
_FIXED = 12


def head(path: str, size: int) -> bytes:
    """What precedes a file's content."""
    name = path.encode(errors="surrogateescape")
    return len(name).to_bytes(4, "big") + size.to_bytes(8, "big") + name


class Batch:
    """Fed with a stream of files, writes them; `begin` starts the upload of one. Blocking, on one thread at a time."""

    def __init__(self, begin: Callable[[str], Upload]) -> None:
        self._begin = begin
        self._pending = b""
        """The beginning of a head whose rest has not come."""
        self._upload: Upload | None = None
        self._left = 0
        self._in_file = False
        self._count = 0
        self._refused: list[dict[str, Any]] = []

    def write(self, data: bytes | bytearray) -> None:
        """Take in what came next; raises Refusal when it is no stream of files."""
        # What files hold is written from where it came: a hundred megabytes are not to be copied again and again.
        rest = memoryview(self._pending + data if self._pending else data)
        self._pending = b""
        while self._in_file or (length := self._take_head(rest)):
            if not self._in_file:
                rest, self._in_file = rest[length:], True
            taken = rest[: self._left]
            rest = rest[len(taken) :]
            self._left -= len(taken)
            if self._upload is not None and taken:
                self._guard(self._upload.write, taken)
            if self._left:
                return
            self._complete()
        self._pending = bytes(rest)

    def commit(self) -> dict[str, Any]:
        """The stream is complete: how many files were written, and which, counted from 0, were refused and why."""
        if self._in_file or self._pending:
            raise Refusal(400, "invalid_request", "the stream ends within a file")
        return {"written": self._count - len(self._refused), "refused": self._refused}

    def abort(self) -> None:
        """Leave no trace of the file that is not complete; safe after anything."""
        if self._upload is not None:
            self._upload.abort()
            self._upload = None

    def _take_head(self, rest: memoryview) -> int:
        """Begin the next file, if its whole head is there; gives the head's length, else 0."""
        length = int.from_bytes(rest[:4], "big")
        if len(rest) >= _FIXED and length > MAX_PATH_BYTES:
            raise Refusal(400, "invalid_path", f"a path has at most {MAX_PATH_BYTES} bytes")
        if len(rest) < _FIXED + length:
            return 0
        self._left = int.from_bytes(rest[4:_FIXED], "big")
        path = os.fsdecode(bytes(rest[_FIXED : _FIXED + length]))
        self._count += 1
        if self._count > MAX_FILES:
            raise Refusal(413, "too_large", f"one stream holds at most {MAX_FILES} files")
        self._guard(self._open, path)
        return _FIXED + length

    def _open(self, path: str) -> None:
        self._upload = self._begin(path)

    def _complete(self) -> None:
        if self._upload is not None:
            self._guard(self._upload.commit)
        self.abort()
        self._in_file = False

    def _guard(self, step: Callable[..., object], *arguments: Any) -> None:
        """Carry out a step of the present file; one that fails ends the file and nothing else."""
        try:
            step(*arguments)
        except (OSError, Refusal) as failure:
            self._refused.append(of_one(self._count - 1, failure))
            self.abort()
