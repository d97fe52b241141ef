"""CSV and its like: the separator is found, types are guessed by the first rows and widened when later rows differ."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import csv

from .job import BLOCK_BYTES, MOST_COLUMNS, Batch, Job, Reading, Refused
from .text_source import Part, not_utf8, undecodable, whole_lines

SEPARATORS = (",", ";", "\t", "|")
MOST_RESTARTS = 8
"""After these a column that does not keep its type is read as text at once."""
_CONVERSION = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to ([\w\[\], =/]+): invalid value '(.*)'", re.DOTALL
)
_RAGGED = re.compile(r"(?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")


class Restart(Exception):
    """The types have changed: everything must be counted again."""


class CsvFile:
    """`read()` until it raises no `Restart` any more."""

    def __init__(self, job: Job, head: bytes) -> None:
        self._job = job
        self.separator = _find_separator(head, job.encoding)
        self._types: dict[str, Any] = {}
        self._restarts = 0
        self._all_text = False
        job.part_bytes = whole_lines(job)

    def read(self) -> Reading:
        """Read from the start, with the types that are known by now."""
        source = Part(self._job)
        try:
            opened = self._open(source)
        except (pa.ArrowException, UnicodeError, Refused) as error:
            raise self._make_refusal(error, source) from error
        names = opened.schema.names
        reading = Reading(
            columns=len(names), names=names, about={"encoding": self._job.encoding, "separator": self.separator}
        )
        reading.batches = self._read_batches(opened, names, source, reading)
        return reading

    def _open(self, source: Part) -> Any:
        types = dict.fromkeys(self._types, pa.string()) if self._all_text else self._types
        return csv.open_csv(
            pa.PythonFile(io.BufferedReader(source, 1 << 20), "r"),
            read_options=csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES, encoding=self._job.encoding),
            parse_options=csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(column_types=types, strings_can_be_null=True),
        )

    def _read_batches(self, opened: Any, names: list[str], source: Part, reading: Reading) -> Iterator[Batch]:
        first, kinds = 0, opened.schema.types
        while True:
            try:
                if any(pa.types.is_binary(kind) for kind in kinds):
                    raise not_utf8(self._job)
                batch = opened.read_next_batch()
            except StopIteration:
                return
            except (pa.ArrowException, UnicodeError, Refused) as error:
                self._widen(error, names, kinds)
                if self._job.partial and first and source.taken >= self._job.part_bytes:
                    return  # the file was cut within a value between quotes
                raise self._make_refusal(error, source) from error
            yield Batch(names[:MOST_COLUMNS], batch.columns[:MOST_COLUMNS], batch.num_rows, first)
            first += batch.num_rows
            if self._job.late() and source.taken < self._job.part_bytes:
                reading.complete, reading.basis = False, "first_rows"
                reading.fraction = source.taken / self._job.part_bytes
                return

    def _widen(self, error: Exception, names: list[str], kinds: list[Any]) -> None:
        """Raises Restart when it is the guessed type of a column that is wrong."""
        found = _CONVERSION.search(str(error))
        if found is None or "invalid UTF8" in str(error) or self._all_text:
            return
        name, now = names[int(found[1])], str(kinds[int(found[1])])
        self._restarts += 1
        self._types[name] = _widen_type(now, found[3]) if self._restarts <= MOST_RESTARTS else pa.string()
        if self._job.late():  # no time is left for finding out one by one
            self._types, self._all_text = dict.fromkeys(names, pa.string()), True
        raise Restart

    def _make_refusal(self, error: Exception, source: Part) -> Refused:
        if isinstance(error, Refused):
            return error
        message = str(error)
        if isinstance(error, UnicodeError) or "UTF8" in message.replace("-", ""):
            return undecodable(self._job, source)
        ragged = _RAGGED.search(message)
        if ragged is not None:
            where = f"row {int(ragged[1]):,}" if ragged[1] else "a row"
            return Refused(
                "ragged",
                f"{where} has {int(ragged[3]):,} values and the header names {int(ragged[2]):,}: mend the row, or put "
                "values that hold the separator or a line's end between double quotes",
            )
        if "straddling" in message:
            return Refused("row_too_long", f"a row is longer than {BLOCK_BYTES:,} bytes: is a double quote left open?")
        if "Empty CSV" in message:
            return Refused("empty", "the file holds no row, not even a header: write data into it first")
        return Refused("damaged", "the file cannot be read as CSV: see that its rows and quotes are whole")


def _widen_type(kind: str, value: str) -> Any:
    """What a column of this type is read as, now that it holds such a value."""
    if kind not in ("null", "int64"):
        return pa.string()
    try:
        number = float(value)
    except ValueError:
        return pa.string()
    whole = kind == "null" and number.is_integer() and value.lstrip("-").isdecimal()
    return pa.int64() if whole else pa.float64()


def _find_separator(head: bytes, encoding: str) -> str:
    """The one of the usual separators that is most often in the first line, outside of quotes."""
    text = head.decode(encoding, "replace")
    line = re.sub(r'"[^"]*"', "", text.lstrip("\ufeff\r\n").partition("\n")[0])
    return max(SEPARATORS, key=line.count)
