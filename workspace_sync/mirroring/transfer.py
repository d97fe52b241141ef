"""One file from the live directory to the store, or back. Blocking: runs in threads.

A file that changes while it is read is read again, and then copied aside, which is faster, and sent as it was at that
moment. Only one that does not rest for as long as it takes to copy it is sent as one pass saw it.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import IO, Any, BinaryIO, cast

import msgspec
from msgspec.structs import replace

from workspace_sync.directory.safe_open import CREATE, GONE, Opener, open_regular, opened_directory, remove_name, split
from workspace_sync.directory.scan import Signature, file_entry, signature_of
from workspace_sync.entry import Entry
from workspace_sync.errors import (
    FULL,
    DirectoryFull,
    DirectoryUnusable,
    MirrorClosed,
    ObjectNotFound,
    StoreError,
    StoreUnavailable,
)
from workspace_sync.limits import TransferLimits
from workspace_sync.mirroring.baseline import Seen
from workspace_sync.names import escape, key_of
from workspace_sync.store import CHUNK_BYTES, ObjectStore, Opened

SETTLED_NANOSECONDS = 20_000_000
"""A file last changed this shortly before it was read may change again within one tick of the file system's clock."""
COPY_ATTEMPTS = 3
"""Copies of a file that changes even while it is copied."""
_WRITE_OUT = 2  # SYNC_FILE_RANGE_WRITE
_ZEROS = bytes(1 << 16)
_LEAST_BYTES = 1 << 16
"""Read at a time even of a small file: it may have grown."""
_libc = ctypes.CDLL(None)


class FileChanged(Exception):
    """The file changed while it was read; only this module sees it."""


class _OtherBytes(StoreUnavailable):
    """Bytes came that are not those of the object, as the manifest knows it; `sha256` is theirs."""

    def __init__(self, message: str, sha256: str) -> None:
        super().__init__(message)
        self.sha256 = sha256


