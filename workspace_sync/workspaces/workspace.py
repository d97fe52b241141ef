"""A workspace's durable files without a live session. Blocking: services call it in threads.

Writing here while a session is live on the same workspace is seen by the next restore only; a file the session changes
meanwhile wins. Paths are text, bytes that are no UTF-8 as surrogate escapes.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import BinaryIO, TypeVar, cast

import msgspec
from msgspec.structs import replace

from workspace_sync.entry import ENTRIES, Entry
from workspace_sync.errors import IllegalName, ManifestUnreadable, ObjectNotFound, PathConflict, StoreUnavailable
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import DAMAGED_NAME, MANIFEST_NAME, AsOf, Manifest
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.mirroring.plan import Remote, merge
from workspace_sync.names import key_of, parents, path_from_text, text_of
from workspace_sync.store import CHUNK_BYTES, ObjectStore, StoredObject, Written, check_key
from workspace_sync.table import Table
from workspace_sync.workspaces.archive import Archive, ArchiveLimits
from workspace_sync.workspaces.chunks import Chunks
from workspace_sync.workspaces.expected import ANYTHING, Expected
from workspace_sync.workspaces.file_info import FileInfo, Removed, WorkspaceSummary, describe_removal, info_of

MANIFESTS = (MANIFEST_NAME, DAMAGED_NAME)
OPEN_ATTEMPTS = 5
"""Tries to open a file that is replaced meanwhile, so that what is said of it holds for the bytes that come."""
COPIES_AT_ONCE = 64
"""Files of one workspace that a store copies at once: most of the time of a copy is its server's, or the way to it."""
COPIES_AHEAD = 256
"""Files that have been given to the threads and have not come back."""
Item = TypeVar("Item")
Result = TypeVar("Result")
Bounds = Callable[[FileInfo], tuple[int, int]]
"""From a file to the first byte wanted and the one after the last; what it raises is passed on."""

Keep = Callable[[FileInfo], bool]
"""Whether a file or a link is one of those that are wanted."""


def whole(info: FileInfo) -> tuple[int, int]:
    """All bytes of a file."""
    return 0, info.size


