"""JSON lines: one object a line. A column is a name that any object has."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from .job import BLOCK_BYTES, MOST_COLUMNS, Batch, Job, Reading
from .refused import Refused
from .text_source import Counted, not_utf8, whole_lines

BATCH_LINES = 8192
BATCH_BYTES = 8 * 1024 * 1024


def jsonl(job: Job, head: bytes) -> Reading:
    """Every line that is not empty is an object; raises Refused, naming the line."""
    if head.lstrip().startswith(b"["):
        raise Refused(
            "wrong_format",
            "the file is one JSON array, not JSON lines: write one object a line, as pandas does with "
            'to_json(path, orient="records", lines=True)',
        )
    job.part_bytes = whole_lines(job)
    reading = Reading(about={"encoding": job.encoding})
    reading.batches = _batches(job, reading)
    return reading


def _batches(job: Job, reading: Reading) -> Iterator[Batch]:
    source, known, first = Counted(job), dict[str, None](), 0
    for rows in _groups(job, source):
        for row in rows:
            for name in row:
                if name not in known and len(known) < MOST_COLUMNS:
                    known[name] = None
        names = list(known)
        yield Batch(names, [_array([row.get(name) for row in rows]) for name in names], len(rows), first)
        first += len(rows)
        if job.late() and source.taken < job.part_bytes:
            reading.complete, reading.basis = False, "first_rows"
            reading.fraction = source.taken / job.part_bytes
            return


def _groups(job: Job, source: Counted) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size, number = 0, 0
    lines = io.BufferedReader(source, 1 << 20)
    while line := lines.readline(BLOCK_BYTES + 1):
        number += 1
        if len(line) > BLOCK_BYTES:
            raise Refused("row_too_long", f"line {number:,} is longer than {BLOCK_BYTES:,} bytes: write shorter ones")
        if line.strip():
            rows.append(_object(job, line, number))
            size += len(line)
        if len(rows) >= BATCH_LINES or size >= BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if not number or (not rows and not size and number and _blank(job)):
        raise Refused("empty", "the file holds no line with an object: write data into it first")
    if rows:
        yield rows


def _object(job: Job, line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except UnicodeDecodeError:
        raise not_utf8(job) from None
    except (ValueError, RecursionError):
        raise Refused(
            "damaged", f"line {number:,} is not JSON: mend it; each line has to be one whole object"
        ) from None
    if not isinstance(found, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(found), "a number or true or false")
        raise Refused("wrong_format", f"line {number:,} is {kind}, not an object: each line has to be one")
    return found


def _array(values: list[Any]) -> Any:
    """An Arrow array, or None when the values have no one type that Arrow has."""
    try:
        return pa.array(values)
    except (pa.ArrowException, UnicodeError, OverflowError, RecursionError):
        pass
    try:
        if all(value is None or isinstance(value, int | float) for value in values):
            return pa.array([None if value is None else float(value) for value in values])
        if all(value is None or isinstance(value, str) for value in values):
            return pa.array([None if each is None else each.encode("utf-8", "replace").decode() for each in values])
    except OverflowError:
        pass
    return None


def _blank(job: Job) -> bool:
    with open(job.path, "rb") as source:  # noqa: PTH123 - as bytes, a line at a time
        return not any(line.strip() for line in source)
