"""Variables on the sandbox's disk, one file each, for the kernel that follows one that died.

Loaded by `kernel_main.py` from its directory and called between cells, in the thread that runs code: what is kept is
pickled, which may run code of the user's. Each value is written by itself, so that one which cannot be spoils no other.
Functions and classes of cells are kept as their source, modules by their names.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import io
import json
import linecache
import os
import pickle
import sys
import time
import types
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO, cast

DIRECTORY = "~/.cache/sandcell/variables"
INDEX = "index.json"
MOST_NAMES = 1_000
LONGEST_WHY = 200
LONGEST_NAME = 200
MOST_CELLS = 200
"""Cells, and other files, that are looked through for a class, the latest first."""
PIECE_BYTES = 16 * 1024 * 1024
"""Of something large, what is written or read before another look at the clock."""
SCALARS = (bool, float, complex, type(None))
SHORT = 200
"""Characters or bits of a text or a number that is its own digest."""
SMALL_BYTES = 64 * 1024
"""A value that takes no more is pickled each time, and written only when it has become another."""

NO_TIME = "there was no time for it"
INTERRUPTED = "an interrupt came before it was restored"

Row = dict[str, Any]


class NotKept(Exception):
    """Why a value is not kept."""


class _Pickled(io.RawIOBase):
    """What a pickler writes: in memory while it is small, then in a file; so many bytes, until a point in time.

    The pickler's writes are where its work can be ended.
    """

    def __init__(self, path: str, most_bytes: int, until: float) -> None:
        super().__init__()
        self.size = 0
        self.small = bytearray()
        self.file: BinaryIO | None = None
        self._path, self._most_bytes, self._until = path, most_bytes, until

    def writable(self) -> bool:
        """Called by picklers."""
        return True

    def write(self, data: Any) -> int:
        """Called by picklers; raises `NotKept`."""
        piece = memoryview(data).cast("B")
        self.size += piece.nbytes
        if self.size > self._most_bytes:
            raise NotKept("there is no room for it within `keep_variables_mb`")
        for part in _cut(piece, self._until):
            if self.file is None and self.size <= SMALL_BYTES:
                self.small += part
            else:
                self.spill().write(part)
        return piece.nbytes

    def spill(self) -> BinaryIO:
        """The file, with all that came so far."""
        if self.file is None:
            self.file = open(self._path, "xb")  # noqa: SIM115 - closed by `close`
            self.file.write(self.small)
        return self.file

    def close(self) -> None:
        """Close the file, if there is one."""
        if self.file is not None:
            self.file.close()
        super().close()


class KeptVariables:
    """What one kernel keeps, and what it found of the one before."""

    def __init__(self, directory: str = DIRECTORY) -> None:
        self._directory = os.path.expanduser(directory)
        self._rows: dict[str, Row] | None = None
        """By name, what was written last; None before anything was."""
        self._own = os.urandom(8).hex()
        """What the names of this kernel's files begin with: those of the one before stay until these are there."""
        self._number = 0

    def keep(self, names: dict[str, Any], hidden: Any, most_bytes: int, seconds: float) -> Row:
        """Write what has changed since the last time, `most_bytes` in all; says how many names are kept and are not."""
        until = time.monotonic() + seconds
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        try:
            rows = self._write_all(names, hidden, most_bytes, until)
            if rows != self._rows:
                self._commit(rows)
        except BaseException:
            self._clean(self._load() if self._rows is None else self._rows)  # what was kept before stays
            raise
        refused = sum("why" in each for each in rows.values())
        told = [
            {"name": name[:LONGEST_NAME], "outcome": "lost" if "why" in row else "kept", "why": row.get("why", "")}
            for name, row in rows.items()
        ]
        return {"status": "ok", "kept": len(rows) - refused, "refused": refused, "variables": told}

    def _write_all(self, names: dict[str, Any], hidden: Any, most_bytes: int, until: float) -> dict[str, Row]:
        old, rows = self._rows or {}, dict[str, Row]()
        first: dict[int, str] = {}
        left = most_bytes
        for name in [each for each in list(names) if _is_kept(each, hidden)][-MOST_NAMES:]:
            value = names[name]
            if id(value) in first:
                other = first[id(value)]
                rows[name] = rows[other] if "why" in rows[other] else {"same": other}
                continue
            first[id(value)] = name
            rows[name] = self._write(name, value, old.get(name, {}), left, until)
            left -= rows[name].get("bytes", 0)
        return rows

    def _write(self, name: str, value: Any, old: Row, left: int, until: float) -> Row:
        """The row of a value, which is the old one where the value is what it was; no other file of it stays."""
        try:
            if time.monotonic() > until:
                raise NotKept(NO_TIME)
            described = _describe(name, value)
            if described is not None:
                return described
            digest = _digest(value, left, until)
            if digest is not None and digest == old.get("digest") and old["bytes"] <= left:
                return old
            return self._pickle(value, digest, old, left, until)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of the user's code: `SystemExit` too, which would end the kernel
            return {"why": _say(error)}

    def _pickle(self, value: Any, digest: str | None, old: Row, left: int, until: float) -> Row:
        self._number += 1
        file = f"{self._own}-{self._number}"
        path = os.path.join(self._directory, file)
        try:
            with _Pickled(path, left, until) as place:
                pickle.Pickler(place, protocol=5).dump(value)
                if place.file is None:
                    digest = digest or hashlib.blake2b(place.small, digest_size=16).hexdigest()
                    if digest == old.get("digest"):
                        return old
                    place.spill()
                return {"file": file, "bytes": place.size, "digest": digest}
        except BaseException:  # the file has a part of it at most
            with suppress(OSError):
                os.unlink(path)
            raise

    def _commit(self, rows: dict[str, Row]) -> None:
        """The index is replaced at once; files that no row names any more go afterwards."""
        place = os.path.join(self._directory, INDEX)
        with open(f"{place}.new", "w") as index:
            json.dump(rows, index)
        os.replace(f"{place}.new", place)
        self._rows = rows
        self._clean(rows)

    def _clean(self, rows: dict[str, Row]) -> None:
        """Remove the files that no row names."""
        used = {INDEX, *(row["file"] for row in rows.values() if "file" in row)}
        for each in os.listdir(self._directory):
            if each not in used:
                with suppress(OSError):
                    os.unlink(os.path.join(self._directory, each))

    def _load(self) -> dict[str, Row]:
        """The rows that were written last, by whichever kernel; none where they cannot be read."""
        try:
            with open(os.path.join(self._directory, INDEX)) as index:
                return cast("dict[str, Row]", json.load(index))
        except (OSError, ValueError):
            return {}

    def restore(self, names: dict[str, Any], seconds: float) -> Row:
        """Give the names of the kernel before to this one; what each became. An interrupt ends it, as its time does."""
        until, ended = time.monotonic() + seconds, ""
        try:
            with open(os.path.join(self._directory, INDEX)) as index:
                rows = json.load(index)
        except (OSError, ValueError) as error:
            return {"status": "error", "evalue": f"what was kept cannot be read: {error}"[:LONGEST_WHY]}
        said = []
        for name, row in sorted(rows.items(), key=lambda item: _order(item[1])):  # stable: else as they were defined
            why = ended = ended or (NO_TIME if time.monotonic() > until else "")
            try:
                if not ended:
                    names[name] = self._read(name, row, names)
            except KeyboardInterrupt:
                why = ended = INTERRUPTED
            except BaseException as error:  # of the user's code: `SystemExit` too, which would end the kernel
                why = row.get("why") or _say(error)
            said.append(
                {"name": name[:LONGEST_NAME], "outcome": "lost" if why else "restored", "why": why[:LONGEST_WHY]}
            )
        return {"status": "ok", "variables": said[:MOST_NAMES]}

    def _read(self, name: str, row: Row, names: dict[str, Any]) -> Any:
        if "same" in row:
            return names[row["same"]]
        if "module" in row:
            return importlib.import_module(row["module"])
        if "source" in row:
            exec(compile(row["source"], f"<kept {name}>", "exec"), names)  # noqa: S102 - the user's own code
            return names[name]
        with open(os.path.join(self._directory, row["file"]), "rb") as file:
            return pickle.load(file)  # noqa: S301 - what the same user has written


