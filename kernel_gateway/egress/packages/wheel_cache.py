"""Files of package indexes on this host's disk, by their SHA-256: fetched once, read by every session that may.

Only this service writes here, and only what it fetched itself and what has the hash that the index's page gave for it.
Who asks for a file has been shown its hash by its own index: no session chooses what another one gets.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_UNFINISHED: Final = ".part-"


class WheelCache:
    """A directory of files; blocking, so called from threads. With `most_bytes` 0 nothing is kept.

    Nothing more is kept when the disk has less than `reserve_bytes` free. What an earlier process left unfinished is
    removed before the first file is kept.
    """

    def __init__(self, directory: Path, most_bytes: int, reserve_bytes: int = 0) -> None:
        self._directory = directory
        self._reserve_bytes = reserve_bytes
        self._most_bytes = most_bytes
        self._mine = secrets.token_hex(8)
        self._count = itertools.count()

    def open(self, sha256: str) -> tuple[IO[bytes], int] | None:
        """A kept file and its size, whole and unchanged; None when there is none. The caller closes it."""
        if not sha256:
            return None
        path = self._directory / sha256
        try:
            file = path.open("rb")
        except OSError:
            return None
        try:
            if hashlib.file_digest(file, "sha256").hexdigest() == sha256:
                size = file.tell()
                file.seek(0)
                os.utime(file.fileno())
                return file, size
        except OSError:
            pass
        file.close()
        path.unlink(missing_ok=True)  # a disk that lost a part of it
        return None

    def begin(self, sha256: str) -> Unfinished | None:
        """A file to fill; None when it cannot be kept."""
        if not sha256 or not self._most_bytes:
            return None
        with contextlib.suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if shutil.disk_usage(self._directory).free < self._reserve_bytes:
                return None
            number = next(self._count)
            if not number:
                for left in self._directory.glob(f"{_UNFINISHED}*"):
                    if self._mine not in left.name:
                        left.unlink(missing_ok=True)
            path = self._directory / f"{_UNFINISHED}{self._mine}-{number}"
            return Unfinished(path, self._directory / sha256, path.open("xb"), self._most_bytes)
        return None

    def make_room(self) -> None:
        """Remove what was not asked for the longest, until the rest fits."""
        with contextlib.suppress(OSError):
            kept = sorted(self._stat(), key=lambda each: each[1].st_mtime)
            size = sum(found.st_size for _, found in kept)
            for path, found in kept:
                if size <= self._most_bytes:
                    break
                path.unlink(missing_ok=True)
                size -= found.st_size

    def _stat(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self._directory.iterdir():
            if not path.name.startswith(_UNFINISHED):
                with contextlib.suppress(OSError):
                    yield path, path.stat()


class Unfinished:
    """A file that is being filled. It becomes one of the cache by `finish`, and by nothing else."""

    def __init__(self, path: Path, target: Path, file: IO[bytes], most_bytes: int) -> None:
        self._path, self._target, self._file = path, target, file
        self._left = most_bytes
        self._broken = False

    def write(self, piece: bytes) -> None:
        """Take a piece; a full disk, or a file larger than the cache, ends the keeping and nothing else."""
        self._left -= len(piece)
        if self._broken or self._left < 0:
            self._broken = True
            return
        try:
            self._file.write(piece)
        except OSError:
            self._broken = True

    def finish(self) -> bool:
        """Keep it; the caller has found that its content has the hash. Says whether it is kept."""
        try:
            self._file.close()
            if not self._broken:
                self._path.replace(self._target)
        except OSError:
            self._broken = True
        self._path.unlink(missing_ok=True)
        return not self._broken

    def discard(self) -> None:
        """Forget it; after `finish` nothing happens."""
        with contextlib.suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)
