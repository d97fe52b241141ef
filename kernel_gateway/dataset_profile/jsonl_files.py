"""JSON lines: one object a line. A column is a name that any object has."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from .job import BLOCK_BYTES, MOST_COLUMNS, Batch, Job, Reading, Refused
from .text_source import Part, undecodable, whole_lines

BATCH_LINES = 8192
BATCH_BYTES = 8 * 1024 * 1024


def read_jsonl(job: Job, head: bytes) -> Reading:
    """Every line that is not empty is an object; raises Refused, naming the line."""
    if head.lstrip().startswith(b"["):
        raise Refused(
            "wrong_format",
            "the file is one JSON array, not JSON lines: write one object a line, as pandas does with "
            'to_json(path, orient="records", lines=True)',
        )
    job.part_bytes = whole_lines(job)
    reading = Reading(about={"encoding": job.encoding})
    reading.batches = _read_batches(job, reading)
    return reading


def _read_batches(job: Job, reading: Reading) -> Iterator[Batch]:
    source, known, first = Part(job), dict[str, None](), 0
    for rows in _read_groups(job, source):
        for row in rows:
            for name in row:
                if name not in known and len(known) < MOST_COLUMNS:
                    known[name] = None
        names = list(known)
        yield Batch(names, [_make_array([row.get(name) for row in rows]) for name in names], len(rows), first)
        first += len(rows)
        if job.late() and source.taken < job.part_bytes:
            reading.complete, reading.basis = False, "first_rows"
            reading.fraction = source.taken / job.part_bytes
            return
    if not first:
        raise Refused("empty", "the file holds no line with an object: write data into it first")


def _read_groups(job: Job, source: Part) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    size = 0
    for number, line in enumerate(_read_lines(job, source), 1):
        if line.strip():
            rows.append(_parse_object(line, number))
            size += len(line)
        if len(rows) >= BATCH_LINES or size >= BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _read_lines(job: Job, source: Part) -> Iterator[str]:
    encoding = "utf-8-sig" if job.encoding == "utf-8" else job.encoding  # with its mark, if there is one
    text, number = io.TextIOWrapper(io.BufferedReader(source, 1 << 20), encoding, newline="\n"), 0
    while True:
        try:
            line = text.readline(BLOCK_BYTES + 1)
        except UnicodeError:
            raise undecodable(job, source) from None
        if not line:
            return
        number += 1
        if len(line) > BLOCK_BYTES or (not line.isascii() and len(line.encode()) > BLOCK_BYTES):
            raise Refused("row_too_long", f"line {number:,} is longer than {BLOCK_BYTES:,} bytes: write shorter ones")
        yield line


def _parse_object(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused(
            "damaged", f"line {number:,} is not JSON: mend it; each line has to be one whole object"
        ) from None
    if not isinstance(found, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(found), "a number or true or false")
        raise Refused("wrong_format", f"line {number:,} is {kind}, not an object: each line has to be one")
    return found


def _make_array(values: list[Any]) -> Any:
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
