"""The names that code has defined, described without running any of its code: no `__repr__`, `__len__` or property.

Loaded by `kernel_main.py` from its directory, at the first request, and called in its control thread while anything may
run in the others. Values are known by their exact type, which no object can lie about, and read through functions of C.
Nothing is compared or hashed but plain strings and ids: a metaclass may define what its classes do then. What is held
only here when the report is made is returned too, since dropping the last reference runs its `__del__`.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import collections
import sys
import time
import types
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar, cast

MOST_LISTED = 1_000
MOST_LOOKED_AT = 100_000
"""Names that are looked through, the latest first."""
MOST_CHARACTERS = 200
"""Of a name, a type's name and a preview each."""
MOST_BYTES = 256_000
"""Of the whole report, about."""
MOST_SHOWN = 10
"""Items of a collection in its preview."""
LONGEST_INTEGER_BITS = 600
ROW_BYTES = 24
"""What a field of a row takes in addition to its value, about."""
MOST_OF_A_TYPE = 1_000
SECONDS = 1.0
WALK_SECONDS = 0.2
"""How long the contents of collections are added up, of all together."""
MOST_WALKED = 50_000
MOST_OF_A_VALUE = 10_000
"""Objects in collections that are looked at for their size, in all and of one variable."""
MOST_OF_A_COLLECTION = 1_000
"""Items of one collection that are looked at; the others count as those that came last."""
MOST_NESTED = 20
TRIES = 50

NAME = type.__dict__["__name__"].__get__
BASES = type.__dict__["__mro__"].__get__
FLAGS = type.__dict__["__flags__"].__get__
NAMESPACE = type.__dict__["__dict__"].__get__
PARENT = type.__dict__["__base__"].__get__
MODULE_NAMESPACE = cast("Any", types.ModuleType.__dict__)["__dict__"].__get__
FUNCTION_NAME = types.FunctionType.__dict__["__qualname__"].__get__
MADE_BY_CODE = 1 << 9
"""The flag of a type that can be changed: Py_TPFLAGS_HEAPTYPE."""
LENGTHS = (str, bytes, bytearray, list, tuple, set, frozenset, dict, collections.deque)
"""Types whose own `__len__` tells the length of their subclasses too."""
SCALARS = {id(each) for each in (bool, float, complex, type(None), range)}
TEXTS = {id(each) for each in (str, bytes, bytearray)}
SEQUENCES = {id(list): "[]", id(tuple): "()"}
SETS = {id(set): "{}", id(frozenset): "{}"}
SIZED = {id(each) for each in (*LENGTHS, collections.OrderedDict, collections.defaultdict, int)} | SCALARS
NUMBERS = {id(each) for each in (bool, int, float, complex)}
COLLECTIONS = {id(dict), *SEQUENCES, *SETS}
DICTIONARIES = {id(each) for each in (dict, collections.OrderedDict, collections.defaultdict)}
CONTAINERS = {id(collections.deque), *DICTIONARIES, *COLLECTIONS}
OF_CLASSES = ("__dict__", "__slots__", "__weakref__")
"""What a class statement gives a class that derives from none of another; a type that C code makes has none of it."""

FRAMES = ("DataFrame", "Series")
"""Classes whose objects say themselves what they take."""

Row = dict[str, Any]
_Layout = tuple[Any, list[Any]]
"""The collection that objects of a type are, else `object`, and the descriptors of what else they hold."""
Taken = TypeVar("Taken")


