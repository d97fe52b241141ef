"""Variables on the sandbox's disk, one file each, for the kernel that follows one that died.

Loaded by `kernel_main.py` from its directory and called between cells, in the thread that runs code: what is kept is
pickled, which may run code of the user's. Each value is written by itself, so that one which cannot be spoils no other;
`kept_values.py` does that. The directory can be moved: nothing in it names a place, a process or a kernel's start.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import ast
import importlib
import inspect
import json
import linecache
import logging
import os
import sys
import time
import types
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any

DIRECTORY = "~/.cache/sandcell/variables"
INDEX = "index.json"
STAMP = "stamp.json"
"""Which kernel has written or taken up what is in the index, when, and after how many executions."""
STAMP_BYTES = 200
MOST_NAMES = 1_000
LONGEST_WHY = 200
LONGEST_NAME = 200
MOST_CELLS = 200
"""Cells, and other files, that are looked through for a class, the latest first."""
MOST_OBJECTS = 200_000
"""Objects of all variables that are looked at for whether others have them, too."""
SCALARS = (bool, float, complex, type(None))
SHORT = 200
"""Characters or bits of a text or a number that is its own digest."""
MOST_BASES = 10
FIXED = (
    *(bool, int, float, complex, str, bytes, tuple, frozenset, range, type(None), type(...)),
    *(types.ModuleType, types.FunctionType, types.BuiltinFunctionType),
)
ONE_EACH = (type, Enum, logging.Logger)
"""What is pickled by its name."""
HOMELESS = ("__main__", "builtins")
"""Modules of types whose objects are not looked for in them."""
CONTAINERS = (list, dict, set, bytearray)
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
PASSING = ("executions", "why", "shared")
"""What a row says of a value that could not be looked at, or of others beside it."""
BEGUN = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)

BACK_OFF = 20.0
"""While code waits, what took so much of a processor is not looked at again for so many times as long."""
QUICK_SECONDS = 0.001
"""What takes no more is looked at each time."""
PAUSE_SECONDS = 0.02
"""What took longer is looked at once no code has come for so long: a program that sends on at once does so sooner."""
SLOW_SECONDS = 0.1
"""What took longer, by the clock, is looked at after all others the next time: else they would have no time left."""
LOOK_SECONDS = 0.005
PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
KERNEL_PACKAGES = "/opt/sandcell/kernel"

NO_TIME = "there was no time for it"
NO_MEMORY = "there was no memory to write it from"
SHARE = 3
"""Of the room on the disk, where the session is not to give up its sandbox: while new files are written the old ones
stay, and as much again is left to the session's code."""
INTERRUPTED = "an interrupt came before it was restored"

Row = dict[str, Any]


