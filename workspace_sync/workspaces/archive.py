"""Durable files as one zip archive, made while it is sent. Blocking.

Each file is read whole before its member begins, so that one which vanishes, or cannot be read, leaves no half member
and is listed in the archive. Links are listed, never followed and never made. Memory holds the workspace's names,
`IN_MEMORY_BYTES` of one file, and what was left out; more of the file waits in a file of the host's. The user who
unpacks it may read the files, whatever their modes were.
"""

from __future__ import annotations

import re
import stat
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import IO

import msgspec

from workspace_sync.entry import Entry
from workspace_sync.errors import ObjectNotFound, StoreFull, StoreRefused, StoreUnavailable
from workspace_sync.mirroring.plan import Remote
from workspace_sync.names import escape, percent_encode
from workspace_sync.store import CHUNK_BYTES, ObjectStore

# Names inside an archive, which any tool unpacks below the directory it was told (pure).
#
# Characters that some system takes for something else become `%XX`, byte by byte, and so does the last character of a
# name that Windows cannot have; `names.unescape` gives the workspace's own name back. No two paths get one name.

UNSAFE = frozenset('\\:*?"<>|')
DEVICE = re.compile(r"(?:CON|PRN|AUX|NUL|CLOCK\$|CONIN\$|CONOUT\$|(?:COM|LPT)[0-9\u00b9\u00b2\u00b3])", re.IGNORECASE)
_ESCAPED = re.compile(r"%(?=[0-9A-Fa-f]{2})")


def archive_name(path: bytes) -> str:
    """A path of a workspace as a name in an archive; its parts stay parts."""
    return "/".join(_safe(part.decode("utf-8", "surrogateescape")) for part in path.split(b"/"))


def _safe(name: str) -> str:
    name = _ESCAPED.sub("%25", name)
    name = "".join(percent_encode(each) if each in UNSAFE or not each.isprintable() else each for each in name)
    stem, dot, rest = name.partition(".")
    if DEVICE.fullmatch(stem.rstrip()):
        name = stem[:-1] + percent_encode(stem[-1]) + dot + rest
    return name[:-1] + percent_encode(name[-1]) if name[-1] in " ." else name


SKIPPED = "SKIPPED.txt"
IN_MEMORY_BYTES = 1 << 20
PIECE_BYTES = 1 << 18
NOTES_BYTES = 4 << 20
"""Words about what is left out; beyond that they are counted."""
READ_ATTEMPTS = 3
LEVEL = 1
"""Of compression: the least, since a client waits while the archive is made."""
EARLIEST, LATEST = datetime(1980, 1, 1, tzinfo=UTC), datetime(2037, 12, 31, tzinfo=UTC)
"""What every zip tool can say of a time."""
Member = tuple[str, datetime, int, int, Iterator[bytes]]
"""Name, time, mode, size, bytes."""


class ArchiveLimits(msgspec.Struct, frozen=True):
    """A file of more than `file_bytes` is left out and told; what is held of one lies in `directory` meanwhile."""

    file_bytes: int
    directory: str


