"""What one workspace holds, as values and as `manifest.json` (pure).

The manifest says what objects cannot: kind, mode, time of change, link targets, empty directories, the true path of a
hashed key. It is written after the files it names, so all it lists as of `as_of` is in the store. Paths and link
targets are escaped as in `names`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, BinaryIO

import msgspec

from workspace_sync.entry import ENTRIES, FARTHEST_NANOSECONDS, Entry, Kind, clamp_nanoseconds
from workspace_sync.errors import IllegalName, ManifestUnreadable
from workspace_sync.names import check_path, escape, unescape
from workspace_sync.table import Table

MANIFEST_NAME = "manifest.json"
DAMAGED_NAME = "manifest.damaged.json"
"""Next to it, as it was: the last one that had rows which could not be read."""
VERSION = 2
READABLE = (1, 2)
"""Version 1 had neither executions nor the store's names of objects."""
_ROWS_FOLLOW = b',"entries":[\n'
_FOLLOWS = b",\n"
_END = b"]}\n"
_Nanoseconds = Annotated[int, msgspec.Meta(ge=-FARTHEST_NANOSECONDS, le=FARTHEST_NANOSECONDS)]


def as_text(moment: datetime) -> str:
    """A moment in UTC as a manifest says it (RFC 3339, microseconds)."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class AsOf:
    """The execution after which a state was taken; `number` counts the session's executions when it ended."""

    execution_id: str
    number: int


class Skipped(msgspec.Struct, frozen=True):
    """A name that was left out, and why; `path` is escaped text."""

    path: str
    reason: str


@dataclass(frozen=True)
class Manifest:
    """Every entry by path, as of a time (RFC 3339); `skipped` holds rows that no workspace can hold.

    `execution` is the last one that had ended before the state was taken, None when there was none. `damaged`: there
    were rows that could not be read.
    """

    as_of: str
    entries: Table[Entry] = field(default_factory=lambda: Table(ENTRIES))
    skipped: tuple[Skipped, ...] = ()
    execution: AsOf | None = None
    damaged: bool = False


class NotByLine(Exception):
    """What begins like one of our manifests goes on otherwise; it may be one all the same. Only `durable` sees it."""


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


_decoder = msgspec.json.Decoder(_Row)


class _Execution(msgspec.Struct):
    id: Annotated[str, msgspec.Meta(max_length=200)]
    number: Annotated[int, msgspec.Meta(ge=0, le=FARTHEST_NANOSECONDS)]


class _Head(msgspec.Struct):
    version: int
    as_of: str
    execution: _Execution | None = None


class _Document(_Head, kw_only=True):
    entries: list[msgspec.Raw]


def manifest_lines(entries: Iterable[Entry], as_of: str, execution: AsOf | None = None) -> Iterator[bytes]:
    """`manifest.json`, a line for each entry; they come in order of path, which is checked (`ValueError`)."""
    ended = None if execution is None else _Execution(execution.execution_id, execution.number)
    head = msgspec.json.encode(_Head(VERSION, as_of, ended))
    before, last = head.removesuffix(b"}") + _ROWS_FOLLOW, b""
    for entry in entries:
        if entry.path <= last:
            raise ValueError("entries of a manifest come in order of path")
        last = entry.path
        row = _Row(
            escape(entry.path),
            entry.kind,
            clamp_nanoseconds(entry.mtime_ns),
            entry.mode,
            entry.size,
            entry.sha256,
            escape(entry.target) if entry.target else "",
            entry.etag,
            entry.version_id,
        )
        yield before + msgspec.json.encode(row)
        before = _FOLLOWS
    yield (b"\n" if last else before) + _END


def encode_manifest(entries: Iterable[Entry], as_of: str, execution: AsOf | None = None) -> bytes:
    """`manifest.json` of entries in any order."""
    return b"".join(manifest_lines(sorted(entries, key=lambda entry: entry.path), as_of, execution))


