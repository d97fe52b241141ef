"""A workspace's durable files without a live session. Blocking: services call it in threads.

Writing here while a session is live on the same workspace is seen by the next restore only; a file the session changes
meanwhile wins. Paths are text, bytes that are no UTF-8 as surrogate escapes.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from workspace_sync.durable import DurableFiles
from workspace_sync.errors import IllegalName, ObjectNotFound, PathConflict
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import MANIFEST_NAME, Entry, Kind, Manifest
from workspace_sync.names import key_of, parents, path_from_text, text_of
from workspace_sync.plan import Remote, merge
from workspace_sync.store import CHUNK_BYTES, ObjectStore, StoredObject, check_key


@dataclass(frozen=True)
class FileInfo:
    """One durable name: `modified` is epoch seconds, `mode` the rwx bits."""

    path: str
    kind: Kind
    size: int
    modified: float
    mode: int


@dataclass(frozen=True)
class WorkspaceSummary:
    """Files and bytes of a workspace, and what its manifest is as of (empty when it has none)."""

    file_count: int
    size_bytes: int
    as_of: str


class Chunks(Iterator[bytes]):
    """A file's bytes, piece by piece; closed at its end, on error, or by `close`."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def __next__(self) -> bytes:
        try:
            piece = b"" if self._stream.closed else self._stream.read(CHUNK_BYTES)
        except BaseException:
            self.close()
            raise
        if not piece:
            self.close()
            raise StopIteration
        return piece

    def close(self) -> None:
        """Let go of the stream; safe to call again."""
        self._stream.close()