class Transfer(msgspec.Struct, frozen=True):
    """Between the directory behind the descriptor `root` and the keys beneath `prefix` (which ends in `/`).

    `opener` opens for reading what this process may not.
    """

    root: int
    store: ObjectStore
    prefix: str
    owner: tuple[int, int] | None
    limits: TransferLimits
    stop: threading.Event
    opener: Opener | None = None

    def send(self, path: bytes, seen: Seen | None) -> Seen | None:
        """Write a file to the store unless the store has the same bytes; None when there is no such file any more."""
        try:
            for _ in range(self.limits.read_attempts):
                try:
                    return self._send_steady(path, seen)
                except FileChanged:
                    continue
            return self._send_copy(path)
        except OSError as error:
            if error.errno in GONE:
                return None
            raise DirectoryUnusable(f"{escape(path)} cannot be read: {error.strerror}") from error

    def fetch(self, entry: Entry, key: str, opened: Opened | None = None) -> Seen | None:
        """Write an object to the directory; None when it has vanished from the store. Raises `DirectoryUnusable`.

        `opened` opens it the first time, when it has been asked for already. Other bytes than the manifest's are asked
        for again, unless the object is another one by now or they come twice.
        """
        told = ""
        get = partial(self.store.get, self.prefix + key)
        for attempt in range(1, self.limits.fetch_attempts + 1):
            try:
                return self._fetch_once(entry, key, told, opened if opened and attempt == 1 else get)
            except ObjectNotFound:
                return None
            except StoreError as error:
                told = error.sha256 if isinstance(error, _OtherBytes) else told
                if not error.retryable or attempt == self.limits.fetch_attempts or self.stop.wait(0.2 * 2**attempt):
                    raise
            except OSError as error:
                raise unusable(entry.path, error) from error
        return None

    def _send_steady(self, path: bytes, seen: Seen | None) -> Seen:
        read_at_ns = time.time_ns()  # before the file is opened: what changes it later must show in its times
        descriptor, status = open_regular(self.root, path, self.opener)
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            key = key_of(path)
            signature = keep_if_settled(signature_of(status), read_at_ns)
            if seen is not None and seen.key == key and seen.entry.size == status.st_size and seen.entry.sha256:
                reader = SteadyReader(file, status, self.stop)
                reader.exhaust()
                if reader.sha256 == seen.entry.sha256:
                    return Seen(file_entry(path, status, reader.sha256, seen.entry), key, signature)
                file.seek(0)
            reader = SteadyReader(file, status, self.stop)
            written = self.store.put(self.prefix + key, cast("BinaryIO", reader), status.st_size)
            return Seen(file_entry(path, status, reader.sha256, written), key, signature)

    def _send_copy(self, path: bytes) -> Seen:
        """Send a restless file from a copy; it stays to be read again by the next flush."""
        with tempfile.TemporaryFile() as copy:
            for _ in range(COPY_ATTEMPTS):
                status, sha256, rested = self._copy_aside(path, copy)
                if rested:
                    break
            size = copy.tell()
            copy.seek(0)
            key = key_of(path)
            written = self.store.put(self.prefix + key, copy, size)
        return Seen(replace(file_entry(path, status, sha256, written), size=size), key)

    def _copy_aside(self, path: bytes, copy: IO[bytes]) -> tuple[os.stat_result, str, bool]:
        """What one pass sees goes into `copy`; the file's status and the digest, and whether it rested meanwhile."""
        copy.seek(0)
        copy.truncate()
        descriptor, status = open_regular(self.root, path, self.opener)
        digest = hashlib.sha256()
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            left = status.st_size
            while left and (piece := file.read(min(left, CHUNK_BYTES))):
                check_stop(self.stop)
                digest.update(piece)
                copy.write(piece)
                left -= len(piece)
            return status, digest.hexdigest(), signature_of(os.fstat(descriptor)) == signature_of(status)

    def _fetch_once(self, entry: Entry, key: str, told: str, opened: Opened) -> Seen:
        head, name = split(entry.path)
        digest = hashlib.sha256()
        with (
            opened() as source,
            opened_directory(self.root, head, owner=self.owner, make=True) as directory,
        ):
            check_stop(self.stop)
            descriptor = _create(directory, name)
            try:
                hole = False
                for piece in _pieces(source, min(entry.size, CHUNK_BYTES)):
                    check_stop(self.stop)
                    digest.update(piece)
                    hole = _write_with_holes(descriptor, piece)
                if hole:
                    os.ftruncate(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR))
                if self.owner is not None:
                    os.fchown(descriptor, *self.owner)
                os.fchmod(descriptor, entry.mode)
                sha256 = digest.hexdigest()
                same = sha256 == (entry.sha256 or sha256)
                mtime_ns = entry.mtime_ns if same else self._find_replaced_ns(entry, key, sha256, told)
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))  # after the last write, which sets it
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
        return Seen(file_entry(entry.path, status, sha256, entry), key, signature_of(status))

    def _find_replaced_ns(self, entry: Entry, key: str, sha256: str, told: str) -> int:
        """When the object was written that holds other bytes than the manifest's.

        Raises `_OtherBytes` when it is still the one that the manifest knows, unless the same ones were `told` before.
        """
        stored = self.store.stat(self.prefix + key)
        if sha256 != told and entry.etag and stored.etag == entry.etag:
            what = f"{self.store.description}: {escape(entry.path)} arrived damaged; it is asked for again"
            raise _OtherBytes(what, sha256)
        return int(stored.modified * 1e9)


class SteadyReader(io.RawIOBase):
    """A file read once, hashed on the way; raises `FileChanged` before its last bytes if it did not rest meanwhile.

    As soon as the file has no name any more it is not read further: its removal may have been to make room.
    """

    def __init__(self, file: Any, status: os.stat_result, stop: threading.Event) -> None:
        super().__init__()
        self._file = file
        self._before = signature_of(status)
        self._size = self._left = status.st_size
        self._digest = hashlib.sha256()
        self._stop = stop

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes."""
        wanted = bytearray(self._left if size < 0 else min(size, self._left))
        taken = self.readinto(wanted)
        return bytes(wanted) if taken == len(wanted) else bytes(wanted[:taken])

    def exhaust(self) -> None:
        """Read all that is left, for its hash alone."""
        room = bytearray(min(self._left, CHUNK_BYTES))
        while self.readinto(room):
            pass

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as the file has bytes at hand."""
        check_stop(self._stop)
        if not self._left:
            return 0
        with memoryview(buffer)[: self._left] as view:
            _write_out(self._file.fileno(), self._size - self._left, len(view))
            try:
                taken: int = self._file.readinto(view)
            except OSError as error:  # not to be taken for the store's own errors, which pass through the same call
                raise DirectoryUnusable(f"a file of the workspace cannot be read: {error.strerror}") from error
            self._left -= taken
            now = os.fstat(self._file.fileno())
            if not taken or not now.st_nlink or (not self._left and signature_of(now) != self._before):
                raise FileChanged
            self._digest.update(view[:taken])
        return taken


