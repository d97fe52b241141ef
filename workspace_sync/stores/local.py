"""Objects as ordinary files under one directory: the embedded default.

A key is the file's path under the root, so people find their files on disk. Writes go to `.incoming`, are synced, and
renamed into place, so an object is whole or absent. No object is written to again: a copy is another name of the same
file until either is replaced. No symbolic link under the root is followed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from workspace_sync.directory.safe_open import CREATE, DIRECTORY, GONE, open_regular, opened_directory, split
from workspace_sync.errors import (
    FULL,
    IllegalName,
    ObjectNotFound,
    StoreError,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from workspace_sync.store import CHUNK_BYTES, Ahead, ExactReader, Item, StoredObject, Written, check_key, one_by_one

INCOMING = b".incoming"
LEFTOVER_SECONDS = 86_400
"""Age at which `check` removes an unfinished write of a process that died."""
LOCK_SECONDS = 5.0
LOCK_POLL_SECONDS = 0.05
_RACE_ATTEMPTS = 20

_NO_LINK = frozenset({errno.EMLINK, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV})
"""Too many names already, or a file system without such links."""
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP,
                      errno.ENAMETOOLONG, errno.ENOTEMPTY, errno.EFBIG})  # fmt: skip


class LocalStore:
    """An `ObjectStore` in the directory `root`, which is made when it is missing."""

    def __init__(self, root: str) -> None:
        self._root = root

    @property
    def description(self) -> str:
        return f"the local store {self._root}"

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        path = _path(key)
        with self._errors(key), self._open_root() as root, opened_directory(root, INCOMING, make=True) as incoming:
            name = uuid.uuid4().hex.encode()
            descriptor = os.open(name, CREATE, 0o600, dir_fd=incoming)
            try:
                with os.fdopen(descriptor, "wb", buffering=0) as target:
                    _copy(ExactReader(source, size), target.fileno())
                    os.fsync(target.fileno())
                    written = Written(_etag(os.fstat(target.fileno())))
                _move(root, incoming, name, path)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=incoming)
                raise
        return written

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        path = _path(key)
        with self._errors(key), self._open_root() as root, _missing(key):
            descriptor, _ = open_regular(root, path)
        stream = os.fdopen(descriptor, "rb")
        stream.seek(offset)
        return stream if size is None else cast("BinaryIO", io.BufferedReader(_Part(stream, size)))

    def get_ahead(self, wanted: Iterable[tuple[Item, str]]) -> contextlib.AbstractContextManager[Ahead[Item]]:
        return one_by_one(self.get, wanted)

    def stat(self, key: str) -> StoredObject:
        path = _path(key)
        with self._errors(key), self._open_root() as root, _missing(key):
            descriptor, status = open_regular(root, path)
        os.close(descriptor)
        return StoredObject(key, status.st_size, status.st_mtime, _etag(status))

    def list(self, prefix: str) -> Iterator[StoredObject]:
        top = _path(prefix.rstrip("/"))
        with self._errors(prefix), self._open_root() as root:
            waiting = [top]
            while waiting:
                path = waiting.pop()
                objects, deeper = _list_directory(root, path)
                waiting += deeper
                yield from objects

    def delete(self, keys: Iterable[str]) -> None:
        with self._open_root() as root:
            for key in keys:
                path = _path(key)
                with self._errors(key):
                    _remove(root, path)

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        with self.get(source) as stream:
            status = os.fstat(stream.fileno())
            if etag and etag != _etag(status):
                raise ObjectNotFound(f"{source!a} is not what it was")
            if self._link(source, target, status):
                return Written(_etag(status))
            return self.put(target, stream, status.st_size)

    def _link(self, source: str, target: str, wanted: os.stat_result) -> bool:
        """Give a file another name; False where that cannot be, or the source's name is another file's by now."""
        path = _path(target)
        head, last = split(_path(source))
        with self._errors(target), self._open_root() as root, opened_directory(root, INCOMING, make=True) as incoming:
            name = uuid.uuid4().hex.encode()
            try:
                with opened_directory(root, head) as directory:
                    os.link(last, name, src_dir_fd=directory, dst_dir_fd=incoming, follow_symlinks=False)
            except OSError as error:
                if error.errno in _NO_LINK or error.errno in GONE:
                    return False
                raise
            try:
                if not os.path.samestat(os.stat(name, dir_fd=incoming, follow_symlinks=False), wanted):
                    return False
                _move(root, incoming, name, path)
            finally:
                with contextlib.suppress(FileNotFoundError):  # renaming a name over another of the same file leaves it
                    os.unlink(name, dir_fd=incoming)
        return True

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        return None

    def check(self) -> tuple[str, ...]:
        with self._errors(), self._open_root() as root, opened_directory(root, INCOMING, make=True) as incoming:
            with os.scandir(incoming) as listing:
                names = [item.name for item in listing]
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # a write that goes on may have ended meanwhile
                    # Not by when it was written: the file may be an old one, of which a copy was just begun.
                    age = time.time() - os.stat(name, dir_fd=incoming, follow_symlinks=False).st_ctime
                    if age > LEFTOVER_SECONDS:
                        os.unlink(name, dir_fd=incoming)
            probe = uuid.uuid4().hex.encode()
            os.close(os.open(probe, CREATE, 0o600, dir_fd=incoming))
            os.rename(probe, b".probe-" + probe, src_dir_fd=incoming, dst_dir_fd=root)
            os.unlink(b".probe-" + probe, dir_fd=root)
        return ()

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Meanwhile no other process is in `alone` of this store; gives False where its file system has no locks.

        Raises StoreUnavailable when another one stays there.
        """
        with self._open_root() as root, self._errors():
            yield _lock(root)  # closing it unlocks it

    def close(self) -> None:
        """Nothing is held between calls."""

    @contextlib.contextmanager
    def _open_root(self) -> Iterator[int]:
        with self._errors():
            Path(self._root).mkdir(parents=True, exist_ok=True, mode=0o700)
            root = os.open(self._root, DIRECTORY & ~os.O_NOFOLLOW)
        try:
            yield root
        finally:
            os.close(root)

    @contextlib.contextmanager
    def _errors(self, key: str = "") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._translate(error, key) from error

    def _translate(self, error: OSError, key: str) -> StoreError:
        what = f"{self.description}: {error.strerror or type(error).__name__}" + (f" ({key!a})" if key else "")
        if error.errno in FULL:
            return StoreFull(f"{what}. Free space on its file system; what waits is written then")
        if error.errno in _REFUSED:
            return StoreRefused(f"{what}. Check that its directory is writable and that nothing stands in the way")
        return StoreUnavailable(f"{what}. Check the disk it is on; what waits is retried")


