"""Files of the workspace: stat, list, read, write, remove. Blocking; runs on threads with the user's identity.

No link is followed and no special file is opened. Identity is what keeps the user out of what is not the user's; the
care with links keeps an answer about one path from being about another.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from heapq import nsmallest
from typing import Any

from ..refusal import Refusal, of_one
from .paths import directory, open_directory, split_path

MAX_LISTED = 100_000
MAX_LISTED_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 64
"""Levels below a listed directory that are descended; also the descriptors one listing or removal holds."""
WALK_SECONDS = 30.0
PRIVATE = ("__pycache__", "node_modules")
"""Directories that programs keep for themselves; hidden ones are as well."""
UPLOAD_PREFIX = ".sandcell-upload-"

SETTLED_SECONDS = 1.0
"""How long ago a file must have been changed for its version to tell every later change: file systems take the time of
a change from a clock that ticks a few hundred times a second, and two changes within one tick look alike."""

Entry = dict[str, Any]
Entries = list[Entry]
Version = tuple[int, int, int, int]


class Workspace:
    """The files below one directory. `detailed`: entries say whose they are and what their permissions are."""

    detailed = False
    closed: tuple[str, ...] = ()
    """Directories below the root that are listed and not entered."""

    def __init__(self, root: str) -> None:
        self._root = root

    def split(self, path: str) -> list[str]:
        """The components of a path below the directory; refuses what leads elsewhere."""
        return split_path(path)

    def stat(self, path: str) -> Entry:
        """What is at this path; a link is described, not followed."""
        parts = self.split(path)
        with directory(self._root, parts[:-1]) as parent:
            found = os.stat(parts[-1] if parts else ".", dir_fd=parent, follow_symlinks=False)
        return _versioned_entry("/".join(parts), found, detailed=self.detailed)

    def list(
        self, path: str, *, recursive: bool, limit: int, depth: int = MAX_DEPTH, private: bool = True
    ) -> list[Entry]:
        """The first `limit` entries below a directory: a directory before what is in it, siblings by name.

        Recursively, `depth` levels of them; without `private`, directories as programs keep are not entered. Of a
        directory that could not be looked through `unread` is true.
        """
        parts = self.split(path)
        listing = self._begin(limit, depth=depth if recursive else 1, private=private)
        with directory(self._root, parts) as top:
            listing.look(top, "/".join(parts), ())
        if listing.full:
            raise Refusal(413, "too_large", "the listing is too large: ask for fewer entries or for one directory")
        return listing.entries

    def list_page(self, path: str, *, limit: int, after: str = "") -> tuple[Entries, bool]:
        """All below a directory in the same order, from what comes after a path on; and whether there is more."""
        parts, last = self.split(path), self.split(after)
        if last[: len(parts)] != parts and last:
            raise Refusal(400, "invalid_request", "after is a path below the listed directory")
        listing = self._begin(limit, depth=MAX_DEPTH, private=True)
        with directory(self._root, parts) as top:
            listing.look(top, "/".join(parts), last[len(parts) :])
        return listing.entries, listing.more

    def _begin(self, limit: int, *, depth: int, private: bool) -> _Listing:
        if not 0 < limit <= MAX_LISTED:
            raise Refusal(400, "invalid_request", f"limit must be above 0 and at most {MAX_LISTED}")
        depth = min(depth, MAX_DEPTH)
        return _Listing(depth=depth, limit=limit, detailed=self.detailed, closed=self.closed, private=private)

    def open(self, path: str) -> tuple[int, Entry, Version]:
        """A descriptor of a regular file, what it is and of which version; the caller closes it."""
        parts = self.split(path)
        if not parts:
            raise IsADirectoryError(errno.EISDIR, "the workspace is a directory")
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
        try:
            with directory(self._root, parts[:-1]) as parent:
                try:
                    descriptor = os.open(parts[-1], flags, dir_fd=parent)
                except FileNotFoundError:
                    os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
                    # It is there all the same: a socket, of which gVisor says so and Linux ENXIO.
                    raise OSError(errno.ENXIO, "it is no regular file") from None
        except BlockingIOError as error:
            raise Refusal(503, "busy", "a process of the user holds a lease on the file") from error
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            entry = _versioned_entry("/".join(parts), found, detailed=self.detailed)
            return descriptor, entry, version_of(found)
        os.close(descriptor)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        raise Refusal(409, "not_a_file", "it is neither a file nor a directory")

    def upload(self, path: str) -> Upload:
        """Begin to write a file; parents are made."""
        parts = self.split(path)
        if not parts:
            raise IsADirectoryError(errno.EISDIR, "the workspace is a directory")
        return Upload(self._root, parts)

    def remove(self, path: str, *, recursive: bool) -> None:
        """Remove a file, an empty directory, or with `recursive` all below it; of the workspace itself, its content."""
        parts = self.split(path)
        with directory(self._root, parts[:-1]) as parent:
            removal = _Removal(recursive=recursive)
            if parts:
                removal.entry(parent, parts[-1])
            elif recursive:
                removal.empty(parent)
            else:
                raise IsADirectoryError(errno.EISDIR, "the workspace itself is only cleared recursively")

    def remove_all(self, paths: Sequence[str]) -> Entry:
        """Remove files and empty directories, one after another: which, by their places, were refused and why."""
        refused = []
        for index, path in enumerate(paths):
            try:
                self.remove(path, recursive=False)
            except (OSError, Refusal) as failure:
                refused.append(of_one(index, failure))
        return {"removed": len(paths) - len(refused), "refused": refused}


class Upload:
    """A file being written under a name of its own in its directory; it takes its place when it is complete."""

    def __init__(self, root: str, parts: list[str]) -> None:
        self._path = "/".join(parts)
        self._name = parts[-1]
        self._temporary = UPLOAD_PREFIX + os.urandom(8).hex()
        with directory(root, parts[:-1], make=True) as parent:
            mode = self._mode_of_old(parent)
            self._parent = os.dup(parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self._file = os.open(self._temporary, flags, mode, dir_fd=self._parent)
        except OSError:
            os.close(self._parent)
            raise

    def _mode_of_old(self, parent: int) -> int:
        """The permissions of the file that is replaced, if there is one; a directory is not."""
        try:
            old = os.stat(self._name, dir_fd=parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return 0o644
        if stat.S_ISDIR(old):
            raise IsADirectoryError(errno.EISDIR, "it is a directory")
        return stat.S_IMODE(old) & 0o755 | 0o600 if stat.S_ISREG(old) else 0o644

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append."""
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def commit(self) -> Entry:
        """Put the file in its place, at once and whole."""
        found = os.fstat(self._file)
        os.rename(self._temporary, self._name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        self._close()
        return _entry(self._path, found)

    def abort(self) -> None:
        """Leave no trace; safe after anything."""
        if self._file < 0:
            return
        with suppress(OSError):  # the user may have been quicker
            os.unlink(self._temporary, dir_fd=self._parent)
        self._close()

    def _close(self) -> None:
        os.close(self._file)
        os.close(self._parent)
        self._file = -1


class _Listing:
    """One listing in progress, with what is left of its limits.

    `more`: it ended before all that there is; `full`: since no more names fit.
    """

    def __init__(self, *, depth: int, limit: int, detailed: bool, closed: tuple[str, ...], private: bool) -> None:
        self.entries: list[Entry] = []
        self.more = self.full = False
        self._depth = depth
        self._private = private
        self._closed = closed
        self._detailed = detailed
        self._left = limit
        self._left_bytes = MAX_LISTED_BYTES
        self._deadline = Deadline()

    def look(self, top: int, prefix: str, after: Sequence[str]) -> None:
        """At what is in a directory and comes after this path below it."""
        if not self._below(top, prefix + "/" if prefix else "", 1, after):
            raise PermissionError(errno.EACCES, "what is in the directory cannot be looked at")

    def _below(self, descriptor: int, prefix: str, depth: int, after: Sequence[str]) -> bool:
        """False when something in it could not be looked at: its permissions let names be read alone."""
        first, whole, most = after[0] if after else "", True, self._left + 1
        names = nsmallest(most, (name for name in self._names(descriptor) if name >= first))
        self.more = self.more or len(names) == most
        for name in names:
            if not self._left or self.full:
                self.more = True
                break
            whole = self._add(descriptor, name, prefix, depth, after if name == first else ()) and whole
        return whole

    def _add(self, descriptor: int, name: str, prefix: str, depth: int, after: Sequence[str]) -> bool:
        """An entry and what is in it; of what is `after` itself, or above it, only that it is unread.

        False when it could not be looked at.
        """
        try:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return True
        except PermissionError:
            return False
        entry = _entry(prefix + name, found, detailed=self._detailed)
        if not after and not self._take(entry):
            return True
        if stat.S_ISDIR(found.st_mode) and self._enters(prefix, name):
            deeper = depth < self._depth
            if not (self._descend(descriptor, name, prefix, depth, after[1:]) if deeper else depth < MAX_DEPTH):
                entry["unread"] = True
                if after:
                    self.entries.append(entry)
        return True

    def _enters(self, prefix: str, name: str) -> bool:
        return prefix + name not in self._closed and (self._private or not (name[0] == "." or name in PRIVATE))

    def _descend(self, descriptor: int, name: str, prefix: str, depth: int, after: Sequence[str]) -> bool:
        """False when what is in it cannot be looked at."""
        try:
            below = open_directory(name, descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return True  # gone, or replaced
        except OSError:
            return False
        try:
            return self._below(below, f"{prefix}{name}/", depth + 1, after)
        finally:
            os.close(below)

    def _names(self, descriptor: int) -> Iterator[str]:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._deadline.check()
                yield entry.name

    def _take(self, entry: Entry) -> bool:
        """False when there is no room for it."""
        size = 6 * len(entry["path"]) + (230 if self._detailed else 100)
        self.full = self.full or size > self._left_bytes
        self.more = self.more or self.full
        if not self.full:
            self._left -= 1
            self._left_bytes -= size
            self.entries.append(entry)
        return not self.full


class _Removal:
    """One removal in progress. Trees deeper than the bound are removed in slices, hoisted to the top."""

    def __init__(self, *, recursive: bool) -> None:
        self._recursive = recursive
        self._deadline = Deadline()

    def entry(self, parent: int, name: str) -> None:
        """Remove one entry of a directory."""
        try:
            os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            if self._recursive:
                below = open_directory(name, parent)
                try:
                    self.empty(below)
                finally:
                    os.close(below)
            os.rmdir(name, dir_fd=parent)

    def empty(self, top: int) -> None:
        """Remove all that is in a directory."""
        self._clear(top, top, 1)

    def _clear(self, descriptor: int, top: int, depth: int) -> None:
        while names := _some_names(descriptor):
            for name in names:
                self._deadline.check()
                try:
                    self._drop(descriptor, name, top, depth)
                except FileNotFoundError:
                    continue

    def _drop(self, parent: int, name: str, top: int, depth: int) -> None:
        try:
            return os.unlink(name, dir_fd=parent)
        except IsADirectoryError:
            pass
        if depth >= MAX_DEPTH:
            hoisted = UPLOAD_PREFIX + os.urandom(8).hex()
            return os.rename(name, hoisted, src_dir_fd=parent, dst_dir_fd=top)
        below = open_directory(name, parent)
        try:
            self._clear(below, top, depth + 1)
        finally:
            os.close(below)
        return os.rmdir(name, dir_fd=parent)


class Deadline:
    """Of a walk through a tree."""

    def __init__(self) -> None:
        self._at = time.monotonic() + WALK_SECONDS

    def check(self) -> None:
        if time.monotonic() > self._at:
            raise TimeoutError(errno.ETIMEDOUT, f"it took longer than {WALK_SECONDS:g} s; what was done is done")


def _some_names(descriptor: int, count: int = 1000) -> list[str]:
    with os.scandir(descriptor) as entries:
        return [entry.name for entry, _ in zip(entries, range(count))]


def version_of(found: os.stat_result) -> Version:
    """What differs once a file has been written to, or another has taken its place."""
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino


def format_version(version: Version) -> str:
    """A version as it goes over the wire; no caller reads it."""
    return ".".join(f"{number:x}" for number in version)


def _versioned_entry(path: str, found: os.stat_result, *, detailed: bool) -> Entry:
    settled = time.time() - found.st_ctime > SETTLED_SECONDS
    return {**_entry(path, found, detailed=detailed), "version": format_version(version_of(found)), "settled": settled}


def _entry(path: str, found: os.stat_result, *, detailed: bool = False) -> Entry:
    kinds = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"))
    kind = next((kind for holds, kind in kinds if holds(found.st_mode)), "other")
    owner: Entry = {"mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid} if detailed else {}
    if detailed:
        owner["version"] = format_version(version_of(found))
    return {"path": path, "kind": kind, "size": found.st_size, "modified": found.st_mtime, **owner}
