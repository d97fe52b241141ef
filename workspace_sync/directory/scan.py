"""A live directory, walked once: what is in it now, without reading any file.

The directory is hostile: it is walked with lists of names instead of recursion, a bounded number of descriptors at a
time, no link followed, special files only counted. What vanishes or is swapped during the walk is left out; the next
walk sees it. The walk goes in order of path, name by name, and ends where a manifest can hold no more names.
"""

from __future__ import annotations

import errno
import heapq
import marshal
import math
import os
import stat
import string
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

import msgspec

from workspace_sync.directory.directory_walker import DirectoryWalker
from workspace_sync.directory.safe_open import GONE, Opener, examine
from workspace_sync.entry import ENTRIES, Entry, clamp_nanoseconds
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import Skipped
from workspace_sync.names import PATH_BYTES, escape, parents
from workspace_sync.store import Written
from workspace_sync.table import Codec, Table

ROW_BYTES = 300
"""What one manifest row takes besides its path, about."""
ESCAPED = 3
"""How many times as long a name that does not stand for itself can be in a manifest."""
_PLAIN = string.ascii_letters.encode() + string.digits.encode() + b"_.,'()=@!-/"
LOOKS = 1_000
"""After so many names of one directory the time is looked at."""
MOST_CLOSED = 10_000
"""Names that one walk looks at in directories that are closed to this process."""
NOT_STORED = Written("")
Enter = Callable[[int, bytes], None]
"""Called with the descriptor and the path of each directory, before it is listed."""


_PACKED = struct.Struct("<qqqQ")


