"""A few rows, drawn evenly from all that pass by, the same ones each time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import of_arrow
from .job import Batch

ROWS = 10


class Sample:
    """Fed with every batch; `rows` are in the order of the file."""

    def __init__(self, most_columns: int) -> None:
        self._most_columns = most_columns
        self._random = np.random.default_rng(0)
        self._kept: list[tuple[float, int, dict[int, Any]]] = []

    def take(self, batch: Batch, places: list[int]) -> None:
        """`places` says which column of the file each column of the batch is."""
        keys = self._random.random(batch.rows)
        limit = self._kept[-1][0] if len(self._kept) == ROWS else 1.0
        for row in np.argsort(keys)[:ROWS]:
            if keys[row] < limit:
                self._kept.append((float(keys[row]), batch.first + int(row), self._cells(batch, places, int(row))))
        self._kept = sorted(self._kept, key=lambda one: one[0])[:ROWS]

    def rows(self, columns: int) -> list[list[Any]]:
        """A list of cells for each row, as many as there are columns."""
        ordered = sorted(self._kept, key=lambda one: one[1])
        return [[cells.get(place) for place in range(columns)] for _, _, cells in ordered]

    def _cells(self, batch: Batch, places: list[int], row: int) -> dict[int, Any]:
        pairs = zip(places, batch.columns, strict=True)
        return {place: of_arrow(each[row]) for place, each in pairs if place < self._most_columns and each is not None}
