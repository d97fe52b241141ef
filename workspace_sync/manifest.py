"""What one workspace holds, as values and as `manifest.json` (pure).

The manifest says what objects cannot: kind, mode, time of change, link targets, empty directories, the true path of a
hashed key. It is written after the files it names, so all it lists as of `as_of` is in the store. Paths and link
targets are escaped as in `names`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec

from workspace_sync.errors import IllegalName, ManifestUnreadable
from workspace_sync.names import check_path, escape, unescape

MANIFEST_NAME = "manifest.json"
VERSION = 2
READABLE = (1, 2)
"""Version 1 had neither executions nor the store's names of objects."""
Kind = Literal["file", "directory", "link"]

_NANOSECONDS_MAX = 2**63 - 1
_Nanoseconds = Annotated[int, msgspec.Meta(ge=-_NANOSECONDS_MAX, le=_NANOSECONDS_MAX)]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a workspace. `mode` holds the rwx bits only; `sha256` is a file's, `target` a link's.

    `etag` and `version_id` are what the store calls the object that holds a file's bytes, empty where it says nothing.
    """

    path: bytes
    kind: Kind
    size: int = 0
    mtime_ns: int = 0
    mode: int = 0o644
    sha256: str = ""
    target: bytes = b""
    etag: str = ""
    version_id: str = ""


@dataclass(frozen=True, slots=True)
class AsOf:
    """The execution after which a state was taken; `number` counts the session's executions when it ended."""

    execution_id: str
    number: int


@dataclass(frozen=True)
class Skipped:
    """A name that was left out, and why; `path` is escaped text."""

    path: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """Every entry by path, as of a time (RFC 3339); `skipped` holds rows that no workspace can hold.

    `execution` is the last one that had ended before the state was taken, None when there was none.
    """

    as_of: str
    entries: dict[bytes, Entry]
    skipped: tuple[Skipped, ...] = ()
    execution: AsOf | None = None


class _Row(msgspec.Struct, omit_defaults=True):
    path: str
    kind: Kind
    mtime_ns: _Nanoseconds
    mode: Annotated[int, msgspec.Meta(ge=0, le=0o777)]
    size: Annotated[int, msgspec.Meta(ge=0)] = 0
    sha256: str = ""
    target: str = ""
    etag: str = ""
    version_id: str = ""


class _Execution(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(max_length=200)]
    number: Annotated[int, msgspec.Meta(ge=0, le=_NANOSECONDS_MAX)]


class _Document(msgspec.Struct):
    version: int
    as_of: str
    entries: list[_Row]
    execution: _Execution | None = None


def clamp_nanoseconds(moment: int) -> int:
    """A file's time within what the manifest can say (the years 1677 to 2262)."""
    return max(-_NANOSECONDS_MAX, min(moment, _NANOSECONDS_MAX))


def encode_manifest(entries: Iterable[Entry], as_of: str, execution: AsOf | None = None) -> bytes:
    """`manifest.json`, entries in order of path."""
    rows = [
        _Row(
            path=escape(entry.path),
            kind=entry.kind,
            mtime_ns=clamp_nanoseconds(entry.mtime_ns),
            mode=entry.mode,
            size=entry.size,
            sha256=entry.sha256,
            target=escape(entry.target) if entry.target else "",
            etag=entry.etag,
            version_id=entry.version_id,
        )
        for entry in sorted(entries, key=lambda entry: entry.path)
    ]
    ended = None if execution is None else _Execution(execution.execution_id, execution.number)
    return msgspec.json.encode(_Document(version=VERSION, as_of=as_of, entries=rows, execution=ended))


def decode_manifest(data: bytes) -> Manifest:
    """The manifest in these bytes, which may come from anyone: rows with illegal paths are set aside.

    Raises `ManifestUnreadable` when it is no manifest of ours.
    """
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ManifestUnreadable(f"{MANIFEST_NAME} is not readable: {error}") from error
    if document.version not in READABLE:
        raise ManifestUnreadable(
            f"{MANIFEST_NAME} has version {document.version}; this release reads versions 1 to {VERSION}"
        )
    entries: dict[bytes, Entry] = {}
    skipped = []
    for row in document.entries:
        try:
            entry = _entry(row)
        except (IllegalName, UnicodeEncodeError) as error:
            skipped.append(Skipped(ascii(row.path), str(error)))
        else:
            entries[entry.path] = entry
    ended = None if document.execution is None else AsOf(document.execution.id, document.execution.number)
    return Manifest(document.as_of, entries, tuple(skipped), ended)


def _entry(row: _Row) -> Entry:
    target = unescape(row.target)
    if row.kind == "link" and (not target or b"\0" in target or len(target) > 4095):
        raise IllegalName("a link without a legal target")
    path = check_path(unescape(row.path))
    return Entry(path, row.kind, row.size, row.mtime_ns, row.mode, row.sha256, target, row.etag, row.version_id)
