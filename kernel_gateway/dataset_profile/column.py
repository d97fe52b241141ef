"""One column's statistics, in the words of pandas' `describe`: count, unique, top, freq, mean, std, min, 25%, max."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .cells import LONGEST_NAME, convert_scalar, cut_text
from .distinct import Distinct, compute_hashes
from .numbers import Numbers

MIXED = "object"
"""What pandas calls values that have no one type."""
ALIASES = {"halffloat": "float16", "float": "float32", "double": "float64"}
"""Arrow's own names of these are C++'s; these are what its Python and pandas call them."""


class Column:
    """Fed with an array of each batch; `describe()` at the end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.declared: str | None = None
        """The type that the file itself says, when it does."""
        self._type: Any = None
        self._mixed = False
        self._rows = 0
        self._nulls = 0
        self._distinct: Distinct | None = Distinct()
        self._numbers: Numbers | None = None
        self._extremes: list[tuple[Any, Any]] = []

    def take(self, array: Any) -> None:
        """Count an array in; None is for values without one type."""
        if array is None:
            self._mixed = True
            return
        array = _simplify(array)
        self._rows += len(array)
        self._join(array.type)
        nan = pa.types.is_floating(array.type)
        self._nulls += int(pc.sum(pc.is_null(array, nan_is_null=nan)).as_py() or 0)
        if self._mixed or pa.types.is_null(array.type):
            return
        try:
            self._measure(array.filter(pc.is_valid(array)) if not nan else array.filter(_is_number(array)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError):  # a type that such things are not known of
            self._distinct, self._numbers, self._extremes = None, None, []

    def skip(self, rows: int) -> None:
        """Rows that have no such column."""
        self._rows += rows
        self._nulls += rows

    def describe(self) -> dict[str, Any]:
        """What is known, as plain values; what is not is left out."""
        found: dict[str, Any] = {"name": cut_text(self.name, LONGEST_NAME), "dtype": self._name_dtype()}
        if self._mixed:
            return found
        found |= {"count": self._rows - self._nulls, "null_count": self._nulls}
        estimated = []
        if self._distinct is not None and self._rows > self._nulls:
            found["unique"] = min(self._distinct.number, self._rows - self._nulls)
            if not self._distinct.exact:
                estimated.append("unique")
            found |= self._find_most_frequent(self._distinct)
        if self._numbers is not None and self._numbers.count:
            found |= {"mean": self._numbers.mean, "std": self._numbers.std}
            found |= dict(zip(("25%", "50%", "75%"), self._numbers.compute_quantiles(), strict=True))
            if not self._numbers.quantiles_exact:
                estimated += ["25%", "50%", "75%"]
        if self._extremes:
            low, high = min(self._extremes, key=_key)[1], max(self._extremes, key=_key)[1]
            found |= {"min": convert_scalar(low), "max": convert_scalar(high)}
        return {**found, "estimated": estimated}

    def _name_dtype(self) -> str:
        if self._mixed:
            return MIXED
        arrow = self.declared or str(self._type if self._type is not None else pa.null())
        return cut_text(ALIASES.get(arrow, arrow), LONGEST_NAME)

    def _find_most_frequent(self, distinct: Distinct) -> dict[str, Any]:
        top = distinct.top()
        if top is None or pa.types.is_floating(self._type):
            return {}
        scalar = pa.scalar(top[0]) if isinstance(top[0], str | bool) else pa.scalar(top[0], self._type)
        return {"top": convert_scalar(scalar), "freq": top[1]}

    def _join(self, new: Any) -> None:
        """The type of all so far; integers and fractions become fractions, anything and nothing stays what it is."""
        if self._type is None or self._type == new:
            self._type = new
            return
        try:
            fields = [pa.schema([("it", each)]) for each in (self._type, new)]
            self._type = pa.unify_schemas(fields, promote_options="permissive").field(0).type
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            self._mixed = True

    def _measure(self, array: Any) -> None:
        """Of an array without nulls."""
        kind = array.type
        if not len(array):
            return
        if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            self._distinct = None
            return
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if number or pa.types.is_temporal(kind):
            known = self._extremes + _find_extremes(array)
            self._extremes = [min(known, key=_key), max(known, key=_key)]
        if number:
            if self._numbers is None:
                self._numbers = Numbers(zlib.crc32(self.name.encode("utf-8", "replace")))
            self._numbers.take(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        self._count(array)

    def _count(self, array: Any) -> None:
        if self._distinct is None:
            return
        if pa.types.is_temporal(array.type):
            array = _to_integers(array)
        counted = pc.value_counts(array)
        values, counts = counted.field("values"), counted.field("counts")
        if self._distinct.wants_counts(len(values)):
            self._distinct.count(values.to_pylist(), counts.to_pylist())
        elif pa.types.is_integer(array.type):
            self._distinct.hash(values.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False).view(np.uint64))
        else:
            self._distinct.hash(compute_hashes(values.to_pylist()))


def _simplify(array: Any) -> Any:
    """The array as one of its plainest type: what is encoded or extended says what it holds."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if pa.types.is_string_view(array.type) or pa.types.is_float16(array.type):
        array = array.cast(pa.large_string() if pa.types.is_string_view(array.type) else pa.float32())
    return array


def _is_number(array: Any) -> Any:
    return pc.and_(pc.is_valid(array), pc.invert(pc.fill_null(pc.is_nan(array), fill_value=True)))


def _find_extremes(array: Any) -> list[tuple[Any, Any]]:
    """The least and the greatest, each with what it is ordered by, also across types."""
    if not pa.types.is_temporal(array.type):
        found = pc.min_max(array)
        return [(each.as_py(), each) for each in (found["min"], found["max"])]
    found = pc.min_max(_to_integers(array))  # durations have no order of their own
    return [(each.as_py(), each.cast(array.type)) for each in (found["min"], found["max"])]


def _to_integers(array: Any) -> Any:
    """Times as the integers that they are kept as."""
    return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())


def _key(pair: tuple[Any, Any]) -> Any:
    return pair[0]
