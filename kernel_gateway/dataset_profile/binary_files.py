"""Parquet and Arrow files, read a batch at a time. Their row counts and types are what they say of themselves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .job import BATCH_ROWS, MOST_COLUMNS, Batch, Job, Reading, Refused

WRITE_AGAIN = "it was cut off or changed on its way: write or upload it again"


def read_parquet(job: Job) -> Reading:
    """Row groups in their order; where the time may not suffice, in a random one, so that what is read is of all."""
    with _readable("Parquet"):
        file = pq.ParquetFile(job.path, memory_map=False)
        about, schema = file.metadata, file.schema_arrow
    types = {each.name: str(each.type) for each in schema}
    reading = Reading(rows=about.num_rows, columns=len(schema), names=schema.names, types=types)
    reading.about = {"row_groups": about.num_row_groups}
    reading.batches = _read_row_groups(job, reading, file, about, schema.names)
    return reading


def _read_row_groups(job: Job, reading: Reading, file: Any, about: Any, names: list[str]) -> Iterator[Batch]:
    firsts, total = [], 0
    for number in range(about.num_row_groups):
        firsts.append(total)
        total += about.row_group(number).num_rows
    order = list(range(len(firsts)))
    random.Random(0).shuffle(order)  # noqa: S311 - which rows are looked at is no secret
    wanted = names[:MOST_COLUMNS] if len(names) > MOST_COLUMNS else None
    read = 0
    for number in order:
        with _readable("Parquet", f" in row group {number + 1:,}"):
            first = firsts[number]
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[number], columns=wanted, use_threads=False):
                yield Batch(batch.schema.names, batch.columns, batch.num_rows, first)
                first += batch.num_rows
                read += batch.num_rows
                if job.late() and read < total:
                    reading.complete, reading.basis = False, "some_row_groups"
                    return


def read_arrow(job: Job) -> Reading:
    """The IPC file format, which Feather files are in as well, or the stream format."""
    with _readable("Arrow"):
        source = pa.OSFile(job.path)
        if source.read(6) == b"ARROW1":
            source.seek(0)
            file = pa.ipc.open_file(source)
            batches: Iterator[Any] = (file.get_batch(number) for number in range(file.num_record_batches))
            return _read_batches(job, file.schema, batches, source, "file")
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return _read_batches(job, stream.schema, iter(stream), source, "stream")


def _read_batches(job: Job, schema: Any, batches: Iterator[Any], source: Any, variant: str) -> Reading:
    types = {each.name: str(each.type) for each in schema}
    reading = Reading(columns=len(schema), names=schema.names, types=types, about={"variant": variant})

    def read() -> Iterator[Batch]:
        first = 0
        with _readable("Arrow"):
            for batch in batches:
                batch.validate(full=True)  # offsets that lead elsewhere are found here and not by what uses them
                for start in range(0, batch.num_rows, BATCH_ROWS):
                    part = batch.slice(start, BATCH_ROWS)
                    yield Batch(part.schema.names, part.columns, part.num_rows, first)
                    first += part.num_rows
                    if job.late():
                        reading.complete, reading.basis = False, "first_rows"
                        reading.fraction = max(source.tell() / job.part_bytes, 1e-9)
                        return

    reading.batches = read()
    return reading


@contextmanager
def _readable(name: str, where: str = "") -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        if isinstance(error, pa.ArrowNotImplementedError):
            raise Refused("unsupported", f"the {name} file uses something that is not read here{where}") from error
        raise Refused("damaged", f"the {name} file cannot be read{where}: {WRITE_AGAIN}") from error
    except MemoryError as error:
        raise too_large() from error


def too_large() -> Refused:
    """For whatever needs more memory than there is."""
    return Refused(
        "too_large",
        "a part of the file needs more memory than the sandbox has: write it in smaller row groups, batches or rows",
    )
