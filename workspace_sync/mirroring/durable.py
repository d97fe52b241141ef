"""One workspace in the store: where its objects are, its manifest read and written. Blocking."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, cast
from weakref import WeakKeyDictionary, WeakValueDictionary

import structlog

from workspace_sync.entry import Entry
from workspace_sync.errors import IllegalName, ManifestUnreadable, ObjectNotFound, StoreUnavailable, WorkspaceTooLarge
from workspace_sync.manifest import (
    DAMAGED_NAME,
    MANIFEST_NAME,
    AsOf,
    Manifest,
    NotByLine,
    as_text,
    decode_manifest,
    manifest_lines,
    read_manifest,
)
from workspace_sync.mirroring.plan import Remote, merge
from workspace_sync.store import CHUNK_BYTES, FileSource, ObjectStore, StoredObject, check_key

log = structlog.get_logger()
PREFIX_BYTES = 100
"""Longest prefix of one workspace inside the store."""


class _Lock:
    """A lock that can be referred to weakly."""

    def __init__(self) -> None:
        self.held = threading.Lock()


_locks: WeakValueDictionary[tuple[int, str], _Lock] = WeakValueDictionary()
_locks_guard = threading.Lock()
Counted = Callable[[str, int, int], None]
"""A workspace's prefix, and how many files and bytes its new manifest names. Called in the thread that wrote it."""
_counted: WeakKeyDictionary[ObjectStore, Counted] = WeakKeyDictionary()


def tell_counts(store: ObjectStore, counted: Counted) -> None:
    """Call `counted` for each manifest that this process writes to the store."""
    _counted[store] = counted


class DurableFiles:
    """The objects of one workspace: `files_prefix` + key for each file, and the manifest."""

    def __init__(self, store: ObjectStore, prefix: str, manifest_bytes: int) -> None:
        prefix = check_key(prefix.strip("/"))
        if len(prefix.encode()) > PREFIX_BYTES:
            raise IllegalName(f"a workspace's prefix has at most {PREFIX_BYTES} bytes")
        self.store = store
        self.prefix = prefix
        self.files_prefix = f"{prefix}/workspace/"
        self._manifest_key = f"{prefix}/{MANIFEST_NAME}"
        self._manifest_bytes = manifest_bytes
        with _locks_guard:  # who has the lock holds the store as well, so no other store can have its id meanwhile
            self._lock = _locks.setdefault((id(store), prefix), _Lock())
        self.changing = self._lock.held
        """Held while the manifest is read in order to write it, so that two writers of one process lose nothing."""
        self._damaged = False
        """Whether the manifest that was read last has rows that cannot be read."""

    def load(self) -> Remote:
        """What the store holds of this workspace; empty when nothing is there."""
        return merge(self.read_manifest(), self.objects())

    def objects(self) -> Iterator[StoredObject]:
        """The listed objects, keys relative to the workspace's files."""
        cut = len(self.files_prefix)
        for stored in self.store.list(self.files_prefix):
            if len(stored.key) > cut:
                yield StoredObject(stored.key[cut:], stored.size, stored.modified, stored.etag)

    def read_manifest(self) -> Manifest:
        """The manifest, empty when there is none. Raises `ManifestUnreadable`."""
        manifest = self._read_manifest()
        self._damaged = manifest.damaged
        return manifest

    def _read_manifest(self) -> Manifest:
        try:
            with contextlib.suppress(NotByLine), self.store.get(self._manifest_key) as file:
                return read_manifest(file, self._manifest_bytes)
            with self.store.get(self._manifest_key) as file:
                data = file.read(self._manifest_bytes + 1)
        except ObjectNotFound:
            return Manifest("")
        if len(data) > self._manifest_bytes:
            raise ManifestUnreadable(f"{self._manifest_key} is longer than {self._manifest_bytes} bytes")
        return decode_manifest(data)

    def write_manifest(
        self, entries: Iterable[Entry], moment: datetime | None = None, execution: AsOf | None = None
    ) -> int:
        """Write the manifest, as of now unless told, and of the last execution that had ended then.

        The entries come in order of path. Returns how many files they are.
        """
        self._keep_damaged()
        as_of = as_text(moment or datetime.now(UTC))
        counts = _Counts()
        with tempfile.SpooledTemporaryFile(CHUNK_BYTES) as file:
            size = self._spool(manifest_lines(counts.of(entries), as_of, execution), cast("BinaryIO", file))
            source = FileSource(cast("BinaryIO", file), size)
            self.store.put(self._manifest_key, cast("BinaryIO", source), size)
        counted = _counted.get(self.store)
        if counted is not None:
            counted(self.prefix, counts.files, counts.file_bytes)
        return counts.files

    def _keep_damaged(self) -> None:
        """What a row said that cannot be read, such as where a link led, can only be found out from the row itself."""
        if self._damaged:
            with contextlib.suppress(ObjectNotFound):
                self.store.copy(self._manifest_key, f"{self.prefix}/{DAMAGED_NAME}")
                log.warning("damaged_manifest_kept", manifest=self._manifest_key, kept_as=DAMAGED_NAME)
            self._damaged = False

    def _spool(self, lines: Iterable[bytes], file: BinaryIO) -> int:
        """Write them into a file, to be read from its start; returns their size."""
        size = 0
        try:
            for line in lines:
                size += file.write(line)
                if size > self._manifest_bytes:  # it could not be read again
                    raise WorkspaceTooLarge(
                        f"the workspace has more names than a manifest of {self._manifest_bytes:,} bytes holds: "
                        "remove some"
                    )
            file.seek(0)
        except OSError as error:
            raise StoreUnavailable(f"no room on this host to write {self._manifest_key}: {error.strerror}") from error
        return size


@dataclass
class _Counts:
    """Of the files among entries that pass."""

    files: int = 0
    file_bytes: int = 0

    def of(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if entry.kind == "file":
                self.files += 1
                self.file_bytes += entry.size
            yield entry
