"""What is to be described, by which bounds, what a reader of one format gives back, and how it refuses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MOST_COLUMNS = 512
"""Columns that are described; of a wider file the first ones."""
BLOCK_BYTES = 16 * 1024 * 1024
"""Of text that is parsed at once; also the longest row."""
BATCH_ROWS = 65_536


class Refused(Exception):
    """A file that cannot be described, and what to do about it.

    `reason` is a stable word, the message a sentence for people, which never carries content of the file.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


@dataclass
class Job:
    """One file. `size` is the whole file's; of a larger text file only the first part may be at `path`.

    `part_bytes` is what is at `path`; reading stops at `until` on the monotonic clock.
    """

    path: str
    size: int
    part_bytes: int
    format: str
    encoding: str
    until: float

    @property
    def partial(self) -> bool:
        return self.part_bytes < self.size

    def late(self) -> bool:
        """Whether it is time to stop reading."""
        return time.monotonic() >= self.until


@dataclass
class Batch:
    """Some rows: a name and an Arrow array each, None for values that have no one type. `first` counts from 0."""

    names: list[str]
    columns: list[Any]
    rows: int
    first: int


@dataclass
class Reading:
    """What a reader reports besides its batches, filled in while they are taken.

    `rows` is known in advance where the format says it. `fraction` is how much of the file was read when reading ended
    early, `basis` which rows those are.
    """

    batches: Iterator[Batch] = field(default_factory=lambda: iter(()))
    rows: int | None = None
    columns: int | None = None
    complete: bool = True
    fraction: float = 1.0
    basis: str = "all_rows"
    names: list[str] = field(default_factory=list)
    """The columns in their order, where they are known in advance."""
    types: dict[str, str] = field(default_factory=dict)
    """Declared types by name, of formats that have a schema."""
    about: dict[str, Any] = field(default_factory=dict)
    """What a program needs to read the file: encoding, separator; row groups."""