class Archive(Iterator[bytes]):
    """The archive's bytes, piece by piece; read by one thread at a time, and closed by any."""

    def __init__(
        self, store: ObjectStore, files_prefix: str, remote: Remote, top: bytes, limits: ArchiveLimits
    ) -> None:
        self._store = store
        self._files_prefix = files_prefix
        self._remote = remote
        self._limits = limits
        self._top = top
        self._notes = _Notes()
        self._names: set[str] = set()
        self._turn = threading.Lock()
        self._bytes = self._pack()

    def __next__(self) -> bytes:
        pieces, size = [], 0
        with self._turn:
            for piece in self._bytes:
                pieces.append(piece)
                size += len(piece)
                if size >= PIECE_BYTES:
                    break
        if not pieces:
            raise StopIteration
        return b"".join(pieces)

    def close(self) -> None:
        """Let go of what is open, once no thread reads any more; safe to call again."""
        with self._turn:
            self._bytes.close()

    def _pack(self) -> Generator[bytes, None, None]:
        from stream_zip import ZIP_AUTO, stream_zip  # noqa: PLC0415 - six megabytes that few need

        with (
            tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=self._limits.directory) as held,
            closing(self._members(held)) as members,
        ):
            packed = ((name, at, mode, ZIP_AUTO(size, LEVEL), pieces) for name, at, mode, size, pieces in members)
            yield from stream_zip(packed, chunk_size=CHUNK_BYTES)

    def _members(self, held: IO[bytes]) -> Generator[Member, None, None]:
        for skipped in self._remote.skipped:
            self._notes.add(skipped.path, skipped.reason)
        for path in self._remote.entries:
            if self._top in (b"", path) or path.startswith(self._top + b"/"):
                yield from self._member(self._remote.entries[path], held)
        if self._notes:
            yield self._list_skipped()

    def _member(self, entry: Entry, held: IO[bytes]) -> Iterator[Member]:
        name = archive_name(entry.path)
        if "/" not in name:
            self._names.add(name.casefold())
        if entry.kind == "directory":
            yield (
                f"{name}/",
                _clamp_time(entry),
                stat.S_IFDIR | entry.mode | 0o700,
                0,
                iter(()),
            )
        elif entry.kind == "link":
            self._notes.add(name, f"a link to {escape(entry.target)}")
        elif entry.size > self._limits.file_bytes:
            self._notes.add(name, f"has {entry.size:,} bytes; files up to {self._limits.file_bytes:,} are in here")
        elif (size := self._fetch(entry, name, held)) is not None:
            yield (
                name,
                _clamp_time(entry),
                stat.S_IFREG | entry.mode | 0o400,
                size,
                _pieces(held),
            )

    def _fetch(self, entry: Entry, name: str, held: IO[bytes]) -> int | None:
        """A file's bytes into `held`, and how many; None when it is left out, which is noted."""
        for attempt in range(READ_ATTEMPTS):
            try:
                return self._copy(entry, held)
            except ObjectNotFound:
                self._notes.add(name, "was removed while the archive was made")
                return None
            except _TooLarge as error:
                self._notes.add(name, str(error))
                return None
            except (StoreRefused, StoreFull):  # which says more of the host than the archive's reader is to know
                self._notes.add(name, "is refused by the store")
                return None
            except OSError as error:  # the local store's disk, or that of what is held
                self._notes.add(name, f"could not be read: {error.strerror}")
                return None
            except StoreUnavailable:
                if attempt == READ_ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _copy(self, entry: Entry, held: IO[bytes]) -> int:
        size = 0
        held.seek(0)
        held.truncate()
        with self._store.get(self._files_prefix + self._remote.keys[entry.path]) as stream:
            while piece := stream.read(CHUNK_BYTES):
                size += held.write(piece)
                if size > self._limits.file_bytes:
                    raise _TooLarge(f"has grown beyond {self._limits.file_bytes:,} bytes meanwhile")
        return size

    def _list_skipped(self) -> Member:
        """What was left out, under a name that no file at the top has."""
        name, number = SKIPPED, 1
        while name.casefold() in self._names:
            name, number = f"SKIPPED-{number}.txt", number + 1
        data = self._notes.text().encode("utf-8", "replace")
        mode = stat.S_IFREG | 0o644
        return name, datetime.now(UTC), mode, len(data), iter((data,))


class _TooLarge(Exception):
    """There is more of a file than the archive takes."""


class _Notes:
    """Lines about what is left out, bounded."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._more = 0

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, name: str, reason: str) -> None:
        line = f"{name}\t{reason}\n"
        if self._size + len(line) > NOTES_BYTES:
            self._more += 1
            return
        self._lines.append(line)
        self._size += len(line)

    def text(self) -> str:
        more = f"and {self._more:,} more\n" if self._more else ""
        return "Not in this archive, and why:\n\n" + "".join(self._lines) + more


def _pieces(held: IO[bytes]) -> Iterator[bytes]:
    held.seek(0)
    while piece := held.read(CHUNK_BYTES):
        yield piece


def _clamp_time(entry: Entry) -> datetime:
    seconds = min(max(entry.mtime_ns / 1e9, EARLIEST.timestamp()), LATEST.timestamp())
    return datetime.fromtimestamp(seconds, UTC)
