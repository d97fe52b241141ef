"""What is in a live directory now, kept in memory: walked once, and then looked at where the kernel tells of changes.

All who need to know share one `LiveTree`; each has a `Journal` of what changed since it last asked. Where the watch
does not know, the whole directory is walked again and compared, so that nothing is missed. Blocking, but `is_quiet`.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TypeAlias

import msgspec

from workspace_sync.directory.incremental_scan import MOST_LINKED, IncrementalScan, NotKnown
from workspace_sync.directory.safe_open import Opener
from workspace_sync.directory.scan import Scan, Signature, is_below, leave_out, scan_directory
from workspace_sync.directory.watch import Told, Watch
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits

Bring: TypeAlias = Callable[[], Mapping[bytes, str]]
FEW_NAMES = 2_000
"""So many are walked, in milliseconds, when something may have happened that was not told; else the next walk tells."""


class Journal:
    """The files and names that changed since this was last emptied; all may have, at first."""

    def __init__(self) -> None:
        self.before: dict[bytes, Signature | None] | None = None
        """By path, what the file was before; None when nothing can be said of what changed."""

    def note(self, path: bytes, before: Signature | None) -> None:
        """A name changed; what it was the first time is kept."""
        if self.before is not None:
            self.before.setdefault(path, before)


class Look(msgspec.Struct, frozen=True):
    """What is there now: all of it when `whole`, else of the paths that were asked for and of those that changed."""

    scan: Scan
    changed: dict[bytes, Signature | None] | None
    """As in a journal."""
    whole: bool


class LiveTree:
    """One directory. `close` it in the end; a later look walks all of it."""

    def __init__(
        self,
        limits: TransferLimits,
        opener: Opener | None = None,
        watch: Watch | None = None,
        bring: Bring | None = None,
    ) -> None:
        """`bring` is called before each look: it brings a directory up to date that is the copy of another.

        What it returns, paths and why, could not be brought: as in `Scan.unread`, all there and beneath is unknown.
        """
        self._bring = bring
        self._limits = limits
        self._opener = opener
        self._watch = watch
        self._lock = threading.Lock()
        self._scan: Scan | None = None
        self._identity: tuple[int, int] | None = None
        self._journals: weakref.WeakSet[Journal] = weakref.WeakSet()
        self._walked_at = -math.inf
        self._walk_seconds = 0.0
        self._not_brought: Mapping[bytes, str] = {}

    def journal(self) -> Journal:
        """A new journal, kept for as long as the caller holds it."""
        journal = Journal()
        self._journals.add(journal)
        return journal

    def is_quiet(self, journal: Journal) -> bool:
        """Whether nothing changed since the journal was last emptied; called on the event loop, costs next to nothing.

        False also when that is not known.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return journal.before == {} and self._watch is not None and self._watch.quiet()
        finally:
            self._lock.release()

    def is_watched(self) -> bool:
        """Whether the next look will hardly need a walk."""
        return self._scan is not None and self._watch is not None and self._watch.whole

    def is_due(self, seconds: float, share: float) -> bool:
        """Whether the last walk was so long ago, and walks take no more than this share of the time."""
        return time.monotonic() - self._walked_at > max(seconds, self._walk_seconds / share)

    def look(
        self,
        root: int,
        journal: Journal,
        *,
        also: set[bytes] | None = None,
        walk: bool = False,
        last: bool = False,
        until: float = math.inf,
        wait_seconds: float = 60.0,
    ) -> Look:
        """Empty the journal: what is now of the paths in it and `also`; of everything when that is None.

        `walk` looks at every name there is; when it is to be the `last` look, it begins no watch. Raises
        `WorkspaceTooLarge` when it is not done at `until`, or another thread looks for longer than `wait_seconds`, and
        `OSError`; the journal keeps what is in it then.
        """
        if not self._lock.acquire(timeout=wait_seconds):
            raise WorkspaceTooLarge("the workspace takes longer to look through than there is time")
        try:
            if self._bring is not None:
                self._not_brought = self._bring()
            self._refresh(root, until, walk=walk, last=last)
            return self._make_look(journal, also)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Let go of the watch, for good, and of what is known."""
        with self._lock:
            self._forget()
            self._watch = None

    def _forget(self) -> None:
        self._scan = None
        if self._watch is not None:
            self._watch.close()
        for journal in self._journals:
            journal.before = None

    def _make_look(self, journal: Journal, also: set[bytes] | None) -> Look:
        scan, changed = self._scan or Scan(), journal.before
        journal.before = {}
        if changed is None or also is None or scan.unread or scan.cut is not None:
            whole = Scan(scan.entries.copy(), scan.signatures.copy(), list(scan.skipped), set(scan.unread), scan.cut)
            whole.special = set(scan.special)
            return Look(whole, changed, whole=True)
        part = Scan(special=set(scan.special))
        for path in changed.keys() | also:
            if path in scan.entries:
                part.entries[path] = scan.entries[path]
            if path in scan.signatures:
                part.signatures[path] = scan.signatures[path]
        return Look(part, changed, whole=False)

    def _refresh(self, root: int, until: float, *, walk: bool, last: bool) -> None:
        status = os.fstat(root)
        if self._identity != (status.st_dev, status.st_ino):  # a directory at the same path, of which nothing is known
            self._forget()
            self._identity = (status.st_dev, status.st_ino)
        try:
            told = None if walk or self._scan is None or self._watch is None else self._watch.take()
            if told is None or self._scan is None or (told.doubtful and len(self._scan.entries) <= FEW_NAMES):
                self._walk(root, until, last=last)
            elif told.names or told.trees:
                try:
                    self._look_again(root, self._scan, told, until)
                except NotKnown:
                    self._walk(root, until)
        except BaseException:
            if self._watch is not None:
                self._watch.close()  # what it told is lost
            raise

    def _walk(self, root: int, until: float, *, last: bool = False) -> None:
        began = time.monotonic()
        watch, enter = self._watch, None
        if watch is not None and last:
            watch.distrust()
        elif watch is not None:
            watch.begin()
            enter = watch.add
        scan = scan_directory(root, self._limits, self._opener, until=until, enter=enter)
        for path, reason in self._not_brought.items():
            leave_out(scan, path, reason)
        self._compare(scan)
        self._walked_at = time.monotonic()
        self._walk_seconds = self._walked_at - began
        if watch is not None and not last:
            self._trust(watch, scan)

    def _trust(self, watch: Watch, scan: Scan) -> None:
        """What was not walked is not watched, and a file with many names changes under any of them."""
        if scan.unread or scan.cut is not None or len(scan.linked) > MOST_LINKED:
            watch.close()
        else:
            watch.complete()

    def _compare(self, scan: Scan) -> None:
        """Take a walk for what is there now, and write down what changed."""
        before, self._scan = self._scan, scan
        if before is None:
            return
        if scan.unread:
            for path in [path for path in before.entries if path not in scan.entries and is_below(path, scan.unread)]:
                scan.entries[path] = before.entries[path]  # closed to us, not gone
                if path in before.signatures:
                    scan.signatures[path] = before.signatures[path]
        for path in chain(scan.entries, (path for path in before.entries if path not in scan.entries)):
            now = (scan.entries.get(path), scan.signatures.get(path))
            if now != (before.entries.get(path), before.signatures.get(path)):
                self._note(path, before.signatures.get(path))

    def _look_again(self, root: int, known: Scan, told: Told, until: float) -> None:
        """Bring up to date what was reported; raises `NotKnown` when the whole has to be walked."""
        enter = self._watch.add if self._watch is not None else None
        look = IncrementalScan(root, known, told, self._limits, self._opener, enter, until)
        look.run()
        for path in look.stale | look.fresh.entries.keys():
            before = known.signatures.get(path)
            if (known.entries.get(path), before) != (look.fresh.entries.get(path), look.fresh.signatures.get(path)):
                self._note(path, before)
        look.take_in()

    def _note(self, path: bytes, before: Signature | None) -> None:
        for journal in self._journals:
            journal.note(path, before)
