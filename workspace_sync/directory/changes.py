"""Which files of a live directory changed since one last looked, with their hashes, within bounds. Blocking.

The directory is hostile, see `scan`. Only regular files count; what cannot be looked at is left out.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from workspace_sync.directory.safe_open import DIRECTORY, open_regular
from workspace_sync.directory.scan import Signature, signature_of
from workspace_sync.directory.tree import LiveTree
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits
from workspace_sync.names import parents

Change = Literal["added", "changed", "removed"]
READ_BYTES = 1 << 20
RESTS = 20
"""How many times as long as a look that came to nothing, and took long, there is no other."""
LONG_SECONDS = 0.25
MOST_ACCEPTED = 10_000
"""Files taken as they are between two looks; after more the next look starts from nothing."""
TOO_MANY = "the workspace holds more names than are looked through"
TOO_LONG = "the workspace takes too long to look through"


class ChangeLimits(msgspec.Struct, frozen=True):
    """What one look may cost."""

    names_bytes: int = 8 * 1024 * 1024
    """Names that are looked through, about 30,000; a directory with more is not looked at."""
    scan_seconds: float = 2.0
    """The time for looking through them; one that takes longer is not looked at, and not again for a while."""
    listed: int = 200
    """Changes that are listed; more are counted."""
    hashed_bytes: int = 64 * 1024 * 1024
    """Contents that are hashed, all together; others have their size alone."""
    seconds: float = 2.0
    """After that no further file is hashed."""


@dataclass(frozen=True)
class ChangedFile:
    """One file: `path` as text (bytes that are not UTF-8 as `\\xNN`), `size` before when removed, else now.

    `sha256` is None for what was removed, was not hashed, or changed while it was.
    """

    path: str
    change: Change
    size: int
    sha256: str | None = None


class Changes(msgspec.Struct, frozen=True):
    """What changed, by path. `omitted` counts changes beyond those told; `unknown` says why none could be found."""

    files: tuple[ChangedFile, ...] = ()
    omitted: int = 0
    unknown: str = ""


class Watched:
    """One directory, and how it was when last looked at. One look at a time; a second one waits for its end.

    It shares the `tree` of a mirror, where there is one, and with it the kernel's word that nothing changed.
    """

    def __init__(self, directory: str, limits: ChangeLimits | None = None, tree: LiveTree | None = None) -> None:
        self._directory = directory
        self._limits = limits or ChangeLimits()
        self._tree = tree or LiveTree(replace(TransferLimits(), manifest_bytes=self._limits.names_bytes))
        self._journal = self._tree.journal()
        self._accepted: dict[bytes, Signature | None] = {}
        self._rests_until = -math.inf
        self._looking = threading.Lock()

    def is_quiet(self) -> bool:
        """Whether a look would find nothing, for sure; does not block and costs next to nothing."""
        return not self._looking.locked() and self._tree.is_quiet(self._journal)

    def look(self) -> Changes:
        """What changed since the last look; nothing the first time."""
        if not self._looking.acquire(timeout=self._limits.seconds):
            return Changes(unknown="an earlier look at the files has not ended yet")
        began = time.monotonic()
        try:
            if began < self._rests_until and not self._tree.is_watched():
                return Changes(unknown=TOO_LONG)
            return self._look()
        except WorkspaceTooLarge:
            self._forget()
            taken = time.monotonic() - began
            if taken >= LONG_SECONDS:
                self._rests_until = time.monotonic() + RESTS * taken
            return Changes(unknown=TOO_MANY if taken < self._limits.scan_seconds else TOO_LONG)
        except OSError as error:
            self._forget()
            return Changes(unknown=f"the workspace cannot be read: {error.strerror}")
        finally:
            self._looking.release()

    def accept(self, paths: Iterable[bytes]) -> None:
        """Take these files, or that they are gone with all below, as they are now: it is known what changed them."""
        if not self._looking.acquire(timeout=self._limits.seconds):
            return
        try:
            root = os.open(self._directory, DIRECTORY)
            try:
                self._accepted.update(found for path in paths for found in _found(root, path))
            finally:
                os.close(root)
            if len(self._accepted) > MOST_ACCEPTED:
                self._forget()
        except OSError:
            self._forget()
        finally:
            self._looking.release()

    def _forget(self) -> None:
        self._journal.before = None
        self._accepted = {}

    def _since(self, path: bytes, was: Signature | None) -> Signature | None:
        """What a file was after its last change by a known caller; else as it was at the last look."""
        if path in self._accepted:
            return self._accepted[path]
        removed = any(above in self._accepted and self._accepted[above] is None for above in parents(path))
        return None if removed else was

    def _look(self) -> Changes:
        now = time.monotonic()
        root = os.open(self._directory, DIRECTORY)
        try:
            until, wait = now + self._limits.scan_seconds, self._limits.seconds
            look = self._tree.look(root, self._journal, also=set(), until=until, wait_seconds=wait)
            if look.scan.cut is not None:
                raise WorkspaceTooLarge(TOO_MANY)
            before = {path: self._since(path, was) for path, was in (look.changed or {}).items()}
            self._accepted = {}
            return self._describe(root, before, look.scan.signatures, now + self._limits.seconds)
        finally:
            os.close(root)

    def _describe(
        self, root: int, before: dict[bytes, Signature | None], now: Mapping[bytes, Signature], until: float
    ) -> Changes:
        changed = sorted(path for path, was in before.items() if was != now.get(path))
        left = self._limits.hashed_bytes
        files = []
        for path in changed[: self._limits.listed]:
            was, found = before[path], now.get(path)
            if found is None:
                files.append(ChangedFile(_text(path), "removed", was.size if was is not None else 0))
                continue
            digest = None
            if found.size <= left and time.monotonic() < until:
                left -= found.size
                digest = _hash(root, path, found, until)
            files.append(ChangedFile(_text(path), "added" if was is None else "changed", found.size, digest))
        return Changes(tuple(files), len(changed) - len(files))


def _found(root: int, path: bytes) -> list[tuple[bytes, Signature | None]]:
    """A file with its signature, or with None when it is gone; nothing for what is no file."""
    try:
        descriptor, status = open_regular(root, path)
    except OSError as error:
        return [(path, None)] if error.errno in (errno.ENOENT, errno.ENOTDIR) else []
    os.close(descriptor)
    return [(path, signature_of(status))]


def _hash(root: int, path: bytes, found: Signature, until: float) -> str | None:
    """The digest of a file that is still the one that was found, and is when it was read."""
    digest, left = hashlib.sha256(), found.size
    with contextlib.suppress(OSError):
        descriptor, status = open_regular(root, path)
        with os.fdopen(descriptor, "rb", buffering=0) as source:
            if signature_of(status) != found:
                return None
            while left > 0 and time.monotonic() < until:
                piece = source.read(min(left, READ_BYTES))
                if not piece:
                    return None
                digest.update(piece)
                left -= len(piece)
            return digest.hexdigest() if left == 0 and signature_of(os.fstat(source.fileno())) == found else None
    return None


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
