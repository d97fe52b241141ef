"""What callers see of durable files: one name, a whole workspace, a removal."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from workspace_sync.entry import Entry, Kind
from workspace_sync.names import text_of


class FileInfo(msgspec.Struct, frozen=True):
    """One durable name: `modified` is epoch seconds, `mode` the rwx bits.

    `sha256` is that of a file's bytes, empty when it is not known: another client has written the object. `etag` is
    then the store's word for this state of it. `target` is where a link points.
    """

    path: str
    kind: Kind
    size: int
    modified: float
    mode: int
    sha256: str = ""
    etag: str = ""
    target: str = ""


class WorkspaceSummary(msgspec.Struct, frozen=True):
    """Files and bytes of a workspace, and what its manifest is as of (empty when it has none)."""

    file_count: int
    size_bytes: int
    as_of: str


class Removed(msgspec.Struct, frozen=True):
    """What a removal took away, or would: every name by path, and the bytes of the files among them."""

    paths: tuple[str, ...]
    file_count: int
    size_bytes: int


def info_of(entry: Entry, etag: str = "") -> FileInfo:
    """An entry as callers see it."""
    return FileInfo(
        text_of(entry.path),
        entry.kind,
        entry.size,
        entry.mtime_ns / 1e9,
        entry.mode,
        entry.sha256,
        etag,
        text_of(entry.target),
    )


def describe_removal(entries: Iterable[Entry]) -> Removed:
    """These entries as a removal."""
    every = sorted(entries, key=lambda entry: entry.path)
    sizes = [entry.size for entry in every if entry.kind == "file"]
    return Removed(tuple(text_of(entry.path) for entry in every), len(sizes), sum(sizes))
