"""One name of a workspace, as a value and packed into as few bytes as it takes (pure)."""

from __future__ import annotations

import marshal
import struct
from typing import Literal

import msgspec

from workspace_sync.table import Codec

Kind = Literal["file", "directory", "link"]
FARTHEST_NANOSECONDS = 2**63 - 1
_KINDS: tuple[Kind, ...] = ("file", "directory", "link")
_HEAD = struct.Struct("<BBHqq")
_SHA256_SIZE = 32
_MD5_SIZE = 16
_SHA256, _ETAG, _REST = 1, 2, 4
_ODD = b"\xff"
"""Begins what has a number that no file system and no store of this world would tell."""


class Entry(msgspec.Struct, frozen=True, gc=False):
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


def clamp_nanoseconds(moment: int) -> int:
    """A file's time within what the manifest can say (the years 1677 to 2262)."""
    return max(-FARTHEST_NANOSECONDS, min(moment, FARTHEST_NANOSECONDS))


def pack_entry(entry: Entry) -> bytes:
    """The entry without its path: digests as bytes where they are digests, and the rest as it is."""
    sha256, etag = _raw(entry.sha256, _SHA256_SIZE), _raw(entry.etag, _MD5_SIZE)
    rest = ("" if sha256 else entry.sha256, "" if etag else entry.etag, entry.version_id, entry.target)
    has = (_SHA256 if sha256 else 0) | (_ETAG if etag else 0) | (_REST if any(rest) else 0)
    try:
        head = _HEAD.pack(_KINDS.index(entry.kind), has, entry.mode, entry.size, entry.mtime_ns)
    except struct.error:
        return _ODD + marshal.dumps(msgspec.structs.astuple(entry)[1:], 2)
    return head + sha256 + etag + (marshal.dumps(rest, 2) if has & _REST else b"")


def unpack_entry(path: bytes, data: bytes, start: int = 0) -> Entry:
    """The entry whose bytes begin there."""
    if data.startswith(_ODD, start):
        return Entry(path, *marshal.loads(data[start + 1 :]))  # noqa: S302 - our own, of this process
    kind, has, mode, size, mtime_ns = _HEAD.unpack_from(data, start)
    end = start + _HEAD.size
    sha256 = etag = version_id = ""
    target = b""
    if has & _SHA256:
        sha256 = data[end : (end := end + _SHA256_SIZE)].hex()
    if has & _ETAG:
        etag = data[end : (end := end + _MD5_SIZE)].hex()
    if has & _REST:
        other_sha256, other_etag, version_id, target = marshal.loads(data[end:])  # noqa: S302 - our own, of this process
        sha256, etag = sha256 or other_sha256, etag or other_etag
    return Entry(path, _KINDS[kind], size, mtime_ns, mode, sha256, target, etag, version_id)


ENTRIES = Codec(lambda _, entry: pack_entry(entry), unpack_entry)


def _raw(text: str, size: int) -> bytes:
    """The bytes that are written so, in small letters; none when it is no such text."""
    if len(text) != 2 * size:
        return b""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        return b""
    return raw if raw.hex() == text else b""