def report(namespace: dict[Any, Any], hidden: dict[Any, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The reply's content, and what is to be dropped in the thread that runs code."""
    _numpy.clear()
    _numpy.update(_types_of_numpy())
    held: list[Any] = []
    items = _latest(namespace)
    unseen = max(dict.__len__(namespace) - len(items), 0)
    rows, omitted = _rows(items, {name for name in _list_names(hidden) if type(name) is str}, held, namespace)
    held += [value for _, value in items]
    del items
    return {"status": "ok", "variables": rows, "omitted": omitted + unseen}, _last_held(held)


def _rows(items: list[tuple[Any, Any]], hidden: set[str], held: list[Any], of: object) -> tuple[list[Row], int]:
    """A row for each name that is not hidden, and how many there was no room or time for. `of` has those names."""
    until = time.monotonic() + SECONDS
    rows: list[Row] = []
    contents = _Contents(held, of)
    omitted = size = 0
    for name, value in items:
        if type(name) is not str or name.startswith("_") or name in hidden:
            continue
        if len(rows) >= MOST_LISTED or size > MOST_BYTES or time.monotonic() > until:
            omitted += 1
            continue
        row = {"name": _plain(name), **describe(value, held)}
        if contents.has_any(value):
            row["size_bytes"] = contents.measure(value)
        size += sum(len(str(each).encode()) + ROW_BYTES for each in row.values())
        rows.append(row)
    return rows, omitted


def describe(value: object, held: list[Any]) -> Row:
    """Type and whatever else can be said of a value; never raises for what a value is."""
    kind = type(value)
    row: Row = {"type": _plain(NAME(kind))}
    try:
        _add_size(row, kind, value)
        preview = _preview(kind, value, held)
        if preview is None:
            row.update(_array(kind, value) or _frame(kind, value) or {})
        else:
            row["preview"] = _plain(preview)
    except Exception:  # it changed meanwhile, or is half made
        row.setdefault("preview", "")
        del row["preview"]
    return row


class _Contents:
    """What collections of Python's own and objects of classes take with all that is in them, of one report.

    What types of C hold is not known: it counts nothing, besides arrays. Nor do the `names` that the report is of, as
    an object may hold them all. An object that several have counts once for each variable. What is not looked at, as it
    would take too long, counts as what was looked at beside it.
    """

    def __init__(self, held: list[Any], names: object) -> None:
        self._held = held
        self._names = id(names)
        self._layouts: dict[int, _Layout | None] = {}
        self._until = time.monotonic() + WALK_SECONDS
        self._left = MOST_WALKED
        self._left_of_value = 0
        self._seen: set[int] = set()

    def measure(self, value: object) -> int:
        """Bytes of a value; never raises for what it is."""
        self._left_of_value, self._seen = min(self._left, MOST_OF_A_VALUE), {self._names}
        return self._measure(value, MOST_NESTED)

    def has_any(self, value: object) -> bool:
        """Whether there is more to say of a value than of itself."""
        return self._layout(type(value)) is not None

    def _layout(self, kind: type) -> _Layout | None:
        if id(kind) not in self._layouts:
            self._held.append(kind)  # else another might have its id
            self._layouts[id(kind)] = _find_layout(kind)
        return self._layouts[id(kind)]

    def _measure(self, value: Any, nested: int) -> int:
        kind = type(value)
        if id(value) in self._seen:
            return 0
        self._seen.add(id(value))
        self._left -= 1
        self._left_of_value -= 1
        layout = self._layout(kind)
        if layout is None:
            return _measure_alone(kind, value)
        own, attributes = layout
        size = sys.getsizeof(value) if kind is own else int(own.__sizeof__(value))
        if not nested:
            return size
        items, sizes = self._take(own, value), list[int]()
        found = _read_all(attributes, value)
        self._held += items + found  # else an object that code lets go of meanwhile might have the id of another
        for each in found + items:
            if self._left_of_value <= 0 or time.monotonic() > self._until:
                break
            sizes.append(self._measure(each, nested - 1))
        of_items = sizes[len(found) :]
        # The later ones: objects that all have in common are counted by then.
        last = of_items[len(of_items) // 2 :]
        count = 0 if own is object else (2 if id(own) in DICTIONARIES else 1) * own.__len__(value)
        return size + sum(sizes) + (count - len(of_items)) * sum(last) // max(len(last), 1)

    @staticmethod
    def _take(own: Any, value: Any) -> list[Any]:
        if own is object:
            return []
        if id(own) in SEQUENCES:
            return list(own.__getitem__(value, slice(MOST_OF_A_COLLECTION)))
        with suppress(RuntimeError):  # another thread changes it
            if id(own) not in DICTIONARIES:
                return list(islice(own.__iter__(value), MOST_OF_A_COLLECTION))
            return [each for pair in islice(dict.items(value), MOST_OF_A_COLLECTION // 2) for each in pair]
        return []


def _find_layout(kind: Any) -> _Layout | None:
    """What can be read of objects of a type without running code, None where that is nothing more than themselves."""
    if id(kind) in CONTAINERS:
        return kind, []
    if not FLAGS(kind) & MADE_BY_CODE or _plain(NAME(kind)) in FRAMES:
        return None
    own: Any = object
    attributes = list[Any]()
    for base in BASES(kind):
        if not FLAGS(base) & MADE_BY_CODE:
            if id(base) in CONTAINERS:
                own = base if own is object else own
            elif base is not object:
                return None
            continue
        namespace = _list_items(base)
        named = {name for name, _ in namespace if type(name) is str}
        if not FLAGS(PARENT(base)) & MADE_BY_CODE and named.isdisjoint(OF_CLASSES):
            return None
        attributes += [
            each
            for name, each in namespace
            if type(each) is types.MemberDescriptorType
            or (type(name) is str and name == "__dict__" and type(each) is types.GetSetDescriptorType)
        ]
    return own, attributes


def _list_items(kind: type) -> list[tuple[Any, Any]]:
    """What a type's namespace holds."""
    return _at_once(lambda: list(islice(NAMESPACE(kind).items(), MOST_OF_A_TYPE)))


def _read_all(attributes: list[Any], value: object) -> list[Any]:
    """The dictionary of an object of a class, and what is in its slots."""
    found = []
    for each in attributes:
        with suppress(AttributeError, TypeError):  # it is empty, or of another class
            found.append(each.__get__(value))
    return found


def _measure_alone(kind: type, value: Any) -> int:
    """Bytes of a value without what it refers to; 0 where they are not known."""
    if id(kind) in SIZED:
        return sys.getsizeof(value)
    try:
        found = _array(kind, value) or _frame(kind, value) or {}
    except Exception:  # it changed meanwhile, or is half made
        return 0
    return int(found.get("size_bytes", 0))


def _latest(namespace: dict[Any, Any]) -> list[tuple[Any, Any]]:
    """The items that came last, those first."""
    return _at_once(lambda: list(islice(reversed(dict.items(namespace)), MOST_LOOKED_AT)))


def _list_names(names: dict[Any, Any]) -> list[Any]:
    return _at_once(lambda: list(islice(dict.keys(names), MOST_LOOKED_AT)))


def _at_once(take: Callable[[], Taken]) -> Taken:
    """What is taken from a dictionary; taken again when another thread changed it meanwhile."""
    for _ in range(TRIES):
        with suppress(RuntimeError):
            return take()
    raise RuntimeError("the names change too fast")


def _add_size(row: Row, kind: type, value: Any) -> None:
    for base in LENGTHS:
        if _derives(kind, base):
            row["length"] = base.__len__(value)
            break
    if kind is range:
        row["length"] = range.__len__(value)
    if id(kind) in SIZED:
        row["size_bytes"] = sys.getsizeof(value)


def _preview(kind: type, value: Any, held: list[Any]) -> str | None:
    """A short text of a value of a type of Python's own, or of a number of numpy; None for others."""
    if id(kind) not in COLLECTIONS:
        return _short(kind, value)
    if kind is dict:
        pairs = list(islice(dict.items(value), MOST_SHOWN))
        held += [each for pair in pairs for each in pair]
        return _bracket([f"{_item(key)}: {_item(item)}" for key, item in pairs], len(value), "{}")
    items = value[:MOST_SHOWN] if id(kind) in SEQUENCES else list(islice(value, MOST_SHOWN))
    held += items
    return _bracket([_item(each) for each in items], len(value), SEQUENCES.get(id(kind)) or SETS[id(kind)])


def _short(kind: Any, value: Any) -> str | None:
    """A text of a value that has no others in it."""
    if id(kind) in SCALARS:
        return str(kind.__repr__(value))
    if id(kind) in TEXTS:
        cut = str(kind.__repr__(value[:MOST_CHARACTERS]))
        return cut if len(value) <= MOST_CHARACTERS else cut[:MOST_CHARACTERS] + "..."
    if kind is int:
        bits = int.bit_length(value)
        return int.__repr__(value) if bits <= LONGEST_INTEGER_BITS else f"<an integer of {bits:,} bits>"
    return _name(kind, value) or _number_of_numpy(kind, value)


def _name(kind: type, value: Any) -> str | None:
    if kind is types.FunctionType:
        return f"<function {FUNCTION_NAME(value)}>"
    if kind is type:
        return f"<class {NAME(value)}>"
    if kind is types.ModuleType:
        name = _find(MODULE_NAMESPACE(value), "__name__")
        return f"<module {name}>" if type(name) is str else "<module>"
    return None


def _item(value: object) -> str:
    kind = type(value)
    short = _short(kind, value)
    return f"<{_plain(NAME(kind))}>" if short is None else short[:MOST_CHARACTERS]


def _bracket(items: list[str], length: int, brackets: str) -> str:
    if length > len(items):
        items = [*items, "..."]
    return brackets[0] + ", ".join(items) + brackets[1]


_numpy: dict[str, Any] = {}
"""Types of numpy that no code can have changed, for the report that is being made; without it all are None."""


def _types_of_numpy() -> dict[str, Any]:
    module = _find(sys.modules, "numpy", MOST_LOOKED_AT)
    namespace = MODULE_NAMESPACE(module) if type(module) is types.ModuleType else {}
    found = {name: _find(namespace, name) for name in ("ndarray", "generic", "dtype")}
    genuine = all(_derives(type(each), type) and not FLAGS(each) & MADE_BY_CODE for each in found.values())
    return found if genuine else {}


def _number_of_numpy(kind: type, value: Any) -> str | None:
    generic = _numpy.get("generic")
    if generic is None or FLAGS(kind) & MADE_BY_CODE or not _derives(kind, generic):
        return None
    plain: Any = NAMESPACE(generic)["item"](value)
    return repr(plain) if id(type(plain)) in NUMBERS else None


def _array(kind: type, value: Any) -> Row | None:
    """What numpy's array says of itself; its data is not touched, which may lie in a file that is gone."""
    array = _numpy.get("ndarray")
    if array is None or kind is not array:
        return None
    own = NAMESPACE(array)
    shape = own["shape"].__get__(value)
    row = {"shape": list(shape), "size_bytes": own["nbytes"].__get__(value)}
    if shape:
        row["length"] = shape[0]
    about = NAMESPACE(_numpy["dtype"])
    of = own["dtype"].__get__(value)
    letter, width = about["kind"].__get__(of), about["itemsize"].__get__(of)
    word = {"f": "float", "i": "int", "u": "uint", "c": "complex"}.get(letter)
    plain = {"b": "bool", "O": "object"}.get(letter, str(about["str"].__get__(of)))
    return {**row, "preview": _plain(f"{word}{8 * width}" if word else plain)}


def _frame(kind: type, value: Any) -> Row | None:
    """Rows and columns of pandas' DataFrame or Series, from the blocks of C that hold its data."""
    if _plain(NAME(kind)) not in FRAMES:
        return None
    manager = _held_as(value, "_mgr")
    blocks, found_axes = _attribute(manager, "blocks"), _attribute(manager, "axes")
    if type(blocks) is not tuple:
        return None
    axes = [_length_of_index(each) for each in islice(found_axes if type(found_axes) is list else (), 2)]
    lengths = [_values(each) for each in blocks[:MOST_LISTED]]
    rows = next((shape[-1] for shape in lengths if shape), axes[-1] if axes else None)
    size = _size_of_blocks(blocks)
    if NAME(kind) == "Series":
        return None if rows is None else {"shape": [rows], "length": rows, **size}
    columns = axes[0] if axes else None
    if rows is None or columns is None:
        return None
    return {"shape": [rows, columns], "length": rows, **size}


def _size_of_blocks(blocks: tuple[object, ...]) -> Row:
    """What numpy's arrays in the blocks take; nothing where others are among them, or too many to look at."""
    array = _numpy.get("ndarray")
    held = [_of_c(each, "values") for each in blocks[:MOST_LISTED]]
    if array is None or len(held) < len(blocks) or not all(type(each) is array for each in held):
        return {}
    return {"size_bytes": sum(NAMESPACE(array)["nbytes"].__get__(each) for each in held)}


def _values(block: object) -> tuple[int, ...] | None:
    return _shape(_of_c(block, "values"))


def _length_of_index(index: object) -> int | None:
    for name in ("_range", "_data"):
        found = _held_as(index, name)
        if type(found) is range:
            return range.__len__(found)
        shape = _shape(found) or _shape(_held_as(found, "_ndarray")) or _shape(_of_c(found, "_ndarray"))
        if shape:
            return shape[0]
        length = _length_of_arrow(_held_as(found, "_pa_array"))
        if length is not None:
            return length
    return None


def _length_of_arrow(value: object) -> int | None:
    """The length of pyarrow's ChunkedArray, which holds texts, from a type of C that no code can have changed."""
    kind = type(value)
    if _plain(NAME(kind)) != "ChunkedArray" or FLAGS(kind) & MADE_BY_CODE:
        return None
    length = _find(NAMESPACE(kind), "__len__")
    return length(value) if type(length) is types.WrapperDescriptorType else None


def _shape(value: object) -> tuple[int, ...] | None:
    array = _numpy.get("ndarray")
    return NAMESPACE(array)["shape"].__get__(value) if array is not None and type(value) is array else None


def _held_as(value: object, wanted: str) -> object:
    """What an object's own dictionary holds under a name; no class is asked."""
    for base in BASES(type(value)):
        own = _find(NAMESPACE(base), "__dict__")
        if type(own) is types.GetSetDescriptorType:
            return _find(own.__get__(value), wanted)
    return None


def _of_c(value: object, name: str) -> Any:
    """An attribute that a type of C declares, by its own descriptor: no Python code can make such a one."""
    for base in BASES(type(value)):
        own = _find(NAMESPACE(base), name)
        if own is not None:
            ours = type(own) in (types.GetSetDescriptorType, types.MemberDescriptorType)
            return own.__get__(value) if ours else None
    return None


def _attribute(value: object, name: str) -> Any:
    found = _of_c(value, name)
    return _held_as(value, name) if found is None else found


def _find(names: Any, wanted: str, most: int = MOST_OF_A_TYPE) -> Any:
    """What a namespace holds under a name; nothing else in it is compared with the name."""

    def found() -> Any:
        items = dict.items(names) if type(names) is dict else types.MappingProxyType.items(names)
        named = (item for name, item in islice(items, most) if type(name) is str and name == wanted)
        return next(named, None)

    return _at_once(found)


def _derives(kind: type, base: type) -> bool:
    return any(each is base for each in BASES(kind))


def _plain(text: str) -> str:
    """Text of bounded length that any message can carry."""
    if len(text) > MOST_CHARACTERS:
        text = text[: MOST_CHARACTERS - 3] + "..."
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _last_held(held: list[Any]) -> list[Any]:
    """Those to which no other reference is left: code let go of them while the report was made."""
    times = collections.Counter(map(id, held))
    return [each for each in held if sys.getrefcount(each) <= times[id(each)] + 2]
