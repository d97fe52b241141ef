"""What changes below a directory, as the kernel says it (inotify): for callers that follow it while it happens.

Imported when somebody first asks. The user's identity is taken for each look at the tree; what inotify then says is
read in the guest's loop. Subdirectories that appear later are watched from then on: what is put into one before that
goes unreported, as with any program that watches this way. Directories are watched by descriptor: a name may have come
to mean another by then, or lead through a link.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ..refusal import Refusal
from .files import MAX_DEPTH, UPLOAD_PREFIX, Deadline
from .paths import open_directory
from .sandbox_tree import SandboxTree

MAX_DIRECTORIES = 2_000
"""Of one watch."""
MAX_WAITING = 2_000
"""Changes that wait for the caller; the oldest go."""
READ_BYTES = 64 * 1024
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES, _OF_DIRECTORY = 0x4000, 0x8000, 0x1000000, 0x40000000
_KINDS = {
    _CREATE: "create",
    _MOVED_TO: "create",
    _MODIFY: "write",
    _DELETE: "remove",
    _MOVED_FROM: "rename",
    _ATTRIB: "chmod",
}
_HEAD = struct.Struct("iIII")

Change = dict[str, Any]
AsUser = Callable[..., Awaitable[Any]]


class Watch:
    """One directory, or a tree. `open` begins; `next` has what changed; `close` ends it."""

    def __init__(self, tree: SandboxTree, as_user: AsUser, *, recursive: bool) -> None:
        self._tree = tree
        self._as_user = as_user
        self._recursive = recursive
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._lock = threading.Lock()
        """Of the descriptor, which is closed while threads add to it, and of the names."""
        self._descriptor = -1
        self._top: list[str] = []
        self._names: dict[int, str] = {}
        self._changes: deque[Change] = deque(maxlen=MAX_WAITING)
        self._changed = asyncio.Event()
        self._overflowed = False
        self._uploaded = 0
        """The cookie of the upload that is being renamed."""
        self._looks: set[asyncio.Future[Any]] = set()

    async def open(self, path: str) -> None:
        """Begin; raises OSError, or Refusal for what is no directory."""
        self._top = self._tree.split(path)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "no further watch")
        try:
            await self._as_user(self._add, "")
        except BaseException:
            self.close()
            raise
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def close(self) -> None:
        """Watch no longer; a thread that looks through the tree stops at its next directory."""
        for each in self._looks:
            each.cancel()
        with self._lock:
            if self._descriptor >= 0:
                asyncio.get_running_loop().remove_reader(self._descriptor)
                os.close(self._descriptor)
                self._descriptor = -1

    async def next(self) -> Change:
        """The next change: its `kind`, and the `name` below the directory; or that changes were lost, which is last."""
        while not self._changes:
            if self._overflowed:
                return {"event": "overflow"}
            self._changed.clear()
            await self._changed.wait()
        return self._changes.popleft()

    def _add(self, below: str) -> None:
        """Watch this directory, and with `recursive` those in it. Called with the user's identity, in a thread."""
        look = _Look()
        look.count(len(self._names))
        parts = [*self._top, *(below.split("/") if below else ())]
        with self._tree.directory(parts) as top:
            self._add_one(top, below)
            if self._recursive:
                self._add_below(top, below, look, 1)

    def _add_below(self, descriptor: int, below: str, look: _Look, depth: int) -> None:
        for name in look.find_directories(descriptor):
            found = os.path.join(below, name)
            if depth > MAX_DEPTH or "/".join([*self._top, found]) in self._tree.closed:
                continue
            look.count(len(self._names))
            try:
                entered = open_directory(name, descriptor)
            except OSError:
                continue  # gone, replaced or not readable: what is in it cannot be watched
            try:
                self._add_one(entered, found)
                self._add_below(entered, found, look, depth + 1)
            finally:
                os.close(entered)

    def _add_one(self, descriptor: int, below: str) -> None:
        with self._lock:
            if self._descriptor < 0:
                raise OSError("it was closed")
            path = b"/proc/self/fd/%d" % descriptor
            number = self._libc.inotify_add_watch(self._descriptor, path, sum(_KINDS) | _ONLY_DIRECTORIES)
            if number >= 0:
                self._names[number] = below
            elif not below:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def _read(self) -> None:
        """Called by the loop when inotify has something to say."""
        try:
            with self._lock:  # the name of what it is about is known by then
                data = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            number, mask, cookie, size = _HEAD.unpack_from(data, at)
            at += _HEAD.size + size
            self._take(number, mask, cookie, os.fsdecode(data[at - size : at].rstrip(b"\0")))

    def _take(self, number: int, mask: int, cookie: int, name: str) -> None:
        if mask & _IGNORED:
            self._names.pop(number, None)
        if mask & _OVERFLOW:
            self._overflowed = True
            self._changed.set()
        if mask & (_IGNORED | _OVERFLOW) or not name or number not in self._names:
            return
        if name.startswith(UPLOAD_PREFIX):  # an upload becomes known by what it is renamed to
            self._uploaded = cookie if mask & _MOVED_FROM else 0
            return
        found = os.path.join(self._names[number], name)
        for bit, kind in _KINDS.items():
            if mask & bit:
                self._note(kind, found)
        if mask & _MOVED_TO and cookie == self._uploaded:
            self._note("write", found)
        if self._recursive and mask & _OF_DIRECTORY and mask & (_CREATE | _MOVED_TO):
            look = asyncio.ensure_future(self._add_later(found))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

    def _note(self, kind: str, name: str) -> None:
        self._changes.append({"event": "change", "kind": kind, "name": name})
        self._changed.set()

    async def _add_later(self, below: str) -> None:
        try:
            await self._as_user(self._add, below)
        except (OSError, Refusal):  # it is gone again, or there are too many: the others are still watched
            return


class _Look:
    """One look through a tree, with what is left of its limits."""

    def __init__(self) -> None:
        self._deadline = Deadline()
        self._tried = 0

    def count(self, watched: int) -> None:
        """One more directory, whether or not it can be watched; raises Refusal when there are too many."""
        self._tried += 1
        if max(watched + 1, self._tried) > MAX_DIRECTORIES:
            raise Refusal(429, "too_many_directories", f"a watch has at most {MAX_DIRECTORIES} directories")

    def find_directories(self, descriptor: int) -> list[str]:
        """Those in a directory, by name, and no more than makes too many; raises TimeoutError."""
        found: list[str] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                self._deadline.check()
                if entry.is_dir(follow_symlinks=False):
                    found.append(entry.name)
                    if len(found) > MAX_DIRECTORIES:
                        break
        return found