class Signature(msgspec.Struct, frozen=True, gc=False):
    """What tells a changed file from an unchanged one without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def _pack(_: bytes, signature: Signature) -> bytes:
    values = msgspec.structs.astuple(signature)
    try:
        return _PACKED.pack(*values)
    except struct.error:  # some file systems keep times that are far away
        return marshal.dumps(values, 2).ljust(_PACKED.size + 1)


def _unpack(_: bytes, data: bytes) -> Signature:
    return Signature(*(_PACKED.unpack(data) if len(data) == _PACKED.size else marshal.loads(data)))  # noqa: S302 - ours


SIGNATURES = Codec(_pack, _unpack)


@dataclass
class Scan:
    """Entries by path (files without their hash), a signature per file, and what was left out.

    `unread` could not be listed or looked at: what is beneath is unknown, not gone. So is all from `cut` on, in order
    of path. `linked` are files that have other names; a change made by one of these shows under that name alone.
    """

    entries: Table[Entry] = field(default_factory=lambda: Table(ENTRIES))
    signatures: Table[Signature] = field(default_factory=lambda: Table(SIGNATURES))
    skipped: list[Skipped] = field(default_factory=list)
    unread: set[bytes] = field(default_factory=set)
    cut: bytes | None = None
    linked: set[bytes] = field(default_factory=set)
    special: set[bytes] = field(default_factory=set)
    names_bytes: int = 0

    def is_unknown(self, path: bytes) -> bool:
        """Whether the path may be there although it was not found."""
        return self.is_beyond(path) or is_below(path, self.unread)

    def is_beyond(self, path: bytes) -> bool:
        """Whether it comes after the names that a manifest has room for."""
        return self.cut is not None and path.split(b"/") >= self.cut.split(b"/")


def is_below(path: bytes, directories: set[bytes]) -> bool:
    """Whether the path, or one above it, is among these."""
    return path in directories or any(each in directories for each in parents(path)) if directories else False


def row_bytes(path: bytes) -> int:
    """What a name takes in a manifest at most."""
    return ROW_BYTES + (len(path) if not path.translate(None, _PLAIN) else len(path) * ESCAPED)


def signature_of(status: os.stat_result) -> Signature:
    """The signature of a regular file."""
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def file_entry(path: bytes, status: os.stat_result, sha256: str = "", stored: Written | Entry = NOT_STORED) -> Entry:
    """A regular file as an entry, with what the store calls the object that holds its bytes."""
    return Entry(
        path, "file", status.st_size, clamp_nanoseconds(status.st_mtime_ns), stat.S_IMODE(status.st_mode) & 0o777,
        sha256, etag=stored.etag, version_id=stored.version_id,
    )  # fmt: skip


def scan_directory(
    root: int,
    limits: TransferLimits,
    opener: Opener | None = None,
    *,
    top: bytes = b"",
    until: float = math.inf,
    enter: Enter | None = None,
) -> Scan:
    """Walk the directory behind the descriptor `root`, or what is below `top` in it.

    Raises `WorkspaceTooLarge` when it is not done at `until`, a time of `time.monotonic`.
    """
    with DirectoryWalker(root, bound_opener(opener)) as descent:
        return _Walk(descent, limits, until, enter).walk(top)


def bound_opener(opener: Opener | None) -> Opener | None:
    """The same opener, so many times: it may ask another process, and there may be closed names without end."""
    left = MOST_CLOSED

    def open_one(path: bytes) -> int:
        nonlocal left
        if opener is None or not left:
            reason = f"one of more than {MOST_CLOSED:,} names in directories without permission"
            raise PermissionError(errno.EACCES, reason)
        left -= 1
        return opener(path)

    return None if opener is None else open_one


@dataclass
class _Listing:
    """Names of one directory that are still to be looked at, the next one last; with `more` the first ends the walk."""

    path: bytes
    names: list[bytes]
    more: bool = False


class _Walk:
    """One walk. All lists of names together are kept to what a manifest still has room for, whatever the tree is."""

    def __init__(self, descent: DirectoryWalker, limits: TransferLimits, until: float, enter: Enter | None) -> None:
        self._descent = descent
        self._limits = limits
        self._until = until
        self._enter = enter
        self._scan = Scan()
        self._waiting: list[_Listing] = []
        self._names = 0
        self._full = 0  # the first of the lists that are not cut down to one name

    def walk(self, top: bytes) -> Scan:
        """Everything below a directory."""
        deeper: bytes | None = top
        while (deeper is not None or self._waiting) and self._scan.cut is None:
            self._check_time()
            if deeper is not None:
                self._list(deeper)
            deeper = self._add_names(self._waiting[-1])
            if deeper is None:
                self._names -= len(self._waiting.pop().names)
                self._full = min(self._full, len(self._waiting))
        self._scan.entries.pack()
        self._scan.signatures.pack()
        return self._scan

    def _check_time(self) -> None:
        if time.monotonic() > self._until:
            raise WorkspaceTooLarge("the workspace takes longer to look through than there is time")

    def _list(self, path: bytes) -> None:
        """Put the names in one directory on the list, and strike those that come last of all for which is no room."""
        most = max(0, self._limits.manifest_bytes - self._scan.names_bytes) // ROW_BYTES + 2
        listing = _Listing(path, [])
        try:
            directory = self._descent.enter(path)
            if self._enter is not None:
                self._enter(directory, path)
            with os.scandir(directory) as found:
                names = self._read(found)
                listing.names = list(islice(names, most))
                listing.more = (following := next(names, None)) is not None
                if following is not None:
                    listing.names = heapq.nsmallest(most, chain(listing.names, (following,), names))
        except OSError as error:
            if not path:
                raise
            if error.errno not in GONE:
                leave_out(self._scan, path, f"cannot be listed: {error.strerror}")
        listing.names.sort(reverse=True)
        self._waiting.append(listing)
        self._names += len(listing.names)
        self._strike(most)

    def _read(self, found: Iterator[os.DirEntry[str]]) -> Iterator[bytes]:
        for number, item in enumerate(found):
            if number % LOOKS == 0:
                self._check_time()
            yield os.fsencode(item.name)

    def _strike(self, most: int) -> None:
        while self._names > most and self._full < len(self._waiting):
            listing = self._waiting[self._full]
            excess = min(self._names - most, len(listing.names) - 1)
            if excess > 0:
                del listing.names[:excess]
                listing.more = True
                self._names -= excess
            if self._names > most:
                self._full += 1

    def _add_names(self, listing: _Listing) -> bytes | None:
        """Add names of one directory up to the next directory among them, which is returned; None at their end."""
        path, directory = listing.path, -1
        while listing.names:
            name = listing.names.pop()
            self._names -= 1
            inner = path + b"/" + name if path else name
            try:
                directory = self._descent.enter(path) if directory < 0 else directory
            except OSError as error:
                if error.errno not in GONE:
                    leave_out(self._scan, path, f"cannot be listed: {error.strerror}")
                return None
            entry = None
            if not listing.more or listing.names:
                entry = add_name(directory, name, inner, self._scan, self._descent.opener)
            if self._scan.names_bytes > self._limits.manifest_bytes or (listing.more and not listing.names):
                _cut(self._scan, inner, self._limits)
                return None
            if entry is not None and entry.kind == "directory":
                return inner
        return None


def _cut(scan: Scan, path: bytes, limits: TransferLimits) -> None:
    scan.cut = path
    scan.entries.pop(path, None)
    scan.signatures.pop(path, None)
    reason = f"this and what follows in order of path do not fit into a manifest of {limits.manifest_bytes} bytes"
    scan.skipped.append(Skipped(escape(path), reason))


def add_name(directory: int, name: bytes, path: bytes, scan: Scan, opener: Opener | None) -> Entry | None:
    """Add what a name in an open directory is now; None when that is nothing a manifest holds."""
    scan.names_bytes += row_bytes(path)
    try:
        if len(path) > PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        status, target = examine(directory, name, path, opener)
    except OSError as error:
        if error.errno not in GONE and error.errno != errno.EINVAL:  # no longer a link
            leave_out(scan, path, f"cannot be examined: {error.strerror}")
        return None
    mtime_ns = clamp_nanoseconds(status.st_mtime_ns)
    if stat.S_ISDIR(status.st_mode):
        scan.entries[path] = Entry(path, "directory", 0, mtime_ns, stat.S_IMODE(status.st_mode) & 0o777)
    elif stat.S_ISLNK(status.st_mode):
        scan.names_bytes += row_bytes(target)
        scan.entries[path] = Entry(path, "link", 0, mtime_ns, 0o777, "", target)
    elif stat.S_ISREG(status.st_mode):
        scan.entries[path] = file_entry(path, status)
        scan.signatures[path] = signature_of(status)
        if status.st_nlink > 1:
            scan.linked.add(path)
    else:
        scan.special.add(path)
    return scan.entries.get(path)


def leave_out(scan: Scan, path: bytes, reason: str) -> None:
    """What is at this path and beneath is unknown, not gone."""
    scan.unread.add(path)
    shown = escape(path) if len(path) <= PATH_BYTES else escape(path[:80]) + "..."
    scan.skipped.append(Skipped(shown, reason))