def keep_if_settled(signature: Signature, moment_ns: int) -> Signature | None:
    """The signature when a later change is sure to show in it, given that the file was as it is at `moment_ns`."""
    return signature if signature.ctime_ns + SETTLED_NANOSECONDS <= moment_ns else None


def check_stop(stop: threading.Event) -> None:
    """Raise `MirrorClosed` when the attempt this thread works for was given up."""
    if stop.is_set():
        raise MirrorClosed("the transfer was given up")


def make_link(root: int, entry: Entry, owner: tuple[int, int] | None) -> None:
    """Restore a link; what it points to is never looked at."""
    head, name = split(entry.path)
    with opened_directory(root, head, owner=owner, make=True) as directory:
        remove_name(directory, name)
        os.symlink(entry.target, name, dir_fd=directory)
        if owner is not None:
            os.chown(name, *owner, dir_fd=directory, follow_symlinks=False)
        os.utime(name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=directory, follow_symlinks=False)


def make_directory(root: int, entry: Entry, owner: tuple[int, int] | None) -> None:
    """Make a directory and those above it."""
    with opened_directory(root, entry.path, owner=owner, make=True):
        pass


def finish_directory(root: int, entry: Entry) -> None:
    """Give a restored directory its mode and time, once nothing more is written into it."""
    with opened_directory(root, entry.path) as directory:
        os.fchmod(directory, stat.S_IMODE(entry.mode) & 0o777)
        os.utime(directory, ns=(entry.mtime_ns, entry.mtime_ns))


def unusable(path: bytes, error: OSError) -> DirectoryUnusable:
    """An error of the live directory in our words."""
    if error.errno in FULL:
        return DirectoryFull(
            f"the workspace's durable files do not fit into this sandbox: no room left at {escape(path)}. Start the "
            "session with more workspace storage, or remove durable files"
        )
    return DirectoryUnusable(f"{escape(path)} cannot be written to the workspace: {error.strerror}")


def _write_out(descriptor: int, offset: int, size: int) -> None:
    """Start write-back of what is about to be read: a later store through a memory map changes the file's time again.

    Piece by piece, while others are on their way: at once it would wait for the disk. A store to what has not been read
    yet may change no time; then all is read as it was after that store.
    """
    _libc.sync_file_range(descriptor, ctypes.c_int64(offset), ctypes.c_int64(size), ctypes.c_uint(_WRITE_OUT))


def _create(directory: int, name: bytes) -> int:
    """A new file of this name, in the place of what had it."""
    try:
        return os.open(name, CREATE, 0o600, dir_fd=directory)
    except FileExistsError:
        remove_name(directory, name)
        return os.open(name, CREATE, 0o600, dir_fd=directory)


def _pieces(source: BinaryIO, size: int) -> Iterator[bytearray]:
    """A stream's bytes, about so many at a time, in memory that is used again: each is good until the next."""
    room = bytearray(max(size, _LEAST_BYTES))
    whole = memoryview(room)
    while taken := cast("Any", source).readinto(whole):
        yield room if taken == len(room) else room[:taken]


def _write_with_holes(descriptor: int, piece: bytes | bytearray) -> bool:
    """Write a piece, but no zeros: a file with holes takes no more room than before. Returns whether it ends in one."""
    view, begin = memoryview(piece), 0
    for hole in range(0, len(piece), len(_ZEROS)):
        end = min(hole + len(_ZEROS), len(piece))
        if piece.startswith(_ZEROS[: end - hole], hole):
            _write_all(descriptor, view[begin:hole])
            os.lseek(descriptor, end - hole, os.SEEK_CUR)
            begin = end
    _write_all(descriptor, view[begin:])
    return begin == len(piece)


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[os.write(descriptor, view) :]