class Opened(msgspec.Struct, frozen=True):
    """A file's description, and its bytes `start` up to `end`, which come piece by piece."""

    info: FileInfo
    start: int
    end: int
    chunks: Chunks


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
                return [info_of(remote.entries[raw])]
            top = raw + b"/"
        return [
            info_of(entry)
            for raw, entry in remote.entries.items()
            if raw.startswith(top) and (recursive or b"/" not in raw[len(top) :])
        ]

    def stat(self, path: str) -> FileInfo:
        """One name, whatever it is."""
        raw = path_from_text(path)
        remote, etag = self._find(raw)
        if raw not in remote.entries and not etag:  # a directory that only what is in it tells of
            remote = self._durable.load()
        if raw not in remote.entries:
            raise ObjectNotFound(f"no such path: {path!r}")
        return info_of(remote.entries[raw], etag)

    def open(self, path: str) -> tuple[FileInfo, Chunks]:
        """A file's description and its bytes."""
        opened = self.open_part(path, whole)
        return opened.info, opened.chunks

    def open_part(self, path: str, bounds: Bounds) -> Opened:
        """A file's description and some of its bytes; the two belong together also when it is replaced meanwhile."""
        raw = path_from_text(path)
        for _ in range(OPEN_ATTEMPTS):
            info, key = self._file(raw)
            start, end = bounds(info)
            stream = self._store.get(key, start, end - start)
            try:
                if self._store.stat(key).etag == info.etag:
                    return Opened(info, start, end, Chunks(stream))
            except BaseException:
                stream.close()
                raise
            stream.close()
        raise StoreUnavailable(f"{path!r} is replaced faster than it can be read; read it again later")

    def archive(self, path: str, limits: ArchiveLimits) -> Archive:
        """A file, or all that is beneath a directory, as a zip archive; of everything when empty."""
        top = path_from_text(path) if path else b""
        remote = self._durable.load()
        if top and top not in remote.entries:
            raise ObjectNotFound(f"no such path: {path!r}")
        return Archive(self._store, self._durable.files_prefix, remote, top, limits)

    def presign(self, path: str, seconds: int) -> tuple[FileInfo, str | None]:
        """A file's description, and a link to it for so long; None where the store has no such links."""
        raw = path_from_text(path)
        info, key = self._file(raw)
        return info, self._store.presign(key, seconds, path.rpartition("/")[2])

    def put(self, path: str, source: BinaryIO, size: int, expected: Expected = ANYTHING) -> FileInfo:
        """Write a file whole or not at all; `source` must give exactly `size` bytes. Raises `NotAsExpected`."""
        raw = path_from_text(path)
        with self._durable.changing:
            remote = self._durable.load()
            _check_place(remote, raw)
            self._check(remote, raw, expected)
            reader = _Hashing(source)
            key = key_of(raw)
            written = self._store.put(self._durable.files_prefix + key, cast("BinaryIO", reader), size)
            before = remote.entries.get(raw)
            mode = before.mode if before is not None and before.kind == "file" else 0o644
            digest = reader.digest.hexdigest()
            entry = Entry(raw, "file", size, time.time_ns(), mode, digest, b"", written.etag, written.version_id)
            remote.entries[raw] = entry
            self._durable.write_manifest(remote.entries.values(), execution=remote.execution)
            if remote.keys.get(raw, key) != key:
                self._store.delete([self._durable.files_prefix + remote.keys[raw]])
        return info_of(entry, written.etag)

    def delete(self, path: str, expected: Expected = ANYTHING, *, dry_run: bool = False) -> Removed:
        """Remove a file, a link, or a directory with all beneath it; a dry run only says what that is."""
        raw = path_from_text(path)
        with self._durable.changing:
            remote = self._durable.load()
            gone = {p for p in remote.entries if p == raw or p.startswith(raw + b"/")}
            if not gone:
                raise ObjectNotFound(f"no such path: {path!r}")
            self._check(remote, raw, expected)
            if not dry_run:
                self._store.delete([self._durable.files_prefix + remote.keys[p] for p in gone if p in remote.keys])
                kept = (entry for p, entry in remote.entries.items() if p not in gone)
                self._durable.write_manifest(kept, execution=remote.execution)
        return describe_removal(remote.entries[p] for p in gone)

    def summary(self) -> WorkspaceSummary:
        """Counts of what is durable now."""
        remote = self._durable.load()
        sizes = [entry.size for entry in remote.entries.values() if entry.kind == "file"]
        return WorkspaceSummary(len(sizes), sum(sizes), remote.as_of)

    def execution(self) -> AsOf | None:
        """The last execution whose files are durable, as the manifest says."""
        return self._durable.read_manifest().execution

    def count_missing(self) -> int | None:
        """How many files the manifest names that are not there; None when there is no manifest."""
        manifest = self._durable.read_manifest()
        if not manifest.as_of:
            return None
        there = {stored.key for stored in self._durable.objects()}
        files = (entry for entry in manifest.entries.values() if entry.kind == "file")
        return sum(key_of(entry.path) not in there for entry in files)

    def put_beside(self, name: str, data: bytes) -> None:
        """Write an object next to the files, as `history.ipynb` is; a name may have one folder."""
        self.put_stream_beside(name, io.BytesIO(data), len(data))

    def put_stream_beside(self, name: str, source: BinaryIO, size: int) -> None:
        """The same of a source that must give exactly `size` bytes."""
        self._store.put(self._beside(name), source, size)

    def open_beside(self, name: str) -> tuple[BinaryIO, int]:
        """An object next to the files, and its size; raises `ObjectNotFound`. The caller closes it."""
        size = self._store.stat(self._beside(name)).size
        return self._store.get(self._beside(name)), size

    def _beside(self, name: str) -> str:
        folder, _, _ = check_key(name).partition("/")
        if name.count("/") > 1 or folder in (*MANIFESTS, "workspace"):
            raise IllegalName(f"{name!r} is no name beside a workspace's files")
        return f"{self._durable.prefix}/{name}"

    def copy_to(
        self, prefix: str, wanted: Callable[[], bool] = lambda: True, keep: Keep = lambda _: True
    ) -> builtins.list[str]:
        """Copy the files to a prefix beneath which there are none yet, inside the store; their manifest goes last.

        Files and links that it is not to `keep` are left out, and returned in order of path. Once it is not `wanted`
        any more it stops; what it has copied is for the caller to `clear`.
        """
        target = DurableFiles(self._store, prefix, TransferLimits().manifest_bytes)
        with target.changing:
            remote = self._durable.load()
            entries = remote.entries.copy()
            kinds = ((raw, each) for raw, each in remote.entries.items() if each.kind != "directory")
            left_out = {raw for raw, each in kinds if not keep(info_of(each))}
            files = [(raw, key) for raw, key in remote.keys.items() if raw not in left_out]
            files.sort(key=lambda file: -remote.entries[file[0]].size)  # a large one that came last would go on alone

            def copy(file: tuple[bytes, str]) -> tuple[bytes, Written | None]:
                raw, key = file
                if not wanted():
                    return raw, None
                source, copied = self._durable.files_prefix + key, target.files_prefix + key_of(raw)
                return raw, self._store.copy(source, copied, size=remote.entries[raw].size)

            for raw, written in _at_once(copy, files):
                if written is None:
                    break
                entries[raw] = replace(entries[raw], etag=written.etag, version_id=written.version_id)
            else:
                target.write_manifest(entry for raw, entry in entries.items() if raw not in left_out)
        return [text_of(raw) for raw in sorted(left_out)]

    def clear(self) -> None:
        """Remove every file and the manifest, as of a workspace that no session came to use."""
        with self._durable.changing:
            self._store.delete([each.key for each in self._store.list(f"{self._durable.prefix}/")])

    def contents(self) -> tuple[Removed, builtins.list[str]]:
        """What `remove_files` would take away, and the names that stay."""
        cut = len(self._durable.prefix) + 1
        names = [each.key[cut:] for each in self._store.list(f"{self._durable.prefix}/")]
        beside = [name for name in names if name not in MANIFESTS and not name.startswith("workspace/")]
        try:
            remote = self._durable.load()
        except ManifestUnreadable:  # it goes like any other
            remote = merge(Manifest(""), self._durable.objects())
        return describe_removal(remote.entries.values()), sorted(beside)

    def remove_files(self) -> None:
        """Remove every file, and the manifest last; other objects of the workspace stay."""
        with self._durable.changing:
            self._store.delete([each.key for each in self._store.list(self._durable.files_prefix)])
            self._store.delete([f"{self._durable.prefix}/{name}" for name in MANIFESTS])

    def _file(self, raw: bytes) -> tuple[FileInfo, str]:
        """A file and its whole key."""
        remote, etag = self._find(raw)
        entry = remote.entries.get(raw)
        if entry is None:
            raise ObjectNotFound(f"no such file: {text_of(raw)!r}")
        if entry.kind != "file":
            raise PathConflict(f"{text_of(raw)!r} is a {entry.kind}, not a file")
        key = self._durable.files_prefix + remote.keys[raw]
        return info_of(entry, etag or self._store.stat(key).etag), key

    def _find(self, raw: bytes) -> tuple[Remote, str]:
        """The one path, without a listing when it lies under its own key; with the object's ETag then."""
        manifest = self._durable.read_manifest()
        try:
            stored = self._store.stat(self._durable.files_prefix + key_of(raw))
        except ObjectNotFound:
            return merge(manifest, self._durable.objects()), ""
        known = Table(ENTRIES, {raw: manifest.entries.get(raw, Entry(raw, "file", -1))})
        one = StoredObject(key_of(raw), stored.size, stored.modified, stored.etag, stored.version_id)
        return merge(Manifest(manifest.as_of, known), [one]), stored.etag

    def _check(self, remote: Remote, raw: bytes, expected: Expected) -> None:
        """Raise `NotAsExpected` unless the path is what its caller expects; a digest that is not known is computed."""
        if expected == ANYTHING:
            return
        entry = remote.entries.get(raw)
        if entry is not None and entry.kind == "file" and not entry.sha256 and expected.needs_digest:
            entry = replace(entry, sha256=self._digest(remote.keys[raw]))
        expected.check(info_of(entry) if entry is not None else None)

    def _digest(self, key: str) -> str:
        digest = hashlib.sha256()
        with self._store.get(self._durable.files_prefix + key) as stream:
            while piece := stream.read(CHUNK_BYTES):
                digest.update(piece)
        return digest.hexdigest()


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


def _at_once(copy: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """What `copy` gives for each, as it ends, by many threads: a store answers each only after it has written it."""
    waiting, done = iter(items), SimpleQueue[Future[Result]]()
    with ThreadPoolExecutor(COPIES_AT_ONCE, "copy") as pool:
        under_way = 0
        try:
            while True:
                for each in itertools.islice(waiting, COPIES_AHEAD - under_way):
                    pool.submit(copy, each).add_done_callback(done.put)
                    under_way += 1
                if not under_way:
                    return
                yield done.get().result()
                under_way -= 1
        finally:
            pool.shutdown(cancel_futures=True)


def _check_place(remote: Remote, raw: bytes) -> None:
    if raw in remote.entries and remote.entries[raw].kind == "directory":
        raise PathConflict(f"{text_of(raw)!r} is a directory")
    for parent in parents(raw):
        if parent in remote.entries and remote.entries[parent].kind != "directory":
            raise PathConflict(f"{text_of(parent)!r} is a {remote.entries[parent].kind}, not a directory")
