"""Which files of a live directory changed since one last looked, with their hashes, within bounds. Blocking.

The directory is hostile, see `scan`. Only regular files count; what cannot be looked at is left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from workspace_sync.confined import DIRECTORY, open_regular
from workspace_sync.errors import WorkspaceTooLarge
from workspace_sync.limits import TransferLimits
from workspace_sync.names import parents
from workspace_sync.scan import Signature, scan_directory, signature_of

Change = Literal["added", "changed", "removed"]
READ_BYTES = 1 << 20
RESTS = 20
"""How many times as long as a look that came to nothing, and took long, there is no other."""
LONG_SECONDS = 0.25
TOO_MANY = "the workspace holds more names than are looked through"
TOO_LONG = "the workspace takes too long to look through"


@dataclass(frozen=True)
class ChangeLimits:
    """What one look may cost."""

    names_bytes: int = 8 * 1024 * 1024
    """Names that are looked through, about 30,000; a directory with more is not looked at."""
    scan_seconds: float = 2.0
    """The time for looking through them; one that takes longer is not looked at, and not again for a while."""
    listed: int = 200
    """Changes that are told one by one; more are counted."""
    hashed_bytes: int = 64 * 1024 * 1024
    """Contents that are hashed, all together; of others the size alone is told."""
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


@dataclass(frozen=True)
class Changes:
    """What changed, by path. `omitted` counts changes beyond those told; `unknown` says why none could be found."""

    files: tuple[ChangedFile, ...] = ()
    omitted: int = 0
    unknown: str = ""


class Watched:
    """One directory, and how it was when last looked at. One look at a time; a second one waits for its end."""

    def __init__(self, directory: str, limits: ChangeLimits | None = None) -> None:
        self._directory = directory
        self._limits = limits or ChangeLimits()
        self._known: dict[bytes, Signature] | None = None
        self._rests_until = -math.inf
        self._looking = threading.Lock()

    def look(self) -> Changes:
        """What changed since the last look; nothing the first time."""
        if not self._looking.acquire(timeout=self._limits.seconds):
            return Changes(unknown="an earlier look at the files has not ended yet")
        began = time.monotonic()
        try:
            if began < self._rests_until:
                return Changes(unknown=TOO_LONG)
            return self._look()
        except WorkspaceTooLarge:
            self._known = None
            taken = time.monotonic() - began
            if taken >= LONG_SECONDS:
                self._rests_until = time.monotonic() + RESTS * taken
            return Changes(unknown=TOO_MANY if taken < self._limits.scan_seconds else TOO_LONG)
        except OSError as error:
            self._known = None
            return Changes(unknown=f"the workspace cannot be read: {error.strerror}")
        finally:
            self._looking.release()

    def accept(self, paths: Iterable[bytes]) -> None:
        """Take these files, or all that is below them, as they are now: whoever changed them is known."""
        if not self._looking.acquire(timeout=self._limits.seconds):
            return
        try:
            if self._known is not None:
                self._accept(self._known, paths)
        except OSError:
            self._known = None
        finally:
            self._looking.release()

    def _accept(self, known: dict[bytes, Signature], paths: Iterable[bytes]) -> None:
        gone = set()
        root = os.open(self._directory, DIRECTORY)
        try:
            for path in paths:
                try:
                    descriptor, status = open_regular(root, path)
                except OSError:
                    gone.add(path)
                else:
                    os.close(descriptor)
                    known[path] = signature_of(status)
        finally:
            os.close(root)
        for path in [each for each in known if _is_below(each, gone)]:
            del known[path]

    def _look(self) -> Changes:
        until = time.monotonic() + self._limits.seconds
        root = os.open(self._directory, DIRECTORY)
        try:
            limits = replace(TransferLimits(), manifest_bytes=self._limits.names_bytes)
            scan = scan_directory(root, limits, until=time.monotonic() + self._limits.scan_seconds)
            now = scan.signatures
            before, self._known = self._known, now
            if before is None:
                return Changes()
            for path in [path for path in before if path not in now and _is_below(path, scan.unread)]:
                now[path] = before[path]  # closed to us, not gone
            return self._told(root, before, now, until)
        finally:
            os.close(root)

    def _told(self, root: int, before: dict[bytes, Signature], now: dict[bytes, Signature], until: float) -> Changes:
        changed = sorted(path for path in before.keys() | now.keys() if before.get(path) != now.get(path))
        left = self._limits.hashed_bytes
        files = []
        for path in changed[: self._limits.listed]:
            found = now.get(path)
            if found is None:
                files.append(ChangedFile(_text(path), "removed", before[path].size))
                continue
            digest = None
            if found.size <= left and time.monotonic() < until:
                left -= found.size
                digest = _hashed(root, path, found, until)
            files.append(ChangedFile(_text(path), "changed" if path in before else "added", found.size, digest))
        return Changes(tuple(files), len(changed) - len(files))


def _hashed(root: int, path: bytes, found: Signature, until: float) -> str | None:
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


def _is_below(path: bytes, directories: set[bytes]) -> bool:
    return path in directories or any(each in directories for each in parents(path)) if directories else False


def _text(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
