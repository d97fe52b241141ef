"""Values by path, in order of path, packed: a workspace may have hundreds of thousands of names (pure).

What was set last is kept as it is, up to so many; then it is packed into blocks, each with its paths and one piece of
memory for all their values. Blocks never change: a reader, or a copy of the table, goes on with those it began
with. One thread may write at a time; any number may read meanwhile.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Generic, TypeVar, cast, overload

import msgspec

Value = TypeVar("Value")
Default = TypeVar("Default")
BLOCK = 256
"""Values in one block at most."""
LEAST_FRESH = 2048
FRESH_SHARE = 32
"""Not packed yet are at most so many values, and one of so many when that is more."""
_REMOVED: Any = object()
_UNKNOWN: Any = object()


class Codec(msgspec.Struct, Generic[Value], frozen=True):
    """A value as bytes, and back, given its path."""

    pack: Callable[[bytes, Value], bytes]
    unpack: Callable[[bytes, bytes], Value]


class _Block:
    """Some paths in order; the bytes of the n-th are those of `data` up to `ends[n]`."""

    __slots__ = ("data", "ends", "paths")

    def __init__(self, rows: list[tuple[bytes, bytes]]) -> None:
        self.paths = tuple([path for path, _ in rows])
        self.data = b"".join([cell for _, cell in rows])
        self.ends = array("I")
        end = 0
        for _, cell in rows:
            end += len(cell)
            self.ends.append(end)

    def cell(self, index: int) -> bytes:
        return self.data[self.ends[index - 1] if index else 0 : self.ends[index]]

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        start = 0
        for path, end in zip(self.paths, self.ends, strict=True):
            yield path, self.data[start:end]
            start = end


class _Blocks(msgspec.Struct, frozen=True):
    """Blocks in order, with the first path of each."""

    blocks: list[_Block]
    firsts: list[bytes]

    def find(self, path: bytes) -> bytes | None:
        at = bisect_right(self.firsts, path) - 1
        if at < 0:
            return None
        block = self.blocks[at]
        index = bisect_left(block.paths, path)
        return block.cell(index) if index < len(block.paths) and block.paths[index] == path else None


class Table(MutableMapping[bytes, Value]):
    """A mapping in order of path; what is iterated over may be changed meanwhile, and is seen as it was."""

    def __init__(self, codec: Codec[Value], values: Mapping[bytes, Value] | None = None) -> None:
        self._codec = codec
        self._fresh: dict[bytes, Value] = {}
        self._packed = _Blocks([], [])
        self._count = 0
        self._writing = threading.RLock()
        self.update(values or {})

    def copy(self) -> Table[Value]:
        """The same values, apart from now on; takes next to no time and memory."""
        other: Table[Value] = Table(self._codec)
        with self._writing:
            other._fresh, other._packed, other._count = dict(self._fresh), self._packed, self._count
        return other

    def __len__(self) -> int:
        return self._count

    def __contains__(self, path: object) -> bool:
        value = self._fresh.get(cast("bytes", path), _UNKNOWN)
        return self._packed.find(cast("bytes", path)) is not None if value is _UNKNOWN else value is not _REMOVED

    def __getitem__(self, path: bytes) -> Value:
        value = self.get(path, _UNKNOWN)
        if value is _UNKNOWN:
            raise KeyError(path)
        return cast("Value", value)

    @overload
    def get(self, path: bytes) -> Value | None: ...
    @overload
    def get(self, path: bytes, default: Value | Default) -> Value | Default: ...
    def get(self, path: bytes, default: Any = None) -> Any:
        value = self._fresh.get(path, _UNKNOWN)
        if value is _UNKNOWN:
            cell = self._packed.find(path)
            return default if cell is None else self._codec.unpack(path, cell)
        return default if value is _REMOVED else value

    def __setitem__(self, path: bytes, value: Value) -> None:
        with self._writing:
            self._count += path not in self
            self._set(path, value)

    def __delitem__(self, path: bytes) -> None:
        with self._writing:
            if path not in self:
                raise KeyError(path)
            self._count -= 1
            self._set(path, _REMOVED)

    def __iter__(self) -> Iterator[bytes]:
        return (path for path, _ in _merge_rows(*self._snapshot()))

    def values(self) -> ValuesView[Value]:
        return _Values(self)

    def items(self) -> ItemsView[bytes, Value]:
        return _Items(self)

    def pack(self) -> None:
        """Pack what is not yet, unless it is little: to be called once a table has been filled."""
        with self._writing:
            if self._packed.blocks:
                self._pack()

    def _set(self, path: bytes, value: Value) -> None:
        self._fresh[path] = value
        if len(self._fresh) >= max(LEAST_FRESH, self._count // FRESH_SHARE):
            self._pack()

    def _pack(self) -> None:
        self._packed = self._merge(sorted(self._fresh))  # first, so that a reader meanwhile finds all
        self._fresh = {}

    def _merge(self, paths: list[bytes]) -> _Blocks:
        """The blocks with what is fresh in its place; those that have nothing of it stay as they are."""
        blocks: list[_Block] = []
        before = self._packed
        start = 0
        for block, following in zip(before.blocks or [_Block([])], [*before.firsts[1:], None], strict=True):
            end = len(paths) if following is None else bisect_left(paths, following, start)
            blocks.extend([block] if start == end else self._rebuild(block, paths[start:end]))
            start = end
        return _Blocks(blocks, [block.paths[0] for block in blocks])

    def _rebuild(self, block: _Block, paths: list[bytes]) -> Iterator[_Block]:
        cells = dict(block.rows())
        for path in paths:
            value = self._fresh[path]
            if value is _REMOVED:
                cells.pop(path, None)
            else:
                cells[path] = self._codec.pack(path, value)
        rows = sorted(cells.items())
        size = -(-len(rows) // -(-len(rows) // BLOCK)) if rows else 1
        return (_Block(rows[at : at + size]) for at in range(0, len(rows), size))

    def _snapshot(self) -> tuple[dict[bytes, Value], list[_Block]]:
        with self._writing:
            return dict(self._fresh), self._packed.blocks

    def _rows(self) -> Iterator[tuple[bytes, Value]]:
        (fresh, blocks), unpack = self._snapshot(), self._codec.unpack
        rows = _merge_rows(fresh, blocks)
        return ((path, fresh[path] if cell is None else unpack(path, cell)) for path, cell in rows)


class _Values(ValuesView[Value]):
    """All values, without a search for each."""

    _mapping: Table[Value]

    def __iter__(self) -> Iterator[Value]:
        return (value for _, value in self._mapping._rows())


class _Items(ItemsView[bytes, Value]):
    """All paths with their values, without a search for each."""

    _mapping: Table[Value]

    def __iter__(self) -> Iterator[tuple[bytes, Value]]:
        return self._mapping._rows()


def _merge_rows(fresh: dict[bytes, Any], blocks: list[_Block]) -> Iterator[tuple[bytes, bytes | None]]:
    """Every path in order, with its bytes unless it is a fresh one."""
    waiting = sorted((path for path, value in fresh.items() if value is not _REMOVED), reverse=True)
    for block in blocks:
        for path, cell in block.rows():
            while waiting and waiting[-1] < path:
                yield waiting.pop(), None
            if path not in fresh:
                yield path, cell
    while waiting:
        yield waiting.pop(), None