def read_manifest(file: BinaryIO, most_bytes: int) -> Manifest:
    """The manifest in this file, which may come from anyone: rows with illegal paths are set aside.

    Line by line, if it is written as `manifest_lines` does; raises `NotByLine` when it turns out not to be. Raises
    `ManifestUnreadable` when it is no manifest, or longer.
    """
    head = file.readline(most_bytes + 1)
    if not head.endswith(_ROWS_FOLLOW):
        data = head + file.read(most_bytes + 1 - len(head))
        if len(data) > most_bytes:
            raise ManifestUnreadable(f"{MANIFEST_NAME} is longer than {most_bytes:,} bytes")
        return decode_manifest(data)
    try:
        known = msgspec.json.decode(head.removesuffix(_ROWS_FOLLOW) + b"}", type=_Head)
        return _manifest(known, _rows(file, most_bytes - len(head)))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotByLine from error


def decode_manifest(data: bytes) -> Manifest:
    """The same of a whole one in these bytes; a row that is none is set aside. Raises `ManifestUnreadable`."""
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        damaged = _read_damaged(data)
        if damaged is None:
            raise ManifestUnreadable(f"{MANIFEST_NAME} is not readable: {error}") from error
        document = damaged
    broken: list[Skipped] = []
    manifest = _manifest(document, _whole_rows(document.entries, broken))
    return replace(manifest, skipped=(*manifest.skipped, *broken), damaged=True) if broken else manifest


def _read_damaged(data: bytes) -> _Document | None:
    """One that is no JSON, line by line: its head, its rows, of which some are none, and its end.

    None when its head or its end is not ours: then it is not known what else is missing.
    """
    head, follows, rest = data.partition(_ROWS_FOLLOW)
    if not follows or b"\n" in head or not rest.endswith(b"\n" + _END):
        return None
    try:
        known = msgspec.json.decode(head + b"}", type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    lines = rest.removesuffix(b"\n" + _END).split(b"\n")
    rows = [msgspec.Raw(line.removesuffix(b",")) for line in lines]
    return _Document(known.version, known.as_of, known.execution, entries=rows)


def _whole_rows(rows: Iterable[msgspec.Raw], broken: list[Skipped]) -> Iterator[_Row]:
    """One damaged row makes no other file unreadable."""
    for number, row in enumerate(rows, start=1):
        try:
            yield _decoder.decode(row)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            broken.append(Skipped(f"row {number}", f"its row in the manifest is broken: {error}"))


def _rows(file: BinaryIO, left: int) -> Iterator[_Row]:
    """The rows up to the end of the file, each but the last with a comma behind it."""
    follows, is_first = False, True
    while (line := file.readline(left + 1)) != _END:
        left -= len(line)
        if left < 0:
            raise ManifestUnreadable(f"{MANIFEST_NAME} is longer than a manifest may be")
        if not (follows or is_first):
            raise NotByLine
        follows, is_first = line.endswith(_FOLLOWS), False
        yield _decoder.decode(line.removesuffix(_FOLLOWS))
    if follows or file.read(1):  # a comma without a row, or something after the end
        raise NotByLine


def _manifest(head: _Head, rows: Iterable[_Row]) -> Manifest:
    if head.version not in READABLE:
        raise ManifestUnreadable(
            f"{MANIFEST_NAME} has version {head.version}; this release reads versions 1 to {VERSION}"
        )
    entries = Table(ENTRIES)
    skipped = []
    for row in rows:
        try:
            entry = _entry(row)
        except (IllegalName, UnicodeEncodeError) as error:
            skipped.append(Skipped(ascii(row.path), str(error)))
        else:
            entries[entry.path] = entry
    entries.pack()
    ended = None if head.execution is None else AsOf(head.execution.id, head.execution.number)
    return Manifest(head.as_of, entries, tuple(skipped), ended)


def _entry(row: _Row) -> Entry:
    target = unescape(row.target)
    if row.kind == "link" and (not target or b"\0" in target or len(target) > 4095):
        raise IllegalName("a link without a legal target")
    path = check_path(unescape(row.path))
    return Entry(path, row.kind, row.size, row.mtime_ns, row.mode, row.sha256, target, row.etag, row.version_id)
