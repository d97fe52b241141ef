"""What the tests of hostile content share: a workspace between directories and a store, and canaries outside of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
import subprocess
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workspace_sync import DurableWorkspace, FlushReport, Mirror, ObjectStore, RestoreReport, TransferLimits

DEADLINE_SECONDS = 120.0
SECRET = b"CANARY-THAT-NOBODY-MAY-READ"
QUICK = TransferLimits(settle_seconds=0.0, retry_seconds=0.05, retry_max_seconds=0.1, close_seconds=2.0)


class Canary:
    """A directory outside of the workspace. `check` finds whether anything in it was read, changed, moved or added.

    Its times of access are older than those of change, so that the file system notes the first read.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        (directory / "deep").mkdir()
        for name in ("file", "deep/file", "sub"):
            (directory / name).write_bytes(SECRET)
        for path in (directory / "file", directory / "deep/file", directory / "sub", directory / "deep", directory):
            os.utime(path, ns=(10**18, 11 * 10**17))
        self._before = self._look()

    def check(self, store: ObjectStore) -> None:
        """Nothing here was touched, and the store holds none of it."""
        assert self._look() == self._before
        for stored in store.list("workspaces/"):
            with store.get(stored.key) as stream:
                while piece := stream.read(1 << 20):
                    assert SECRET not in piece, stored.key

    def _look(self) -> dict[str, tuple[int, ...]]:
        paths = [self.directory, *(self.directory / name for name in ("file", "sub", "deep", "deep/file"))]
        found: dict[str, tuple[int, ...]] = {str(path): self._status(path) for path in paths}
        found |= {str(path): () for path in self.directory.rglob("*") if str(path) not in found}
        for path in (self.directory, self.directory / "deep"):  # our own look was a read
            os.utime(path, ns=(10**18, path.stat().st_mtime_ns))
        return found

    @staticmethod
    def _status(path: Path) -> tuple[int, ...]:
        one = path.lstat()
        access = one.st_atime_ns
        return (one.st_mode, one.st_ino, one.st_nlink, one.st_uid, one.st_size, one.st_mtime_ns, access)


class Workspace:
    """One prefix of a store, and the directories that are mirrored to it one after another."""

    def __init__(self, store: ObjectStore, executor: ThreadPoolExecutor, top: Path) -> None:
        self.store = store
        self.executor = executor
        self.top = top
        self.prefix = f"workspaces/sessions/{uuid.uuid4()}"
        self.durable = DurableWorkspace(store, self.prefix)

    def directory(self) -> Path:
        """An empty directory."""
        path = self.top / uuid.uuid4().hex
        path.mkdir()
        return path

    def mirror(self, directory: Path, limits: TransferLimits = QUICK) -> Mirror:
        """A mirror of this directory, to be closed by the caller."""
        return Mirror(str(directory), self.store, self.prefix, limits=limits, executor=self.executor)

    def flush(
        self, directory: Path, limits: TransferLimits = QUICK, deadline_seconds: float = DEADLINE_SECONDS
    ) -> FlushReport:
        """Flush by a new mirror."""

        async def flush() -> FlushReport:
            mirror = self.mirror(directory, limits)
            try:
                return await mirror.flush(deadline_seconds)
            finally:
                await mirror.aclose()

        return asyncio.run(flush())

    def restore(self, directory: Path | None = None) -> tuple[Path, RestoreReport]:
        """Fill a directory, an empty one unless told, from the store."""
        directory = directory or self.directory()

        async def restore() -> RestoreReport:
            mirror = self.mirror(directory)
            try:
                return await mirror.restore()
            finally:
                await mirror.aclose()

        return directory, asyncio.run(restore())

    def objects(self) -> set[str]:
        """The keys beneath the prefix."""
        return {one.key.removeprefix(self.prefix + "/") for one in self.store.list(self.prefix + "/")}

    def content(self, path: str) -> bytes:
        """A durable file."""
        return b"".join(self.durable.open(path)[1])


def picture(directory: Path) -> dict[bytes, tuple[object, ...]]:
    """What must survive, by path: kind, mode, time of change, and the content or where it points.

    Goes down one directory at a time, since paths may be longer than a call takes and trees deeper than a stack.
    """
    found: dict[bytes, tuple[object, ...]] = {}
    waiting = [(b"", os.open(directory, os.O_RDONLY))]
    while waiting:
        path, descriptor = waiting.pop()
        with os.scandir(descriptor) as listing:
            names = sorted(os.fsencode(item.name) for item in listing)
        for name in names:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            inner = path + b"/" + name if path else name
            content: object = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(name, dir_fd=descriptor)
            elif stat.S_ISREG(status.st_mode):
                with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=descriptor), "rb") as file:
                    content = file.read()
            elif stat.S_ISDIR(status.st_mode):
                waiting.append((inner, os.open(name, os.O_RDONLY, dir_fd=descriptor)))
            else:
                continue
            mode = stat.S_IMODE(status.st_mode) & 0o777
            found[inner] = (stat.S_IFMT(status.st_mode), mode, status.st_mtime_ns, content)
        os.close(descriptor)
    return found


@contextlib.contextmanager
def removed(*directories: Path) -> Iterator[None]:
    """Remove trees that are deeper than the tests' own clean-up goes."""
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", *map(str, directories)], check=True)