class DurableWorkspace:
    """The durable files beneath one prefix. Raises `ObjectNotFound`, `IllegalName`, `PathConflict`, `StoreError`."""

    def __init__(self, store: ObjectStore, prefix: str) -> None:
        self._store = store
        self._durable = DurableFiles(store, prefix, TransferLimits().manifest_bytes)

    def list(self, path: str = "", *, recursive: bool = True) -> list[FileInfo]:
        """What is beneath a directory, in order of path; of the top when empty."""
        remote = self._durable.load()
        top = b""
        if path:
            raw = path_from_text(path)
            if raw not in remote.entries:
                raise ObjectNotFound(f"no such path: {path!r}")
            if remote.entries[raw].kind != "directory":
                return [_info(remote.entries[raw])]
            top = raw + b"/"
        return [
            _info(entry)
            for raw, entry in sorted(remote.entries.items())
            if raw.startswith(top) and (recursive or b"/" not in raw[len(top) :])
        ]

    def open(self, path: str) -> tuple[FileInfo, Chunks]:
        """A file's description and its bytes."""
        raw = path_from_text(path)
        remote = self._find(raw)
        entry = remote.entries.get(raw)
        if entry is None:
            raise ObjectNotFound(f"no such file: {path!r}")
        if entry.kind != "file":
            raise PathConflict(f"{path!r} is a {entry.kind}, not a file")
        return _info(entry), Chunks(self._store.get(self._durable.files_prefix + remote.keys[raw]))

    def put(self, path: str, source: BinaryIO, size: int) -> FileInfo:
        """Write a file whole or not at all; `source` must give exactly `size` bytes."""
        raw = path_from_text(path)
        with self._durable.changing:
            remote = self._durable.load()
            _check_place(remote, raw)
            reader = _Hashing(source)
            key = key_of(raw)
            self._store.put(self._durable.files_prefix + key, cast("BinaryIO", reader), size)
            before = remote.entries.get(raw)
            mode = before.mode if before is not None and before.kind == "file" else 0o644
            entry = Entry(raw, "file", size, time.time_ns(), mode, reader.digest.hexdigest())
            self._durable.write_manifest([*(e for p, e in remote.entries.items() if p != raw), entry])
            if remote.keys.get(raw, key) != key:
                self._store.delete([self._durable.files_prefix + remote.keys[raw]])
        return _info(entry)

    def delete(self, path: str) -> None:
        """Remove a file, a link, or a directory with all beneath it."""
        raw = path_from_text(path)
        with self._durable.changing:
            remote = self._durable.load()
            gone = {p for p in remote.entries if p == raw or p.startswith(raw + b"/")}
            if not gone:
                raise ObjectNotFound(f"no such path: {path!r}")
            self._store.delete([self._durable.files_prefix + remote.keys[p] for p in gone if p in remote.keys])
            self._durable.write_manifest(entry for p, entry in remote.entries.items() if p not in gone)

    def summary(self) -> WorkspaceSummary:
        """Counts of what is durable now."""
        remote = self._durable.load()
        sizes = [entry.size for entry in remote.entries.values() if entry.kind == "file"]
        return WorkspaceSummary(len(sizes), sum(sizes), remote.as_of)

    def put_beside(self, name: str, data: bytes) -> None:
        """Write an object beside the files, as `history.ipynb` is; a name may have one folder."""
        self.put_stream_beside(name, io.BytesIO(data), len(data))

    def put_stream_beside(self, name: str, source: BinaryIO, size: int) -> None:
        """The same of a source that must give exactly `size` bytes."""
        self._store.put(self._beside(name), source, size)

    def open_beside(self, name: str) -> tuple[BinaryIO, int]:
        """An object beside the files, and its size; raises `ObjectNotFound`. The caller closes it."""
        size = self._store.stat(self._beside(name)).size
        return self._store.get(self._beside(name)), size

    def _beside(self, name: str) -> str:
        folder, _, _ = check_key(name).partition("/")
        if name.count("/") > 1 or folder in (MANIFEST_NAME, "workspace"):
            raise IllegalName(f"{name!r} is no name beside a workspace's files")
        return f"{self._durable.prefix}/{name}"

    def copy_to(self, prefix: str, wanted: Callable[[], bool] = lambda: True) -> None:
        """Copy the files to a prefix beneath which there are none yet, inside the store; their manifest goes last.

        Once it is not `wanted` any more it stops; what it has copied is for the caller to `clear`.
        """
        target = DurableFiles(self._store, prefix, TransferLimits().manifest_bytes)
        with target.changing:
            remote = self._durable.load()
            for raw, key in remote.keys.items():
                if not wanted():
                    break
                self._store.copy(self._durable.files_prefix + key, target.files_prefix + key_of(raw))
            else:
                target.write_manifest(remote.entries.values())

    def clear(self) -> None:
        """Remove every file and the manifest, as of a workspace that no session came to use."""
        with self._durable.changing:
            self._store.delete([each.key for each in self._store.list(f"{self._durable.prefix}/")])

    def _find(self, raw: bytes) -> Remote:
        """The one path, without a listing when it lies under its own key."""
        manifest = self._durable.read_manifest()
        try:
            stored = self._store.stat(self._durable.files_prefix + key_of(raw))
        except ObjectNotFound:
            return merge(manifest, self._durable.objects())
        known = {raw: manifest.entries[raw]} if raw in manifest.entries else {raw: Entry(raw, "file", -1)}
        return merge(Manifest(manifest.as_of, known), [StoredObject(key_of(raw), stored.size, stored.modified)])


class _Hashing(io.RawIOBase):
    """A source, hashed as it is read."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source = source
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        piece = self._source.read(size)
        self.digest.update(piece)
        return piece


def _check_place(remote: Remote, raw: bytes) -> None:
    if raw in remote.entries and remote.entries[raw].kind == "directory":
        raise PathConflict(f"{text_of(raw)!r} is a directory")
    for parent in parents(raw):
        if parent in remote.entries and remote.entries[parent].kind != "directory":
            raise PathConflict(f"{text_of(parent)!r} is a {remote.entries[parent].kind}, not a directory")


def _info(entry: Entry) -> FileInfo:
    return FileInfo(text_of(entry.path), entry.kind, entry.size, entry.mtime_ns / 1e9, entry.mode)
