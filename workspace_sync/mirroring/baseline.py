"""What the store has of a workspace by our own doing, and as what signature of each file it came there (pure)."""

from __future__ import annotations

import contextlib
import marshal
import struct
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from workspace_sync.directory.scan import Signature
from workspace_sync.entry import Entry, pack_entry, unpack_entry
from workspace_sync.names import key_of
from workspace_sync.table import Codec, Table

_SIGNS = struct.Struct("<qQ")
_OURS, _OWN_KEY, _SIGNED, _OTHER = 1, 2, 4, 8
_LENGTH = struct.Struct("<I")


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A name as the store has it by our own doing; `signature` is None when the file has to be read to be known.

    Not `ours`: an object that no manifest names. Another client has put it there, and it is not for us to remove.
    """

    entry: Entry
    key: str = ""
    signature: Signature | None = None
    ours: bool = True

    def unsure(self) -> Seen:
        """The same while it is written or removed: until the store has answered, it may hold anything or nothing."""
        return replace(self, entry=replace(self.entry, sha256="", etag="", version_id=""), signature=None)


class Baseline(Table[Seen]):
    """All of it by path. What is `ours` is what the manifest is to name."""

    def __init__(self, values: Mapping[bytes, Seen] | None = None) -> None:
        self.file_bytes = 0
        """Of the files that are ours."""
        self.changed = True
        """Whether the manifest would be another one than when this was last set to False."""
        super().__init__(SEEN, values)

    def __setitem__(self, path: bytes, seen: Seen) -> None:
        with self._writing:
            before = self.get(path)
            self._account(before, seen)
            self._count += before is None
            self._set(path, seen)

    def __delitem__(self, path: bytes) -> None:
        with self._writing:
            self._account(self.get(path), None)
            super().__delitem__(path)

    def _account(self, before: Seen | None, now: Seen | None) -> None:
        was, will_be = _get_named_entry(before), _get_named_entry(now)
        self.changed = self.changed or was != will_be
        self.file_bytes += _file_bytes(will_be) - _file_bytes(was)


def _get_named_entry(seen: Seen | None) -> Entry | None:
    return seen.entry if seen is not None and seen.ours else None


def _file_bytes(entry: Entry | None) -> int:
    return entry.size if entry is not None and entry.kind == "file" else 0


def _pack(path: bytes, seen: Seen) -> bytes:
    """The signature of a file that is as its entry says takes no room but for what the entry does not have."""
    ours = _OURS if seen.ours else 0
    entry, signature = pack_entry(seen.entry), seen.signature
    own_key = seen.key == key_of(path)
    if own_key or not seen.key:
        kept = ours | (_OWN_KEY if own_key else 0)
        if signature is None:
            return bytes([kept]) + entry
        if (signature.size, signature.mtime_ns) == (seen.entry.size, seen.entry.mtime_ns):
            with contextlib.suppress(struct.error):
                return bytes([kept | _SIGNED]) + _SIGNS.pack(signature.ctime_ns, signature.inode) + entry
    other = marshal.dumps((seen.key, None if signature is None else msgspec.structs.astuple(signature)), 2)
    return bytes([ours | _OTHER]) + _LENGTH.pack(len(other)) + other + entry


def _unpack(path: bytes, data: bytes) -> Seen:
    has, ours = data[0], bool(data[0] & _OURS)
    if has & _OTHER:
        end = 1 + _LENGTH.size + _LENGTH.unpack_from(data, 1)[0]
        key, values = marshal.loads(data[1 + _LENGTH.size : end])  # noqa: S302 - our own, of this process
        return Seen(unpack_entry(path, data, end), key, values and Signature(*values), ours)
    key = key_of(path) if has & _OWN_KEY else ""
    if not has & _SIGNED:
        return Seen(unpack_entry(path, data, 1), key, None, ours)
    entry = unpack_entry(path, data, 1 + _SIGNS.size)
    return Seen(entry, key, Signature(entry.size, entry.mtime_ns, *_SIGNS.unpack_from(data, 1)), ours)


SEEN = Codec(_pack, _unpack)
