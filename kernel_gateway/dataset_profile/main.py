"""The program: describe one file by the arguments given, and print what is found, or why nothing is, as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

MOST_BYTES = 200_000
"""Of the answer: sample rows are left out until it fits, then columns."""
DAMAGED = "the file holds what its reader cannot take: write it again with a current version of pandas or PyArrow"
SAMPLED_COLUMNS = 100
"""Columns that sample rows show."""


def main() -> None:
    """Always prints an answer, unless it is killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    for name in ("format", "encoding", "name"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--size", type=int)
    parser.add_argument("--seconds", type=float, default=60.0)
    sys.stdout.write(json.dumps(answer(parser.parse_args()), allow_nan=False))


def answer(asked: argparse.Namespace) -> dict[str, Any]:
    """The description, or the refusal."""
    until = time.monotonic() + asked.seconds
    try:
        import pyarrow  # noqa: F401, PLC0415 - what it is missing for is said below
    except ImportError:
        return {"refused": {"reason": "no_pyarrow", "message": "the environment has no PyArrow"}}
    from .job import Job  # noqa: PLC0415
    from .refused import Refused  # noqa: PLC0415

    part = Path(asked.path).stat().st_size
    size = part if asked.size is None else asked.size
    try:
        return {
            "profile": fitting(described(Job(asked.path, size, part, asked.format, asked.encoding, until), asked.name))
        }
    except Refused as refused:
        return {"refused": {"reason": refused.reason, "message": refused.message}}
    except MemoryError:
        from .binary_files import too_large  # noqa: PLC0415

        return {"refused": {"reason": "too_large", "message": too_large().message}}
    except Exception:  # whatever a damaged file leads to: names that are no text, a type that is none
        return {"refused": {"reason": "damaged", "message": DAMAGED}}


def described(job: Any, name: str) -> dict[str, Any]:
    """Read the file as what it is; raises Refused."""
    from . import binary_files, detection  # noqa: PLC0415
    from .jsonl_files import jsonl  # noqa: PLC0415

    head = detection.settle(job, name or job.path)
    if job.format == "csv":
        return _described_csv(job, head)
    if job.format == "jsonl":
        return _told(job, jsonl(job, head))
    return _told(job, binary_files.parquet(job) if job.format == "parquet" else binary_files.arrow(job))


def _described_csv(job: Any, head: bytes) -> dict[str, Any]:
    from .csv_files import CsvFile, Restart  # noqa: PLC0415

    file = CsvFile(job, head)
    while True:
        try:
            return _told(job, file.reading())
        except Restart:
            continue


def _told(job: Any, reading: Any) -> dict[str, Any]:
    """Take all batches in and say what came of them."""
    from .column import Column  # noqa: PLC0415
    from .job import MOST_COLUMNS  # noqa: PLC0415
    from .sampling import Sample  # noqa: PLC0415

    columns: list[Column] = []
    places: dict[tuple[str, int], int] = {}
    sample, rows = Sample(SAMPLED_COLUMNS), 0
    for batch in reading.batches:
        where = _places(batch.names, places)
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
        "columns": [column.told() for column in columns],
        "sample": sample.rows(min(len(columns), SAMPLED_COLUMNS)),
        **reading.about,
    }


def _places(names: list[str], places: dict[tuple[str, int], int]) -> list[int]:
    """Which column each of a batch is: by its name, and by its turn among equal names."""
    found, turns = [], dict[str, int]()
    for name in names:
        turn = turns[name] = turns.get(name, 0) + 1
        found.append(places.setdefault((name, turn), len(places)))
    return found


def fitting(profile: dict[str, Any]) -> dict[str, Any]:
    """The description within its bound; `column_count` still tells how many columns there are."""
    while profile["sample"] and _size(profile) > MOST_BYTES:
        profile["sample"].pop()
    while profile["columns"] and _size(profile) > MOST_BYTES:
        del profile["columns"][-max(1, len(profile["columns"]) // 8) :]
    return profile


def _size(profile: dict[str, Any]) -> int:
    return len(json.dumps(profile))
