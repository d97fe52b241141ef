"""Files whose bytes the store has under another key, as after a rename: copied there and not sent. Blocking."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workspace_sync.directory.safe_open import open_regular
from workspace_sync.directory.scan import Scan, Signature, file_entry, signature_of
from workspace_sync.errors import StoreError
from workspace_sync.mirroring.baseline import Seen
from workspace_sync.mirroring.plan import FlushPlan
from workspace_sync.mirroring.transfer import FileChanged, SteadyReader, Transfer, keep_if_settled
from workspace_sync.names import key_of

# When an open file came into being, which code cannot set, unlike its other times: statx of Linux.

_EMPTY_PATH = 0x1000
_BIRTH = 0x800
_SIZE = 256
_MASK = struct.Struct("=I")
_MOMENT = struct.Struct("=qI")
_MOMENT_AT = 80
_libc = ctypes.CDLL(None)


def birth_time_ns(descriptor: int) -> int | None:
    """Nanoseconds since the epoch; None where the file system or the C library does not say."""
    statx = getattr(_libc, "statx", None)
    told = ctypes.create_string_buffer(_SIZE)
    if statx is None or statx(descriptor, b"", _EMPTY_PATH, ctypes.c_uint(_BIRTH), told) != 0:
        return None
    if not _MASK.unpack_from(told)[0] & _BIRTH:
        return None
    seconds, nanoseconds = _MOMENT.unpack_from(told, _MOMENT_AT)
    return int(seconds) * 10**9 + int(nanoseconds)


WORTH_BYTES = 1 << 20
"""Files from this size on are read once more to find out whether the store has their bytes; smaller ones are sent."""


@dataclass
class Copies:
    """What the store has that stays as it is during one flush, by what tells that a file may be the same.

    `moved` are files that are gone, by inode, size and time; `sized` all others by size.
    """

    moved: dict[tuple[int, int, int], Seen] = field(default_factory=dict)
    sized: dict[int, dict[str, Seen]] = field(default_factory=dict)
    signatures: Mapping[bytes, Signature] = field(default_factory=dict)
    """Of the files to be sent, and others."""


def copies_of(plan: FlushPlan, baseline: Mapping[bytes, Seen], scan: Scan, *, trusting: bool) -> Copies:
    """What files to be sent may be copied from.

    `trusting`: a file of a gone one's inode, size and time is that one; otherwise it is read, whatever its size.
    """
    copies = Copies(signatures=scan.signatures)
    if not plan.send:
        return copies
    _add_moved(copies, (baseline[path] for path in plan.delete), trusting=trusting)
    sizes = {scan.entries[path].size for path in plan.send}
    sizes = {size for size in sizes if size >= WORTH_BYTES}
    if sizes:
        sending = set(plan.send)
        for path, seen in baseline.items():
            if seen.entry.size in sizes and seen.entry.sha256 and seen.key and path not in sending:
                copies.sized.setdefault(seen.entry.size, {})[seen.entry.sha256] = seen
    return copies


def copy_to(transfer: Transfer, path: bytes, copies: Copies) -> Seen | None:
    """Copy what the file holds inside the store; None when it is to be sent, also where the store does not copy it.

    Raises `OSError`.
    """
    signature = copies.signatures[path]
    moved = copies.moved.get(_mark(signature))
    if moved is None and signature.size not in copies.sized:
        return None
    read_at_ns = time.time_ns()
    descriptor, status = open_regular(transfer.root, path, transfer.opener)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        now = signature_of(status)
        if moved is None or _mark(now) != _mark(signature) or not _has_existed(descriptor, moved):
            reader = SteadyReader(file, status, transfer.stop)
            try:
                reader.exhaust()
            except FileChanged:
                return None
            moved = copies.sized.get(status.st_size, {}).get(reader.sha256)
    if moved is None:
        return None
    key = key_of(path)
    try:
        written = transfer.store.copy(transfer.prefix + moved.key, transfer.prefix + key, etag=moved.entry.etag)
    except StoreError:  # it was removed or changed, or this server does not copy; sending tells what else it is
        return None
    return Seen(file_entry(path, status, moved.entry.sha256, written), key, keep_if_settled(now, read_at_ns))


def _has_existed(descriptor: int, moved: Seen) -> bool:
    """Whether the open file was there already when the gone one was looked at: its number may be that of a new one."""
    born = birth_time_ns(descriptor)
    return born is not None and moved.signature is not None and born <= moved.signature.ctime_ns


def _add_moved(copies: Copies, gone: Iterable[Seen], *, trusting: bool) -> None:
    for seen in gone:
        if not seen.entry.sha256 or not seen.key:
            continue
        copies.sized.setdefault(seen.entry.size, {})[seen.entry.sha256] = seen
        if trusting and seen.signature is not None:
            copies.moved[_mark(seen.signature)] = seen


def _mark(signature: Signature) -> tuple[int, int, int]:
    return signature.inode, signature.size, signature.mtime_ns