def _say(error: BaseException) -> str:
    """Why a value is not kept; its own `__str__` may fail, too."""
    if isinstance(error, NotKept):
        return str(error)
    name = type(error).__name__
    try:
        return f"{name}: {error}"[:LONGEST_WHY]
    except KeyboardInterrupt:
        raise
    except BaseException:
        return name[:LONGEST_WHY]


def _is_kept(name: Any, hidden: Any) -> bool:
    return type(name) is str and name.isidentifier() and not name.startswith("_") and name not in hidden


def _order(row: Row) -> int:
    """Modules first, then functions and classes, then values, which may need them; second names of something last."""
    return 0 if "module" in row else 1 if "source" in row else 3 if "same" in row else 2


def _describe(name: str, value: Any) -> Row | None:
    """The row of a value that needs no file; None for one that is pickled. Raises `NotKept`."""
    if isinstance(value, types.ModuleType):
        if sys.modules.get(value.__name__) is not value or value.__name__ == "__main__":
            raise NotKept("a module that no import finds")
        return {"module": value.__name__}
    own = isinstance(value, (types.FunctionType, type)) and value.__module__ == "__main__"
    if own:
        return {"source": _find_source(name, value)}
    for kind, what in (
        (io.IOBase, "an open file"),
        ((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType), "code that has begun: a generator"),
    ):
        if isinstance(value, kind):
            raise NotKept(what)
    return None


