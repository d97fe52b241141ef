"""One value in one file: pickled, and compared with what the file had, so that what has not changed is not written.

Loaded by `kernel_main.py` for `kept_variables.py`. Nothing is taken as unchanged by a fingerprint of it: what a value
pickles to is compared, byte for byte, with what was written. Large buffers of arrays and frames go from the memory that
they are in, after the pickle that refers to them. Needs cloudpickle only for what pickle cannot do.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import io
import os
import pickle
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, BinaryIO, NamedTuple, cast

PIECE_BYTES = 1024 * 1024
"""Of something large, what is written, compared or read before another look at the clock."""
SMALL_BYTES = 64 * 1024
"""A value that takes no more is compared by its digest, without a look at its file."""
BUFFER_BYTES = 4096
"""A buffer of an array that is larger is written from where it is."""
ALIGNMENT = 64
NO_ROOM = "there is no room for it within `keep_variables_mb`, or on the disk"
CLOUDPICKLE = "sandcell_cloudpickle"
"""What pickles name the module by: no package of the image's, or of the user's, is taken for it."""

REFUSALS = (pickle.PicklingError, AttributeError, TypeError)
"""What pickle raises of lambdas, closures and classes inside functions, among others."""

Row = dict[str, Any]


class NotKept(Exception):
    """Why a value is not kept."""


class Late(NotKept):
    """There was no time; what was written of it before is the value as it was then."""


class Place(NamedTuple):
    """Where a value goes: a new file, and that of before, if there is one; so many bytes, until it is over."""

    path: str
    old_path: str | None
    most_bytes: int
    is_over: Callable[[], str]
    """Why nothing more is to be written, empty for as long as there is time and memory for it."""


class Writer(io.RawIOBase):
    """What a pickler writes to: in memory while it is small, then compared with the file of before, then a new file.

    Its writes are where a pickler's work can be ended.
    """

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.size = 0
        self.small = bytearray()
        self.file: BinaryIO | None = None
        self._path, self._old_path, self._most_bytes, self._is_over = place
        self._old: BinaryIO | None = None
        """The file of before, for as long as all that came is in it."""
        self._buffer = bytearray()

    def writable(self) -> bool:
        """Called by picklers."""
        return True

    def write(self, data: Any) -> int:
        """Called by picklers; raises `NotKept`."""
        whole = memoryview(data).cast("B")
        self.size += whole.nbytes
        if self.size > self._most_bytes:
            raise NotKept(NO_ROOM)
        if self.size <= SMALL_BYTES:
            self.small += whole
            return whole.nbytes
        if self.file is None and self._old is None:
            self._begin()
        for start in range(0, whole.nbytes, PIECE_BYTES):
            if why := self._is_over():
                raise Late(why)
            self._put(whole[start : start + PIECE_BYTES])
        return whole.nbytes

    def finish(self) -> bool:
        """All was written; whether that is what the file of before has. Else the new file has it."""
        if self.file is None and self._old is None:
            self._open()
            self._put(memoryview(self.small))
        if self._old is not None:
            if not self._old.read(1):
                return True
            self._differ(self.size)
        return False

    def close(self) -> None:
        """Close what is open."""
        for each in (self.file, self._old):
            if each is not None:
                each.close()
        super().close()

    def _begin(self) -> None:
        if self._old_path is not None:
            with suppress(OSError):
                self._old = open(self._old_path, "rb", buffering=0)  # noqa: SIM115 - closed by `close`
                self._buffer = bytearray(PIECE_BYTES)
        if self._old is None:
            self._open()
        self._put(memoryview(self.small))

    def _open(self) -> BinaryIO:
        self.file = open(self._path, "xb", buffering=0)  # noqa: SIM115 - closed by `close`
        return self.file

    def _put(self, part: memoryview) -> None:
        if self._old is not None:
            at = self._old.tell()
            if part.nbytes == len(self._buffer):
                same = self._old.readinto(self._buffer) == part.nbytes and self._buffer == part  # type: ignore[attr-defined]
            else:
                same = bytearray(self._old.read(part.nbytes)) == part
            if same:
                return
            self._differ(at)
        _write_all(self.file, part)

    def _differ(self, same_bytes: int) -> None:
        """The new file begins as the old one does."""
        old, new = cast("BinaryIO", self._old), self._open()
        self._old = None
        with old:
            old.seek(0)
            for start in range(0, same_bytes, PIECE_BYTES):
                _write_all(new, memoryview(old.read(min(PIECE_BYTES, same_bytes - start))))


def refuse_file(value: Any) -> None:
    """Raise `NotKept` of an open file; those in memory are values like others."""
    if isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO)):
        raise NotKept("an open file")


def write_value(value: Any, names: Row, old: Row, place: Place) -> Row:
    """The row of a value: with the file of the `old` row when that has it, else the new one, which is there then.

    Raises `NotKept`, and what the value's code raises. What other variables may share with it is under `shares`, which
    is no part of the row.
    """
    own = isinstance(value, (types.FunctionType, type)) and value.__module__ == "__main__"
    for cloud in (own or bool(old.get("cloud")), True):
        try:
            with Writer(place) as writer:
                row = _dump(value, names, writer, cloud=cloud)
                digest = row.get("digest")
                same = (digest is not None and digest == old.get("digest")) or writer.finish()
                return {"file": old["file"] if same else os.path.basename(place.path), **row}
        except BaseException as error:  # of the value's code, too; the file has a part of it at most
            with suppress(OSError):
                os.unlink(place.path)
            if cloud or not isinstance(error, REFUSALS):
                raise
    raise AssertionError


def _dump(value: Any, names: Row, writer: Writer, *, cloud: bool) -> Row:
    """Pickle a value, and then the buffers that it left out."""
    left_out: list[memoryview] = []

    def leave_out(buffer: Any) -> bool:
        raw = buffer.raw()
        if raw.nbytes > BUFFER_BYTES:
            left_out.append(raw)
        return bool(raw.nbytes <= BUFFER_BYTES)

    if cloud:
        pickler = _cloud_pickler()(writer, names, value, leave_out)
    else:
        pickler = pickle.Pickler(writer, protocol=5, buffer_callback=leave_out)
    pickler.dump(value)
    stream = writer.size
    for each in left_out:
        writer.write(bytes(-writer.size % ALIGNMENT))
        writer.write(each)
    row = {"bytes": writer.size, "stream": stream, "buffers": [each.nbytes for each in left_out]}
    if writer.size <= SMALL_BYTES:
        row["digest"] = hashlib.blake2b(writer.small, digest_size=16).hexdigest()
    if cloud:
        row.update(cloud=True, code=pickler.has_code)
    return {**row, "shares": pickler.memo.copy() if stream <= PIECE_BYTES else {}}


def _write_all(file: Any, part: memoryview) -> None:
    while part.nbytes:
        part = part[file.write(part) :]


def read_value(path: str, row: Row) -> Any:
    """The value of a row; raises what its code raises."""
    if row.get("cloud"):
        _cloudpickle()
    with open(path, "rb", buffering=0) as file:
        stream = _read(file, row["stream"])
        buffers = []
        for size in row["buffers"]:
            file.seek(-file.tell() % ALIGNMENT, os.SEEK_CUR)
            buffers.append(_read(file, size))
    return pickle.loads(stream, buffers=buffers)  # noqa: S301 - what the same user has written


def _read(file: Any, size: int) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        got = file.readinto(view[at:])
        if not got:
            raise EOFError("its file is not whole")
        at += got
    return found


@cache
def _cloudpickle() -> Any:
    """The module that lies beside this one, or where this runs without a sandbox the one that is installed."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cloudpickle.py")
    if not os.path.exists(path):
        path = str(importlib.import_module("cloudpickle.cloudpickle").__file__)
    spec: Any = importlib.util.spec_from_file_location(CLOUDPICKLE, path)
    module = sys.modules[CLOUDPICKLE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Main:
    """Pickled in the place of the names that code has: those of the kernel that reads it."""

    def __reduce__(self) -> Any:
        return vars, (_MainModule(),)


class _MainModule:
    def __reduce__(self) -> Any:
        return importlib.import_module, ("__main__",)


@cache
def _cloud_pickler() -> Any:
    cloudpickle = _cloudpickle()

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        """Functions and classes of cells by value, with the globals of the kernel; others under their own names.

        Those that variables of their own have are pickled by their names in what others refer to them from: there is
        one of each in the next kernel as well.
        """

        def __init__(self, file: Any, names: Row, value: Any, leave_out: Any) -> None:
            super().__init__(file, protocol=5, buffer_callback=leave_out)
            self.has_code = False
            self._names, self._value = names, value

        def reducer_override(self, obj: Any) -> Any:
            """Called for each object that is of no built-in type."""
            refuse_file(obj)  # cloudpickle would read it
            if obj is os.environ or obj is os.environb:  # the next process has its own
                return getattr, (os, "environ" if obj is os.environ else "environb")
            own = isinstance(obj, (type, types.FunctionType)) and getattr(obj, "__module__", None) == "__main__"
            if own and obj is not self._value and self._names.get(obj.__qualname__) is obj:
                return NotImplemented
            self.has_code = self.has_code or own
            return super().reducer_override(obj)

        def _dynamic_function_reduce(self, func: Any) -> Any:
            """Called for a function that goes by value: its globals are the names of the kernel, not a copy of some."""
            reduced = super()._dynamic_function_reduce(func)
            if func.__globals__ is not self._names:
                return reduced
            make, (code, _globals, *rest), (state, slots), *more = reduced
            return make, (code, _Main(), *rest), (state, {**slots, "__globals__": {}}), *more

    return Pickler
