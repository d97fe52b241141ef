"""A live directory, walked once: what is in it now, without reading any file.

The directory is hostile: it is walked with a list of paths instead of recursion, a bounded number of descriptors at a
time, no link followed, special files only counted. What vanishes or is swapped during the walk is left out; the next
walk sees it.
"""

from __future__ import annotations

import math
import os
import stat
import time
from dataclasses import dataclass, field

from workspace_sync.confined import GONE, Opener, examine
from workspace_sync.descent import Descent
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits
from workspace_sync.manifest import Entry, Skipped, clamp_nanoseconds
from workspace_sync.names import PATH_BYTES, escape

ROW_BYTES = 200
"""What one manifest row takes besides its path, about."""


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

    `unread` are directories that could not be listed: what is beneath them is unknown, not gone.
    """

    entries: dict[bytes, Entry] = field(default_factory=dict)
    signatures: dict[bytes, Signature] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    unread: set[bytes] = field(default_factory=set)
    special_files: int = 0
    names_bytes: int = 0


def signature_of(status: os.stat_result) -> Signature:
    """The signature of a regular file."""
    return Signature(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def file_entry(path: bytes, status: os.stat_result, sha256: str = "") -> Entry:
    """A regular file as an entry."""
    mtime_ns = clamp_nanoseconds(status.st_mtime_ns)
    return Entry(path, "file", status.st_size, mtime_ns, stat.S_IMODE(status.st_mode) & 0o777, sha256)


def scan_directory(root: int, limits: TransferLimits, opener: Opener | None = None, *, until: float = math.inf) -> Scan:
    """Walk the directory behind the descriptor `root`.

    Raises `WorkspaceTooLarge`, also when it is not done at `until`, a time of `time.monotonic`.
    """
    scan = Scan()
    waiting = [b""]
    with Descent(root, opener) as descent:
        while waiting:
            if time.monotonic() > until:
                raise WorkspaceTooLarge("the workspace takes longer to look through than there is time")
            path = waiting.pop()
            try:
                waiting += _list_directory(descent.enter(path), path, scan, limits, opener)
            except OSError as error:
                if not path:
                    raise
                if error.errno not in GONE:
                    scan.unread.add(path)
                    scan.skipped.append(Skipped(escape(path), f"cannot be listed: {error.strerror}"))
    return scan


def _list_directory(
    directory: int, path: bytes, scan: Scan, limits: TransferLimits, opener: Opener | None
) -> list[bytes]:
    """Add what is in one directory; returns the directories in it."""
    deeper = []
    with os.scandir(directory) as listing:
        for item in listing:
            name = os.fsencode(item.name)
            inner = path + b"/" + name if path else name
            if len(inner) > PATH_BYTES:
                scan.unread.add(inner)
                scan.skipped.append(Skipped(escape(inner[:80]) + "...", f"path longer than {PATH_BYTES} bytes"))
                continue
            scan.names_bytes += len(inner) + ROW_BYTES
            if scan.names_bytes > limits.manifest_bytes:
                raise WorkspaceTooLarge(
                    f"the workspace holds more names than a manifest of {limits.manifest_bytes} bytes can list; "
                    "nothing more is mirrored until there are fewer"
                )
            if _add(directory, name, inner, scan, opener):
                deeper.append(inner)
    return deeper


def _add(directory: int, name: bytes, path: bytes, scan: Scan, opener: Opener | None) -> bool:
    """Add one name; returns whether it is a directory."""
    try:
        status, target = examine(directory, name, path, opener)
    except OSError as error:
        if error.errno not in GONE and error.errno != 22:  # EINVAL: no longer a link
            scan.unread.add(path)
            scan.skipped.append(Skipped(escape(path), f"cannot be examined: {error.strerror}"))
        return False
    mtime_ns = clamp_nanoseconds(status.st_mtime_ns)
    if stat.S_ISDIR(status.st_mode):
        mode = stat.S_IMODE(status.st_mode) & 0o777
        scan.entries[path] = Entry(path, "directory", 0, mtime_ns, mode)
        return True
    if stat.S_ISLNK(status.st_mode):
        scan.names_bytes += len(target)
        scan.entries[path] = Entry(path, "link", 0, mtime_ns, 0o777, "", target)
    elif stat.S_ISREG(status.st_mode):
        scan.entries[path] = file_entry(path, status)
        scan.signatures[path] = signature_of(status)
    else:
        scan.special_files += 1
    return False
