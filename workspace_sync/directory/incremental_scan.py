"""What became of the names that the kernel told of, looked at again in a directory whose rest is known. Blocking."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from workspace_sync.directory.directory_walker import DirectoryWalker
from workspace_sync.directory.safe_open import GONE, Opener, split
from workspace_sync.directory.scan import Enter, Scan, add_name, bound_opener, is_below, row_bytes, scan_directory
from workspace_sync.directory.watch import Told
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits

MOST_LINKED = 1_000
"""Files with several names that are looked at again with every change; with more the whole is walked."""


class NotKnown(Exception):
    """The reports do not say what happened: the whole has to be walked."""


@dataclass
class IncrementalScan:
    """One look at what was `told`, given what is `known`. `enter` is as for `scan_directory`.

    `fresh` is what is there of it now, with all below the directories that are new; `stale` what is not there any more.
    """

    root: int
    known: Scan
    told: Told
    limits: TransferLimits
    opener: Opener | None = None
    enter: Enter | None = None
    until: float = math.inf
    fresh: Scan = field(default_factory=Scan)
    stale: set[bytes] = field(default_factory=set)
    _looked: set[bytes] = field(default_factory=set)
    _trees: set[bytes] = field(default_factory=set)

    def run(self) -> None:
        """Look. Raises `NotKnown`, `WorkspaceTooLarge`, `OSError`."""
        self._trees = set(self.told.trees)
        self._examine(self.told.names | self.told.trees | self.known.linked)
        self._enter_trees()
        self._examine(self._other_names())
        if self.fresh.unread or len(self.fresh.linked) > MOST_LINKED:
            raise NotKnown
        self.stale = {path for path in self._looked if path in self.known.entries and path not in self.fresh.entries}
        if self._trees & self.known.entries.keys():
            below = (path for path in self.known.entries if path not in self.fresh.entries)
            self.stale.update(path for path in below if is_below(path, self._trees))
        grown = sum(row_bytes(path) for path in self.fresh.entries if path not in self.known.entries)
        if self.known.names_bytes + grown > self.limits.manifest_bytes:
            raise NotKnown
        self.fresh.names_bytes = grown

    def take_in(self) -> None:
        """Make it a part of what is known."""
        known, fresh = self.known, self.fresh
        for path in self.stale:
            del known.entries[path]
            known.signatures.pop(path, None)
        for path in fresh.entries:
            known.signatures.pop(path, None)
        known.entries.update(fresh.entries)
        known.signatures.update(fresh.signatures)
        gone = {path for path in known.special if path in self._looked or is_below(path, self._trees)}
        known.special = (known.special - gone) | fresh.special
        known.linked = (known.linked - self.stale) | fresh.linked
        known.names_bytes += fresh.names_bytes

    def _examine(self, paths: Iterable[bytes]) -> None:
        with DirectoryWalker(self.root, bound_opener(self.opener)) as descent:
            for path in sorted(paths, key=lambda each: each.split(b"/")):
                if time.monotonic() > self.until:
                    raise WorkspaceTooLarge("the workspace takes longer to look through than there is time")
                self._looked.add(path)
                if self._is_there(descent, path) or path in self.told.removed:
                    continue
                if path not in self.told.trees or path in self.known.entries:
                    raise NotKnown  # written to under a name that is gone: which file was it?

    def _is_there(self, descent: DirectoryWalker, path: bytes) -> bool:
        head, name = split(path)
        try:
            directory = descent.enter(head)
        except OSError as error:
            if error.errno not in GONE:
                raise NotKnown from error
            return False
        entry = add_name(directory, name, path, self.fresh, descent.opener)
        before = self.known.entries.get(path)
        if (entry is not None and entry.kind == "directory") != (before is not None and before.kind == "directory"):
            self._trees.add(path)
        return entry is not None or path in self.fresh.special

    def _enter_trees(self) -> None:
        for path in sorted(self._trees):
            entry = self.fresh.entries.get(path)
            if entry is None or entry.kind != "directory" or is_below(split(path)[0], self._trees):
                continue
            below = scan_directory(self.root, self.limits, self.opener, top=path, until=self.until, enter=self.enter)
            if below.cut is not None:
                raise NotKnown
            self.fresh.entries.update(below.entries)
            self.fresh.signatures.update(below.signatures)
            self.fresh.linked |= below.linked
            self.fresh.special |= below.special
            self.fresh.unread |= below.unread

    def _other_names(self) -> set[bytes]:
        """The names, known by now, of files that have got another one."""
        got = {self.fresh.signatures[path].inode for path in self.fresh.linked - self.known.linked}
        if not got:
            return set()
        named = (path for path, signature in self.known.signatures.items() if signature.inode in got)
        return {path for path in named if path not in self.fresh.entries and path not in self._looked}
