"""The audit log as a file of JSON lines, which is renamed when it is full.

`audit.jsonl` is written, `audit.jsonl.1` was full last, and so on; the oldest goes: rotation is the standard library's.
When something else has renamed or removed the file, a new one is begun. Writing is our own: the library's handlers keep
errors to themselves, follow links, and leave half a line where the disk was full, while the chain of hashes needs each
line whole, once, or not at all. `AuditFile` blocks; `FileSink` calls it in a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from logging.handlers import RotatingFileHandler
from pathlib import Path

from kernel_gateway.errors import StartRefused
from kernel_gateway.services.audit.line import Entry, read_line

_LOOKED_THROUGH = 100_000
"""Bytes at the file's end in which its last whole line is looked for."""
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class AuditFile:
    """`open`, `append` and `close`, one at a time; at most `files` files of about `most_bytes` each."""

    def __init__(self, path: Path, most_bytes: int, files: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        # It names and renames the files; with a delay it opens none, and without backups it leaves the only one alone.
        self._rotation = RotatingFileHandler(path, backupCount=files - 1, delay=True)
        self._descriptor = -1
        self._torn = False

    def open(self) -> None:
        """Begin or go on with the file; raises StartRefused."""
        try:
            self._open()
        except OSError as error:
            raise StartRefused(
                f"the audit file {self._path} cannot be written: {error.strerror}; set audit_file to a file in a "
                "directory of its own that the service's user (service_uid) may write, or audit_files to 0 for none"
            ) from error

    def append(self, lines: bytes) -> None:
        """Add whole lines; raises OSError, and then none, some or all of them are in the file."""
        if self._descriptor < 0 or self._is_replaced():
            self._open()
        size = os.fstat(self._descriptor).st_size
        if size and size + len(lines) > self._most_bytes:
            self._rotate()
            size = 0
        torn = self._torn
        if torn:
            lines = b"\n" + lines
        self._torn = True
        left = memoryview(lines)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            with contextlib.suppress(OSError):  # a full disk: what was begun is taken back, to be written once
                os.ftruncate(self._descriptor, size)
                self._torn = torn
            raise
        self._torn = False

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def last(self) -> tuple[int, str] | None:
        """Number and hash of the last whole line, if it has them; raises OSError."""
        with self._path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _LOOKED_THROUGH))
            *whole, _ = stream.read().split(b"\n")
        found = next(filter(None, map(read_line, reversed(whole))), None)
        return (found.link.number, found.hash) if found is not None and found.whole else None

    def _open(self) -> None:
        self.close()
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(self._path, _FLAGS, 0o600)
        self._torn = _torn(self._path)

    def _is_replaced(self) -> bool:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return True
        mine = os.fstat(self._descriptor)
        return (found.st_dev, found.st_ino) != (mine.st_dev, mine.st_ino)

    def _rotate(self) -> None:
        self.close()
        if not self._rotation.backupCount:
            self._path.unlink(missing_ok=True)
        self._rotation.doRollover()
        self._open()


class FileSink:
    """The audit file as a place that the log goes to."""

    name = "file"
    of_host = True

    def __init__(self, file: AuditFile) -> None:
        self._file = file
        self._thread = ThreadPoolExecutor(1, "audit-file")
        self._appending: asyncio.Future[None] | None = None
        self._last = 0

    async def open(self) -> tuple[int, str] | None:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    async def deliver(self, entries: Sequence[Entry]) -> None:
        """A disk that stands still may have an earlier call's lines, given up since: nothing queues up behind them."""
        while (earlier := self._appending) is not None:
            await asyncio.wait([earlier])
            earlier.exception()
            self._appending = None
        appending = asyncio.get_running_loop().run_in_executor(self._thread, self._append, entries)
        self._appending = appending
        await asyncio.wait([appending])
        self._appending = None
        appending.result()

    async def close(self) -> None:
        self._thread.submit(self._file.close)
        self._thread.shutdown(wait=False)

    def _open(self) -> tuple[int, str] | None:
        self._file.open()
        with contextlib.suppress(OSError):
            return self._file.last()
        return None

    def _append(self, entries: Sequence[Entry]) -> None:
        """Those that the file does not have from a call that was given up."""
        new = [each for each in entries if each.number > self._last]
        if new:
            self._file.append(b"".join(each.line for each in new))
            self._last = new[-1].number


def _torn(path: Path) -> bool:
    """Whether the last line lacks its end, as a process that was killed while it wrote can leave it."""
    with path.open("rb") as stream:
        if not stream.seek(0, os.SEEK_END):
            return False
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) != b"\n"
