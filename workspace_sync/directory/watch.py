"""What the kernel tells of changes in a live directory (inotify), so that nothing is looked at that did not change.

No thread waits for events: they gather in a bounded queue of the kernel until they are taken. Whatever could
hide a change (a queue that ran over, a directory that was moved, one too many to watch, writing to a file that has no
name any more) makes the answer "not known", and the directory is to be walked again. Stores through a memory map make
no event before the map is closed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from select import POLLIN, poll

from inotify_simple import Event, INotify, flags

WATCHED_DIRECTORIES = 8_192
"""Directories that one watch holds; the kernel's own bound counts those of all watches together."""
WATCHED_BYTES = 2 * 1024 * 1024
"""The paths of these directories, together."""
_WRITTEN = flags.MODIFY | flags.CLOSE_WRITE
_GONE = flags.DELETE | flags.MOVED_FROM
_LISTED = flags.CREATE | flags.MOVED_TO | _GONE
_SELF = flags.DELETE_SELF | flags.MOVE_SELF
_MASK = _WRITTEN | flags.ATTRIB | _LISTED | _SELF | flags.ONLYDIR
_LOST = flags.Q_OVERFLOW | flags.UNMOUNT | flags.MOVE_SELF


@dataclass
class Told:
    """Paths to look at again: `names` alone, `trees` with all below. `removed` are those last seen to be removed."""

    names: set[bytes] = field(default_factory=set)
    trees: set[bytes] = field(default_factory=set)
    removed: set[bytes] = field(default_factory=set)
    doubtful: bool = False
    """Whether a name was made, written to and lost: it may have been another one of a file that was not told of."""


@dataclass
class _Made:
    """Names that were made since the last `take`, and whether they were written to."""

    written: dict[bytes, bool] = field(default_factory=dict)
    moved: dict[int, bool | None] = field(default_factory=dict)
    """By the cookie of a move that has begun; None for a name that was there before."""

    def lost(self, path: bytes, event: Event) -> bool:
        """Take in what happened to a name; whether one that was written to is lost by it."""
        before = self.written.pop(path, None) if event.mask & _LISTED else None
        if event.mask & flags.MOVED_FROM:
            self.moved[event.cookie] = before
            return False
        if event.mask & flags.CREATE:
            self.written[path] = False
        elif event.mask & flags.MOVED_TO:
            arrived = self.moved.pop(event.cookie, False)
            if arrived is not None:
                self.written[path] = arrived
        elif event.mask & _WRITTEN and path in self.written:
            self.written[path] = True
        return bool(before)

    def has_left(self) -> bool:
        """Whether one that was written to was moved out of the watched tree."""
        return any(self.moved.values())


class Watch:
    """The directories of one tree. Each walk of the whole begins it again; for one thread at a time but `quiet`."""

    def __init__(self, most: int = WATCHED_DIRECTORIES, most_bytes: int = WATCHED_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._source: INotify | None = None
        self._poll = poll()
        self._paths: dict[int, bytes] = {}
        self._bytes = 0
        self._whole = False

    def begin(self) -> None:
        """A walk of the whole tree begins: forget everything. It has to `add` each directory before it lists it."""
        self.close()
        try:
            self._source = INotify(nonblocking=True)
        except OSError:  # no descriptor left, or no instance of inotify
            return
        self._poll = poll()
        self._poll.register(self._source.fileno(), POLLIN)

    def add(self, descriptor: int, path: bytes) -> None:
        """Watch the open directory, which is at this path. When that cannot be, nothing is known from here on."""
        if self._source is None:
            return
        try:
            # The directory that is open, whatever its path leads to by now.
            number = self._source.add_watch(f"/proc/self/fd/{descriptor}", _MASK)
        except OSError:
            self.close()
            return
        self._bytes += len(path) - len(self._paths.get(number, b""))
        self._paths[number] = path
        if len(self._paths) > self._most or self._bytes > self._most_bytes:
            self.close()

    def complete(self) -> None:
        """The walk came to its end: from now on every change makes an event."""
        self._whole = self._source is not None

    def distrust(self) -> None:
        """What it tells counts no more, until `begin`. It is not closed, which takes the kernel 10 to 20 ms."""
        self._whole = False

    @property
    def whole(self) -> bool:
        """Whether every directory is watched, as far as is known before the next `take`."""
        return self._whole

    def quiet(self) -> bool:
        """Whether nothing happened since the last `take`. Costs next to nothing."""
        return self._whole and not self._poll.poll(0)

    def take(self) -> Told | None:
        """What happened since this was last called; None when it is not known, and the whole is to be walked again."""
        if self._source is None or not self._whole:
            return None
        told, made = Told(), _Made()
        for event in self._source.read(timeout=0):
            if event.mask & _LOST or not self._note(event, told, made):
                self.close()
                return None
        told.doubtful |= made.has_left()
        return told

    def close(self) -> None:
        """Let go of what the kernel holds for it; `begin` starts it again. Safe to call again."""
        self._whole = False
        if self._source is not None:
            self._poll.unregister(self._source.fileno())
            self._source.close()
        self._source = None
        self._paths = {}
        self._bytes = 0

    def _note(self, event: Event, told: Told, made: _Made) -> bool:
        """Add one event; False when it cannot be said what it means."""
        path = self._paths.get(event.wd)
        if path is None:
            return True  # of a directory that is gone, which the one above it has told
        if event.mask & flags.IGNORED:
            del self._paths[event.wd]
            self._bytes -= len(path)
        if event.mask & (flags.IGNORED | flags.DELETE_SELF):
            return path != b""
        return not event.name or self._note_name(path, event, told, made)

    def _note_name(self, directory: bytes, event: Event, told: Told, made: _Made) -> bool:
        name, mask = os.fsencode(event.name), event.mask
        path = directory + b"/" + name if directory else name
        told.doubtful |= not mask & flags.ISDIR and made.lost(path, event)
        if mask & flags.ISDIR and mask & (flags.MOVED_FROM | flags.MOVED_TO):
            return False  # what is below it would be reported under its old path
        if mask & _LISTED and directory:
            told.names.add(directory)  # its own time has changed
        (told.trees if mask & flags.ISDIR and mask & _LISTED else told.names).add(path)
        if mask & _GONE:
            told.removed.add(path)
        elif mask & (_WRITTEN | _LISTED):
            told.removed.discard(path)
        return True