class _Part(io.RawIOBase):
    """The next bytes of a stream, so many and no more; closes it with itself."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        super().__init__()
        self._stream = stream
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


def _lock(root: int) -> bool:
    give_up = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(root, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise
            time.sleep(LOCK_POLL_SECONDS)
        except OSError:  # NFS locks no directory
            return False
        else:
            return True


def _etag(status: os.stat_result) -> str:
    """A file's identity: each write makes another file, and renaming it into place changes none of these."""
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def _path(key: str) -> bytes:
    path = check_key(key).encode("utf-8", "surrogateescape")
    if path.split(b"/")[0] == INCOMING:
        raise IllegalName(f"{key!a} is not a key of this store")
    return path


@contextlib.contextmanager
def _missing(key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in GONE:
            raise ObjectNotFound(f"no object {key!a}") from error
        raise


def _copy(source: ExactReader, descriptor: int) -> None:
    while piece := source.read(CHUNK_BYTES):
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]


def _move(root: int, incoming: int, name: bytes, path: bytes) -> None:
    """Rename a finished write to its place, making its directory again when a removal has just pruned it."""
    head, last = split(path)
    for attempt in range(_RACE_ATTEMPTS):
        try:
            with opened_directory(root, head, make=True) as directory:
                os.rename(name, last, src_dir_fd=incoming, dst_dir_fd=directory)
                os.fsync(directory)
                return
        except FileNotFoundError:
            if attempt == _RACE_ATTEMPTS - 1:
                raise


def _list_directory(root: int, path: bytes) -> tuple[list[StoredObject], list[bytes]]:
    """The objects and the directories in one directory; nothing when it is gone."""
    objects, deeper = [], []
    try:
        with opened_directory(root, path) as directory, os.scandir(directory) as listing:
            for item in listing:
                inner = path + b"/" + os.fsencode(item.name)
                with contextlib.suppress(FileNotFoundError):
                    status = item.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        deeper.append(inner)
                    elif stat.S_ISREG(status.st_mode):
                        key = inner.decode("utf-8", "surrogateescape")
                        objects.append(StoredObject(key, status.st_size, status.st_mtime, _etag(status)))
    except OSError as error:
        if error.errno not in GONE:
            raise
    return objects, deeper


def _remove(root: int, path: bytes) -> None:
    """Remove a file and the directories it leaves empty."""
    head, name = split(path)
    try:
        with opened_directory(root, head) as directory:
            if stat.S_ISREG(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=directory)
        while head:
            above, name = split(head)
            with opened_directory(root, above) as directory:
                os.rmdir(name, dir_fd=directory)
            head = above
    except OSError as error:
        if error.errno not in GONE and error.errno != errno.ENOTEMPTY:
            raise
