"""What a file holds, put together from its batches: each column's statistics and a few rows, within its bound."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from . import binary_files, detection
from .cells import convert_scalar
from .column import Column
from .csv_files import CsvFile, Restart
from .job import MOST_COLUMNS, Batch, Job, Reading
from .jsonl_files import read_jsonl

MOST_BYTES = 200_000
"""Of the answer: sample rows are left out until it fits, then columns."""
SAMPLED_COLUMNS = 100
"""Columns that sample rows show."""
SAMPLED_ROWS = 10


def describe_file(job: Job, name: str) -> dict[str, Any]:
    """Read the file as what it is; raises Refused."""
    head = detection.settle(job, name or job.path)
    if job.format == "csv":
        return _describe_csv(job, head)
    if job.format == "jsonl":
        return _describe_reading(job, read_jsonl(job, head))
    return _describe_reading(
        job, binary_files.read_parquet(job) if job.format == "parquet" else binary_files.read_arrow(job)
    )


def _describe_csv(job: Job, head: bytes) -> dict[str, Any]:
    file = CsvFile(job, head)
    while True:
        try:
            return _describe_reading(job, file.read())
        except Restart:
            continue


def _describe_reading(job: Job, reading: Reading) -> dict[str, Any]:
    """Take all batches in and say what came of them."""
    columns: list[Column] = []
    places: dict[tuple[str, int], int] = {}
    sample, rows = Sample(SAMPLED_COLUMNS), 0
    for batch in reading.batches:
        where = _match_columns(batch.names, places)
        for place in range(len(columns), len(places)):
            columns.append(Column(batch.names[where.index(place)]))
            columns[-1].skip(rows)
        for place, array in zip(where, batch.columns, strict=True):
            columns[place].take(array)
        for place in set(range(len(columns))) - set(where):
            columns[place].skip(batch.rows)
        sample.take(batch, where)
        rows += batch.rows
    if not columns:  # a schema and no row
        columns = [Column(name) for name in reading.names[:MOST_COLUMNS]]
    complete = reading.complete and not job.partial
    fraction = reading.fraction * job.part_bytes / job.size
    known = reading.rows if reading.rows is not None else rows if complete else round(rows / fraction)
    for column in columns:
        column.declared = reading.types.get(column.name)
    return {
        "format": job.format,
        "rows": known,
        "rows_exact": complete or reading.rows is not None,
        "rows_read": rows,
        "complete": complete,
        "basis": "all_rows" if complete else reading.basis if not reading.complete else "first_rows",
        "column_count": len(columns) if reading.columns is None else reading.columns,
        "columns": [column.describe() for column in columns],
        "sample": sample.rows(min(len(columns), SAMPLED_COLUMNS)),
        **reading.about,
    }


def _match_columns(names: list[str], places: dict[tuple[str, int], int]) -> list[int]:
    """Which column each of a batch is: by its name, and by its turn among equal names."""
    found, turns = [], dict[str, int]()
    for name in names:
        turn = turns[name] = turns.get(name, 0) + 1
        found.append(places.setdefault((name, turn), len(places)))
    return found


def fit_profile(profile: dict[str, Any]) -> dict[str, Any]:
    """The description within its bound; `column_count` still tells how many columns there are."""
    while profile["sample"] and _measure(profile) > MOST_BYTES:
        profile["sample"].pop()
    while profile["columns"] and _measure(profile) > MOST_BYTES:
        del profile["columns"][-max(1, len(profile["columns"]) // 8) :]
    return profile


def _measure(profile: dict[str, Any]) -> int:
    return len(json.dumps(profile))


class Sample:
    """A few rows, drawn evenly from every batch that it is fed with, the same ones each time.

    `rows` has them in the order of the file.
    """

    def __init__(self, most_columns: int) -> None:
        self._most_columns = most_columns
        self._random = np.random.default_rng(0)
        self._kept: list[tuple[float, int, dict[int, Any]]] = []

    def take(self, batch: Batch, places: list[int]) -> None:
        """`places` says which column of the file each column of the batch is."""
        keys = self._random.random(batch.rows)
        limit = self._kept[-1][0] if len(self._kept) == SAMPLED_ROWS else 1.0
        for row in np.argsort(keys)[:SAMPLED_ROWS]:
            if keys[row] < limit:
                self._kept.append((float(keys[row]), batch.first + int(row), self._cells(batch, places, int(row))))
        self._kept = sorted(self._kept, key=lambda one: one[0])[:SAMPLED_ROWS]

    def rows(self, columns: int) -> list[list[Any]]:
        """A list of cells for each row, as many as there are columns."""
        ordered = sorted(self._kept, key=lambda one: one[1])
        return [[cells.get(place) for place in range(columns)] for _, _, cells in ordered]

    def _cells(self, batch: Batch, places: list[int], row: int) -> dict[int, Any]:
        pairs = zip(places, batch.columns, strict=True)
        return {
            place: convert_scalar(each[row]) for place, each in pairs if place < self._most_columns and each is not None
        }