class KeptVariables:
    """What one kernel keeps, and what it found of the one before. `values` is the module `kept_values`."""

    def __init__(self, values: Any, directory: str = DIRECTORY) -> None:
        self._values = values
        self._directory = os.path.expanduser(directory)
        self._rows: dict[str, Row] | None = None
        """By name, what was written last; None before anything was."""
        self._stamp: Row = {}
        self._stale = False
        """Whether the index has rows of the kernel before that this one could not take up."""
        self._own = os.urandom(8).hex()
        """What the names of this kernel's files begin with: those of the one before stay until these are there."""
        self._number = 0
        self.is_unwanted: Callable[[], bool] = lambda: False
        """Whether there is no more time for what is being kept: another thread may say so."""
        self.is_awaited: Callable[[], bool] = lambda: False
        """Whether code waits for it: values that were looked at not long ago stay as they were then."""
        self.pause: Callable[[float], object] = lambda _seconds: None
        """Wait so long for one of these to become true."""
        self._due: dict[str, float] = {}
        """By name, when a value is looked at again even if code waits, by the monotonic clock."""
        self._slow: dict[str, float] = {}
        """By name, how long a slow value took when it was looked at last."""
        self._has_grown: Callable[[], bool] = lambda: False
        self._until = 0.0
        """When nothing more is begun, by the monotonic clock."""
        self._in_value = False
        self._homes: dict[str, dict[int, str]] = {}
        """Of one look: by the names of modules, what they have themselves, names by the ids of objects."""
        self._may_wait = False
        """Whether the present value may stay as it was written before, for code that waits."""

    def keep(
        self,
        names: dict[str, Any],
        hidden: Any,
        most_bytes: int,
        seconds: float,
        stamp: Row,
        *,
        memory_bytes: int | None = None,
        held_bytes: int | None = None,
        share: bool = False,
        counted: bool = False,
    ) -> Row:
        """Write what has changed since the last time, `most_bytes` in all; says of each name whether it is kept.

        `stamp` is what the service knows of this moment: `generation`, `executions`, `at`. It ends once the process has
        grown by `memory_bytes`, from now or from the `held_bytes` that it said last: then nothing may be looked at, and
        nothing is said. With `share` no more is kept than is good for the disk, with `counted` no name is said.
        """
        self._until, began = time.monotonic() + seconds, time.thread_time()
        held = _measure_memory()
        self._has_grown = _watch_growth(memory_bytes, held if held_bytes is None else held_bytes)
        if self._has_grown():
            return {"status": "ok", "variables": []}
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        if share:
            most_bytes = min(most_bytes, self._find_room() // SHARE)
        try:
            rows = self._write_all(names, hidden, most_bytes)
            self._commit(rows, {**stamp, "python": PYTHON})
        except BaseException:
            self._clean(self._load()[0] if self._rows is None else self._rows)  # what was kept before stays
            raise
        count = sum(not _has_no_value(row) for row in rows.values())
        told = [] if counted else [_tell_kept(name, row) for name, row in rows.items()]
        took = {"seconds": time.thread_time() - began, "held": held}
        return {"status": "ok", "variables": told, "kept": count, **took}

    def end_value(self) -> None:
        """Called in a signal's handler: end what code of a value's own does, if it is that which runs."""
        if self._in_value:
            raise self._values.Late(NO_TIME)

    def _find_room(self) -> int:
        """What is free on the disk, and what the files of before take."""
        disk = os.statvfs(self._directory)
        rows = (self._rows or {}).values()
        return int(disk.f_bavail * disk.f_frsize + sum(row.get("bytes", 0) for row in rows if "file" in row))

    def _is_over(self, *, grown: bool = False) -> str:
        """Why nothing more is to be written, empty as long as there is no reason; asked before a value and within it.

        Only with `grown` for how much the process has grown, which is read from a file: not for each small value.
        """
        if time.monotonic() > self._until or self.is_unwanted() or (self._may_wait and self.is_awaited()):
            return NO_TIME
        return NO_MEMORY if grown and self._has_grown() else ""

    def _write_all(self, names: dict[str, Any], hidden: Any, most_bytes: int) -> dict[str, Row]:
        old, rows = self._rows or {}, dict[str, Row]()
        kept = [(name, names[name]) for name in list(names) if _is_kept(name, hidden)][-MOST_NAMES:]
        first: dict[int, str] = {}
        values = {name: value for name, value in kept if first.setdefault(id(value), name) is name}
        shared = _Shared()
        left, paused = most_bytes, False
        self._homes = {}
        # Code that comes does not wait for what took long, and what is quick finds time.
        for name in sorted(values, key=lambda name: (self._slow.get(name, 0.0), name in self._due)):
            row = old.get(name, {})
            if not _is_unchanged(values[name], row, left):
                if name in self._due and not paused:
                    self.pause(PAUSE_SECONDS)
                    paused = True
                row = self._write(name, values[name], names, row, left)
                shared.note(name, row.pop("shares", {}))
            rows[name] = row
            left -= row.get("bytes", 0)
        for name, value in kept:
            if (one := first[id(value)]) == name:
                continue
            rows[name] = rows[one] if _has_no_value(rows[one]) else {"same": one}
            if "executions" in rows[one]:  # it is as it was when this name may have had another value
                rows[name] = self._leave(old.get(name, {}), left, rows[one]["why"], same=one)
                left -= rows[name].get("bytes", 0)
        rows = {name: rows[name] for name, _value in kept}  # as they were defined
        self._due = {name: due for name, due in self._due.items() if name in rows}
        self._slow = {name: took for name, took in self._slow.items() if name in rows}
        with suppress(Exception):  # classes may have code of the user's for what is asked of them here
            for name, owner in shared.find(names, first).items():
                rows[name] = {**rows[name], "shared": owner}
        return rows

    def _write(self, name: str, value: Any, names: dict[str, Any], old: Row, left: int) -> Row:
        """The row of a value; no other file of it stays. What there was no time for stays as it was, and says so.

        The name may have another value meanwhile, of another thread's.
        """
        due, began, at = self._due.get(name, 0.0), time.thread_time(), time.monotonic()
        self._may_wait = bool(old) and at < due
        self._in_value = True
        try:
            row = self._describe(name, value, names, old, left)
            self._slow.pop(name, None)
            return row
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of the user's code: `SystemExit` too, which would end the kernel
            late = isinstance(error, self._values.Late)
            if late and _has_no_value(old):
                return old
            return self._leave(old if late else {}, left, self._say(error))
        finally:
            self._in_value = False
            took = time.thread_time() - began
            if took > QUICK_SECONDS:
                self._due[name] = max(due, time.monotonic() + took * BACK_OFF)
            slow = time.monotonic() - at
            if slow > SLOW_SECONDS:
                self._slow[name] = slow

    def _leave(self, old: Row, left: int, why: str, same: str | None = None) -> Row:
        """The row of what stays as it was, if there is room for that; with the value of no other name than `same`."""
        if not old or _has_no_value(old) or old.get("bytes", 0) > left or old.get("same", same) != same:
            return {"why": why}
        return {**old, "executions": old.get("executions", self._stamp.get("executions")), "why": why}

    def _describe(self, name: str, value: Any, names: dict[str, Any], old: Row, left: int) -> Row:
        if isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value or value.__name__ == "__main__":
                raise self._values.NotKept("a module that no import finds")
            return {"module": value.__name__, "image": True} if _is_of_image(value) else {"module": value.__name__}
        if value is sys.modules:
            return {"attribute": ["sys", "modules"]}
        if isinstance(value, BEGUN):
            raise self._values.NotKept("code that has begun: a generator")
        self._values.refuse_file(value)
        if why := self._is_over():
            raise self._values.Late(why)
        digest = _digest(value)
        if digest is not None and digest == old.get("digest") and old["bytes"] <= left:
            return {key: old[key] for key in old if key not in PASSING}
        own = names.get(name) is value and _is_own(name, value)
        if own and not isinstance(value, (type, types.FunctionType)):
            return self._find_source(value, old)  # a decorator made it; pickle would name it by itself
        self._number += 1
        new = f"{self._directory}/{self._own}-{self._number}"
        before = f"{self._directory}/{old['file']}" if "file" in old else None
        try:
            place = self._values.Place(new, before, left, partial(self._is_over, grown=True))
            row = self._values.write_value(value, names, old, place)
        except self._values.REFUSALS:
            if not own:
                raise
            return self._find_source(value, old)
        if own and row["file"] == old.get("file"):
            row.update((key, old[key]) for key in ("source", "place") if key in old)
        elif own:
            with suppress(self._values.NotKept):
                row.update(self._find_source(value, old))
        with suppress(Exception):  # classes may have code of the user's for what is asked of them here
            if home := self._find_home(value):
                row["home"] = home
        return {**row, "digest": digest} if digest else row

    def _find_home(self, value: Any) -> list[str] | None:
        """The module that has this very object, of which a copy is another, and by which name.

        Looked for in that of its type, as `random` and NumPy have their own generators, and in `sys`.
        """
        for name in (type(value).__module__, "sys") if _can_change(value) else ():
            module = sys.modules.get(name) if type(name) is str and name not in HOMELESS else None
            if module is None:
                continue
            there = vars(module)
            if name not in self._homes:
                own = [each for each in list(there.items()) if name in (type(each[1]).__module__, "sys")]
                self._homes[name] = {id(each): key for key, each in own}
            key = self._homes[name].get(id(value))
            if key is not None and there.get(key) is value:
                return [name, key]
        return None

    def _find_source(self, value: Any, old: Row) -> Row:
        """The source of a function or class of a cell, and where it was; of what a decorator made, of what is in it."""
        if getattr(value, "__closure__", None):
            raise self._values.NotKept("a function that holds variables of another")
        if isinstance(value, type):
            source = _find_class(value.__name__)
            if source is not None:
                return {"source": source}
        else:
            with suppress(AttributeError, OSError, TypeError, ValueError):
                code = inspect.unwrap(value).__code__
                place = [code.co_filename, code.co_firstlineno]
                return {
                    "source": old["source"] if old.get("place") == place else inspect.getsource(value),
                    "place": place,
                }
        raise self._values.NotKept("its source is not known")

    def _commit(self, rows: dict[str, Row], stamp: Row) -> None:
        """The index is replaced at once, if it has changed; files that no row names any more go afterwards."""
        place = os.path.join(self._directory, INDEX)
        if rows != self._rows or self._stale:
            with open(f"{place}.new", "w") as index:
                index.write(json.dumps(rows))
            os.replace(f"{place}.new", place)
            self._rows = rows
            self._clean(rows)
            self._stale = False
        # In place and in one piece: replacing a file takes milliseconds where others write to the disk.
        written = os.open(os.path.join(self._directory, STAMP), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(written, json.dumps(stamp).ljust(STAMP_BYTES).encode(), 0)
        finally:
            os.close(written)
        self._stamp = stamp

    def _clean(self, rows: dict[str, Row]) -> None:
        """Remove the files that no row names."""
        used = {INDEX, STAMP, *(row["file"] for row in rows.values() if "file" in row)}
        for each in os.listdir(self._directory):
            if each not in used:
                with suppress(OSError):
                    os.unlink(os.path.join(self._directory, each))

    def _load(self) -> tuple[dict[str, Row], Row]:
        """The rows that were written last, by whichever kernel, and their stamp; none where they cannot be read."""
        with suppress(OSError, ValueError), open(os.path.join(self._directory, STAMP)) as file:
            return self._load_index(), json.load(file)
        return {}, {}

    def _load_index(self) -> dict[str, Row]:
        with suppress(OSError, ValueError), open(os.path.join(self._directory, INDEX)) as file:
            return dict(json.load(file))
        return {}

    def prepare(self, seconds: float) -> Row:
        """Import the modules of the image's that are kept, while what is kept is still being laid beside this kernel.

        The index comes first. What the workspace has is not looked at: it may not be there yet.
        """
        until = time.monotonic() + seconds
        while not os.path.exists(os.path.join(self._directory, INDEX)) and time.monotonic() < until:
            time.sleep(LOOK_SECONDS)
        for row in self._load_index().values():
            if row.get("image") and time.monotonic() < until:
                with suppress(Exception, SystemExit):  # said when it is restored
                    importlib.import_module(row["module"])
        return {"status": "ok"}

    def restore(
        self,
        names: dict[str, Any],
        seconds: float,
        expected: int | None,
        generation: int | None,
        *,
        forget: bool = False,
    ) -> Row:
        """Give the names of a kernel before, of the `expected` generation if one is said, to this one; tell of each.

        They are of this `generation` from then on, or with `forget` of none. An interrupt ends it, as its time does.
        """
        until, ended = time.monotonic() + seconds, ""
        rows, stamp = self._load()
        if not stamp or (expected is not None and stamp.get("generation") != expected):
            return {"status": "ok", "found": False, "variables": []}
        said: dict[str, Row] = {}
        builtins = names.get("__builtins__")
        for again in (False, True):  # a value may need what a later row has
            for name, row in sorted(rows.items(), key=lambda item: _order(item[1])):  # stable: else as defined
                if again and (said[name]["outcome"] != "lost" or _has_no_value(row)):
                    continue
                ended = ended or (NO_TIME if time.monotonic() > until else "")
                try:
                    said[name] = self._take_up(name, row, names, stamp, ended)
                except KeyboardInterrupt:
                    ended = INTERRUPTED
                    said[name] = _tell(name, "lost", ended)
        if builtins is not None:
            names["__builtins__"] = builtins  # unpickled functions put another form of them there
        self._rows = {name: row for name, row in rows.items() if said[name]["outcome"] != "lost"}
        self._stale = self._rows != rows
        if generation is not None:
            with suppress(OSError):  # the disk is full: the next that is kept says so
                self._commit(self._rows, {**stamp, "generation": generation})
        if forget:
            self._forget()
        count = [stamp.get(key) for key in ("at", "executions")]
        return {"status": "ok", "found": True, "at": count[0], "executions": count[1], "variables": _cut(said)}

    def _forget(self) -> None:
        """Nothing is kept any more: no kernel after this one is to have it."""
        self._rows = None
        for each in (STAMP, INDEX):  # without its stamp nothing is found
            with suppress(OSError):
                os.unlink(os.path.join(self._directory, each))
        self._clean({})

    def _take_up(self, name: str, row: Row, names: dict[str, Any], stamp: Row, ended: str) -> Row:
        if _has_no_value(row):
            return _tell(name, "lost", row["why"])
        try:
            if ended:
                return _tell(name, "lost", ended)
            names[name] = self._read(name, row, names, stamp)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of the user's code: `SystemExit` too, which would end the kernel
            return _tell(name, "lost", self._say(error))
        if "executions" in row:
            return {**_tell(name, "stale", row.get("why", "")), "executions": row["executions"]}
        if "home" in row and not _is_at(row["home"], names[name]):
            return _tell(name, "copied", f"it was `{'.'.join(row['home'])}`, which is another object now")
        return _tell(name, "copied", f"it shared objects with `{row['shared']}`") if "shared" in row else _tell(name)

    def _read(self, name: str, row: Row, names: dict[str, Any], stamp: Row) -> Any:
        if "same" in row:
            return names[row["same"]]
        if "module" in row:
            return importlib.import_module(row["module"])
        if "attribute" in row:
            module, attribute = row["attribute"]
            return getattr(importlib.import_module(module), attribute)
        foreign = row.get("code", False) and stamp.get("python") != PYTHON
        if "file" in row and not foreign:
            value = self._values.read_value(os.path.join(self._directory, row["file"]), row)
            _remember_source(row)
            return value
        if "source" not in row:
            raise self._values.NotKept(f"it has code of Python {stamp.get('python')}, and this is {PYTHON}")
        file = f"<kept {name}>"
        _remember_source({**row, "place": (file, 1)})
        exec(compile(row["source"], file, "exec"), names)  # noqa: S102 - the user's own code
        return names[name]

    def _say(self, error: BaseException) -> str:
        """Why a value is not kept; its own `__str__` may fail, too."""
        if isinstance(error, self._values.NotKept):
            return str(error)
        name = type(error).__name__
        try:
            return f"{name}: {error}"[:LONGEST_WHY]
        except KeyboardInterrupt:
            raise
        except BaseException:
            return name[:LONGEST_WHY]


def _watch_growth(most_bytes: int | None, before: int | None) -> Callable[[], bool]:
    """Says whether this process holds so much more memory than before; a pickler notes each object that it has seen."""
    if most_bytes is None or before is None:
        return lambda: False
    most = before + most_bytes
    return lambda: (_measure_memory() or 0) > most


def _measure_memory() -> int | None:
    """What this process holds, None where the system does not say it."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:
            return int(file.read(200).split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


class _Shared:
    """Objects that more than one variable has; what was looked at is held, so that no other object gets its id."""

    def __init__(self) -> None:
        self._memos: list[tuple[str, Any]] = []
        self._objects = 0

    def note(self, name: str, memo: Any) -> None:
        """A value was pickled, with this memo of its pickler's; a large one has none."""
        self._objects += len(memo)
        if self._objects <= MOST_OBJECTS:
            self._memos.append((name, memo))

    def find(self, names: dict[str, Any], first: dict[int, str]) -> dict[str, str]:
        """Each variable that has an object of another's, with such another."""
        owners = {key: name for key, name in first.items() if _can_change(names[name])}
        owners.update((id(base), name) for name in list(owners.values()) for base in _find_bases(names[name]))
        found = dict[str, str]()
        for name, memo in self._memos:
            held = {key for key, (_number, each) in memo.items() if key in owners or _can_change(each, inside=True)}
            others = {key: owners.setdefault(key, name) for key in held.union(map(id, _find_bases(names[name])))}
            others = {key: other for key, other in others.items() if other != name}
            for key in others.keys() - _find_attributes(memo) if others else ():
                found.setdefault(name, others[key])
                found.setdefault(others[key], name)
        return found


def _find_attributes(memo: Any) -> set[int]:
    """What the classes of objects have, not the objects: some libraries pickle it with each, as pandas does."""
    classes = {base for _number, each in memo.values() for base in type(each).__mro__ if base.__module__ != "__main__"}
    return {id(each) for base in classes for each in vars(base).values()}


def _find_bases(value: Any) -> list[Any]:
    """The arrays whose memory an array has a part of."""
    found: list[Any] = []
    while type(value).__module__ == "numpy" and getattr(value, "base", None) is not None and len(found) < MOST_BASES:
        value = value.base
        found.append(value)
    return found


def _can_change(value: Any, *, inside: bool = False) -> bool:
    """Whether it matters that there is one of it; of what is inside of values only what surely does."""
    kind = type(value)
    if inside and kind not in CONTAINERS and kind.__module__ != "__main__":
        return False
    if value is os.environ or value is os.environb:  # there is one in each process
        return False
    return kind not in FIXED and not issubclass(kind, ONE_EACH)  # by its type: `isinstance` may call its code


def _tell(name: str, outcome: str = "restored", why: str = "") -> Row:
    return {"name": name[:LONGEST_NAME], "outcome": outcome, "why": why[:LONGEST_WHY]}


def _tell_kept(name: str, row: Row) -> Row:
    return _tell(name, "lost" if _has_no_value(row) else "kept", str(row.get("why", "")))


def _cut(said: dict[str, Row]) -> list[Row]:
    return list(said.values())[:MOST_NAMES]


def _has_no_value(row: Row) -> bool:
    return "why" in row and "executions" not in row


def _is_of_image(module: types.ModuleType) -> bool:
    """Whether any kernel of the image finds it at its start, whatever the workspace and the home directory hold."""
    file = getattr(getattr(module, "__spec__", None), "origin", None)
    places = (sys.base_prefix, sys.prefix, KERNEL_PACKAGES)
    return type(file) is str and any(file.startswith(f"{place}/") for place in places)


def _is_kept(name: Any, hidden: Any) -> bool:
    return type(name) is str and name.isidentifier() and not name.startswith("_") and name not in hidden


def _order(row: Row) -> int:
    """Modules first, then functions and classes, then values, which may need them; second names of something last."""
    return 0 if "module" in row else 1 if "source" in row or row.get("code") else 3 if "same" in row else 2


def _is_at(home: list[str], value: Any) -> bool:
    """Whether a module has this very object by this name."""
    return vars(sys.modules[home[0]]).get(home[1]) is value if home[0] in sys.modules else False


def _is_own(name: str, value: Any) -> bool:
    """Whether it is something of a cell that has that name itself, as a function or class does."""
    return callable(value) and getattr(value, "__module__", None) == "__main__" and _name_of(value) == name


def _name_of(value: Any) -> Any:
    return getattr(value, "__qualname__", None)


def _remember_source(row: Row) -> None:
    """Have tracebacks and `inspect` find the source of a function where its code says that it is."""
    if "source" in row and "place" in row:
        file, first = row["place"]
        lines = row["source"].splitlines(keepends=True)
        there = list(linecache.cache.get(file, (0, None, [], file))[2])
        there += ["\n"] * (first - 1 + len(lines) - len(there))
        there[first - 1 : first - 1 + len(lines)] = lines
        linecache.cache[file] = (sum(map(len, there)), None, there, file)


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


def _is_unchanged(value: Any, row: Row, left: int) -> bool:
    """Whether a short scalar is what was written last, with nothing more to say of it than then."""
    digest = _digest(value)
    same = digest is not None and digest == row.get("digest")
    return same and row["bytes"] <= left and row.keys().isdisjoint(PASSING)


def _digest(value: Any) -> str | None:
    """Of short scalars: they need no pickling."""
    kind = type(value)
    if kind in SCALARS or (kind is int and value.bit_length() <= SHORT) or (kind is str and len(value) <= SHORT):
        return f"{kind.__name__} {value!r}"
    return None
