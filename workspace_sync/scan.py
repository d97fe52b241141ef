"""A live directory, walked once: what is in it now, without reading any file.

The directory is hostile: it is walked with lists of names instead of recursion, a bounded number of descriptors at a
time, no link followed, special files only counted. What vanishes or is swapped during the walk is left out; the next
walk sees it. The walk goes in order of path, name by name, and ends where a manifest can hold no more names.
"""

from __future__ import annotations

import errno
import heapq
import math
import os
import stat
import string
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from workspace_sync.confined import GONE, Opener, examine
from workspace_sync.descent import Descent
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import Entry, Skipped, clamp_nanoseconds
from workspace_sync.names import PATH_BYTES, escape, parents

ROW_BYTES = 300
"""What one manifest row takes besides its path, about."""
ESCAPED = 3
"""How many times as long a name that does not stand for itself can be in a manifest."""
_PLAIN = string.ascii_letters.encode() + string.digits.encode() + b"_.,'()=@!-/"
Enter = Callable[[int, bytes], None]
"""Called with the descriptor and the path of each directory, before it is listed."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What tells a changed file from an unchanged one without reading it."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass
class Scan:
    """Entries by path (files without their hash), a signature per file, and what was left out.

    `unread` could not be listed or looked at: what is beneath is unknown, not gone. So is all from `cut` on, in order
    of path. `linked` are files that have other names; a change made by one of these is told under that name alone.
    """

    entries: dict[bytes, Entry] = field(default_factory=dict)
    signatures: dict[bytes, Signature] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    unread: set[bytes] = field(default_factory=set)
    cut: bytes | None = None
    linked: set[bytes] = field(default_factory=set)
    special: set[bytes] = field(default_factory=set)
    names_bytes: int = 0

    def is_unknown(self, path: bytes) -> bool:
        """Whether the path may be there although it was not found."""
        if self.cut is not None and path.split(b"/") >= self.cut.split(b"/"):
            return True
        return is_below(path, self.unread)


def is_below(path: bytes, directories: set[bytes]) -> bool:
    """Whether the path, or one above it, is among these."""
    return path in directories or any(each in directories for each in parents(path)) if directories else False


def row_bytes(path: bytes) -> int:
    """What a name takes in a manifest at most."""
    return ROW_BYTES + (len(path) if not path.translate(None, _PLAIN) else len(path) * ESCAPED)


def signature_of(status: os.stat_result) -> Signature:
    """The signature of a regular file."""
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def file_entry(path: bytes, status: os.stat_result, sha256: str = "") -> Entry:
    """A regular file as an entry."""
    mtime_ns = clamp_nanoseconds(status.st_mtime_ns)
    return Entry(path, "file", status.st_size, mtime_ns, stat.S_IMODE(status.st_mode) & 0o777, sha256)


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
    scan = Scan()
    with Descent(root, opener) as descent:
        open_lists = [(top, _names(descent, top, scan, limits, enter))]
        while open_lists and scan.cut is None:
            path, names = open_lists[-1]
            if time.monotonic() > until:
                raise WorkspaceTooLarge("the workspace takes longer to look through than there is time")
            deeper = _add_names(descent, path, names, scan, limits)
            if deeper is None:
                open_lists.pop()
            else:
                open_lists.append((deeper, _names(descent, deeper, scan, limits, enter)))
    return scan


def _names(descent: Descent, path: bytes, scan: Scan, limits: TransferLimits, enter: Enter | None) -> Iterator[bytes]:
    """The names in one directory, in order; no more of them than a manifest could hold."""
    most = max(0, limits.manifest_bytes - scan.names_bytes) // ROW_BYTES + 2
    try:
        directory = descent.enter(path)
        if enter is not None:
            enter(directory, path)
        with os.scandir(directory) as listing:
            return iter(heapq.nsmallest(most, (os.fsencode(item.name) for item in listing)))
    except OSError as error:
        if not path:
            raise
        if error.errno not in GONE:
            _leave_out(scan, path, "listed", error)
    return iter(())


def _add_names(
    descent: Descent, path: bytes, names: Iterator[bytes], scan: Scan, limits: TransferLimits
) -> bytes | None:
    """Add names of one directory up to the next directory among them, which is returned; None at their end."""
    directory = -1
    for name in names:
        inner = path + b"/" + name if path else name
        try:
            directory = descent.enter(path) if directory < 0 else directory
        except OSError as error:
            if error.errno not in GONE:
                _leave_out(scan, path, "listed", error)
            return None
        entry = add_name(directory, name, inner, scan, descent.opener)
        if scan.names_bytes > limits.manifest_bytes:
            _cut(scan, inner, limits)
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
            _leave_out(scan, path, "examined", error)
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


def _leave_out(scan: Scan, path: bytes, what: str, error: OSError) -> None:
    scan.unread.add(path)
    shown = escape(path) if len(path) <= PATH_BYTES else escape(path[:80]) + "..."
    scan.skipped.append(Skipped(shown, f"cannot be {what}: {error.strerror}"))