def _find_source(name: str, value: Any) -> str:
    if getattr(value, "__closure__", None):
        raise NotKept("a function that holds variables of another")
    if value.__qualname__ != name:
        raise NotKept("a lambda, or a function or class under another name than its own")
    found = _find_class(name) if isinstance(value, type) else None
    try:
        return found or inspect.getsource(value)
    except (OSError, TypeError):
        raise NotKept("its source is not known") from None


def _find_class(name: str) -> str | None:
    """The source of a class of that name, of the cell that came last: a class does not say where it is from."""
    cells = [each[2] for each in list(linecache.cache.values()) if len(each) == 4]
    for lines in cells[: -MOST_CELLS - 1 : -1]:
        text = "".join(lines)
        if f"class {name}" not in text:
            continue
        with suppress(SyntaxError):  # a cell with magics, or another file
            for node in reversed(ast.parse(text).body):
                if isinstance(node, ast.ClassDef) and node.name == name:
                    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                    return "".join(lines[first - 1 : node.end_lineno])
    return None


def _cut(data: memoryview, until: float) -> Iterator[memoryview]:
    """Parts of something large, between which its time may be over; raises `NotKept`."""
    for start in range(0, data.nbytes, PIECE_BYTES):
        if time.monotonic() > until:
            raise NotKept(NO_TIME)
        yield data[start : start + PIECE_BYTES]


def _digest(value: Any, most_bytes: int, until: float) -> str | None:
    """Of short scalars, and of numpy's arrays and bytes that are large as they lie in memory: they need no pickling."""
    kind = type(value)
    if kind in SCALARS or (kind is int and value.bit_length() <= SHORT) or (kind is str and len(value) <= SHORT):
        return f"{kind.__name__} {value!r}"
    numpy = sys.modules.get("numpy")
    if type(value) is bytes:
        shape, data = "bytes", memoryview(value)
    elif numpy is not None and type(value) is numpy.ndarray and not value.dtype.hasobject and value.flags.c_contiguous:
        shape, data = f"{value.shape} {value.dtype.str}", memoryview(value.reshape(-1).view("u1"))
    else:
        return None
    if not SMALL_BYTES < data.nbytes <= most_bytes:
        return None
    found = hashlib.blake2b(digest_size=16)
    for part in _cut(data, until):
        found.update(part)
    return f"{shape} {found.hexdigest()}"
