"""The contract of an object store and the values it speaks in.

A store maps keys to bytes. Its methods block; callers run them in threads. Every method may raise the `StoreError`
classes, and each waits no longer than its store's own timeouts. Keys are `/`-separated text as `check_key` has it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO, Protocol, TypeVar

import msgspec

from workspace_sync.errors import IllegalName, StoreRefused

CHUNK_BYTES = 1 << 20
_NO_PARTS = frozenset(("", ".", ".."))

Item = TypeVar("Item")
Opened = Callable[[], BinaryIO]
"""Opens an object's bytes."""
Ahead = Iterator[tuple[Item, Opened]]
"""Objects that were asked for ahead, each with what opens it."""


class StoredObject(msgspec.Struct, frozen=True, gc=False):
    """One object: its key, its size in bytes and when it was written (seconds since the epoch).

    `etag` is as in `Written`; `version_id` is empty in a listing.
    """

    key: str
    size: int
    modified: float
    etag: str = ""
    version_id: str = ""


class Written(msgspec.Struct, frozen=True, gc=False):
    """What a write left: the object's ETag (another after each write of other bytes; without quotes), and its version.

    `version_id` is empty where the store keeps no versions.
    """

    etag: str
    version_id: str = ""


class ObjectStore(Protocol):
    """Where workspaces are durable. Safe to use from several threads."""

    @property
    def description(self) -> str:
        """Which store this is, for messages; carries no secret."""

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        """Write an object whole or not at all: `source` is read once, in order, and must give exactly `size` bytes.

        An error of `source` is passed on, and the object stays what it was.
        """

    def get(self, key: str, offset: int = 0, size: int | None = None) -> BinaryIO:
        """The object's bytes from `offset` on, at most `size` of them, as a stream; the caller closes it.

        Nothing before `offset` is moved; beyond the object's end there is nothing. Raises `ObjectNotFound`.
        """

    def get_ahead(self, wanted: Iterable[tuple[Item, str]]) -> contextlib.AbstractContextManager[Ahead[Item]]:
        """Objects, in the order in which they come, each with what opens it as `get` does, for one thread.

        `wanted` are their keys, each with what stands for it. Further ones are asked for already, where that is faster:
        what is given has to be opened, once, before the next is taken.
        """

    def stat(self, key: str) -> StoredObject:
        """The object's size, time and ETag. Raises `ObjectNotFound`."""

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """Every object whose key starts with `prefix` (which ends in `/`), in no particular order.

        To be read on without a pause: what follows may have been asked for already.
        """

    def delete(self, keys: Iterable[str]) -> None:
        """Remove these objects; absent ones are fine."""

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        """Copy an object inside the store, none of its bytes coming here.

        `size` is what it has, where the caller knows that: it may spare the store a look.
        Raises `ObjectNotFound`, also when an `etag` is given and the source has another one by now.
        """

    def presign(self, key: str, seconds: int, filename: str) -> str | None:
        """A link that lets anyone who holds it read the object as a download of that name, for so long.

        None where the store has no such links. The link is a secret; whether the object is there is not looked at.
        """

    def check(self) -> tuple[str, ...]:
        """Write, read, list and delete an object of its own; called before the service starts.

        Gives advice, a sentence for each thing that works less well than it could. Raises `PermissionMissing` with
        every permission that is missing, another `StoreError` that says what to do. What writes of processes that
        died have left is removed.
        """

    def close(self) -> None:
        """Let go of connections and threads."""


def check_key(key: str) -> str:
    """The key itself when it is one; raises `IllegalName` for what could climb out or that no store takes."""
    if "\0" in key or not _NO_PARTS.isdisjoint(key.split("/")):
        raise IllegalName(f"{key!a} is not a key")
    return key


@contextlib.contextmanager
def one_by_one(get: Callable[[str], BinaryIO], wanted: Iterable[tuple[Item, str]]) -> Iterator[Ahead[Item]]:
    """`get_ahead` of a store where nothing is gained by asking ahead."""
    yield ((item, partial(get, key)) for item, key in wanted)


class FileSource(io.RawIOBase):
    """A file of exactly `size` bytes, which may be read from its start again: no store has to hold them in memory."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        super().__init__()
        file.seek(0)
        self._file = file
        self.size = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """What follows."""
        piece = self._file.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def begin(self) -> BinaryIO:
        """The file, at its start. Raises `StoreRefused` when it is of another size."""
        if self._file.seek(0, io.SEEK_END) != self.size:
            raise StoreRefused(f"the source is not of its announced size, {self.size} bytes")
        self._file.seek(0)
        return self._file


class ExactReader(io.RawIOBase):
    """A source that fails unless it gives exactly `size` bytes; what stores read through."""

    def __init__(self, source: BinaryIO, size: int) -> None:
        super().__init__()
        self._source = source
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, all of what is left when negative; short only at the end."""
        wanted = self._left if size < 0 else min(size, self._left)
        pieces = []
        while wanted:
            piece = self._source.read(min(wanted, CHUNK_BYTES))
            if not piece:
                raise StoreRefused(f"the source ended {self._left} bytes before its announced size")
            pieces.append(piece)
            wanted -= len(piece)
            self._left -= len(piece)
        if size:
            self._look_at_end()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, as far as there is something left; of a source that can, without another copy."""
        view = memoryview(buffer)[: self._left]
        filled = 0
        source: Any = self._source
        into = None if type(source).readinto is io.RawIOBase.readinto else source.readinto
        while filled < len(view):
            if into is None:
                piece = self._source.read(min(len(view) - filled, CHUNK_BYTES))
                taken = len(piece)
                view[filled : filled + taken] = piece
            else:
                taken = into(view[filled:])
            if not taken:
                raise StoreRefused(f"the source ended {self._left} bytes before its announced size")
            filled += taken
            self._left -= taken
        self._look_at_end()
        return filled

    def _look_at_end(self) -> None:
        if not self._left and self._source.read(1):  # before the last bytes are given on, so that nothing is written
            raise StoreRefused("the source holds more than its announced size")
