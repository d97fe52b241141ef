"""What changes below a directory, as the kernel says it (inotify): for callers that follow it while it happens.

Imported when somebody first asks. The user's identity is taken for each look at the tree; what inotify then says is
read in the guest's loop. Subdirectories that appear later are watched from then on: what is put into one before that
goes unreported, as with any program that watches this way.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from ..refusal import Refusal
from .files import UPLOAD_PREFIX
from .sandbox_tree import SandboxTree

MAX_DIRECTORIES = 2_000
"""Of one watch."""
MAX_WAITING = 2_000
"""Changes that wait for the caller; the oldest go."""
READ_BYTES = 64 * 1024
_MODIFY, _ATTRIB, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _IGNORED, _ONLY_DIRECTORIES, _NO_LINKS, _OF_DIRECTORY = 0x4000, 0x8000, 0x1000000, 0x2000000, 0x40000000
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
        self._descriptor = -1
        self._top = ""
        self._names: dict[int, str] = {}
        self._changes: deque[Change] = deque(maxlen=MAX_WAITING)
        self._changed = asyncio.Event()
        self._uploaded = 0
        """The cookie of the upload that is being renamed."""
        self._looks: set[asyncio.Future[Any]] = set()

    async def open(self, path: str) -> None:
        """Begin; raises OSError, or Refusal for what is no directory."""
        parts = self._tree.split(path)
        self._top = "/" + "/".join(parts)
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
        """Watch no longer."""
        for each in self._looks:
            each.cancel()
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    async def next(self) -> Change:
        """The next change: its `kind`, and the `name` below the directory."""
        while not self._changes:
            self._changed.clear()
            await self._changed.wait()
        return self._changes.popleft()

    def _add(self, below: str) -> None:
        """Watch this directory, and with `recursive` those in it. Called with the user's identity, in a thread."""
        self._add_one(below)
        if not self._recursive:
            return
        for directory, names, _ in os.walk(os.path.join(self._top, below)):
            for name in names:
                found = os.path.join(directory, name)
                if not os.path.islink(found):
                    self._add_one(os.path.relpath(found, self._top))

    def _add_one(self, below: str) -> None:
        if len(self._names) >= MAX_DIRECTORIES:
            raise Refusal(429, "too_many_directories", f"a watch has at most {MAX_DIRECTORIES} directories")
        mask = sum(_KINDS) | _ONLY_DIRECTORIES | _NO_LINKS
        path = os.fsencode(os.path.join(self._top, below))
        number = self._libc.inotify_add_watch(self._descriptor, path, mask)
        if number >= 0:
            self._names[number] = below
        elif not below:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    def _read(self) -> None:
        """Called by the loop when inotify has something to say."""
        try:
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
