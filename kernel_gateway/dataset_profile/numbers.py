"""Mean, deviation and quantiles of numbers that come in pieces.

Quantiles are exact while all numbers fit, then those of an even random sample of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

MOST_KEPT = 10_000
"""Numbers of a column that quantiles are taken from; half a per cent of rank is the usual error."""


class Numbers:
    """Fed with float64 arrays without NaN."""

    def __init__(self, seed: int) -> None:
        self.count = 0
        self._mean = 0.0
        self._squares = 0.0
        self._random = np.random.default_rng(seed)
        self._kept = np.empty(0)
        self._keys = np.empty(0)

    def take(self, values: Any) -> None:
        """Count a piece in."""
        if not len(values):
            return
        self._keep(values)
        with np.errstate(all="ignore"):
            mean = float(values.mean())
            squares = float(((values - mean) ** 2).sum())
            total = self.count + len(values)
            apart = mean - self._mean
            self._squares += squares + apart * apart * self.count * len(values) / total
            self._mean += apart * len(values) / total
        self.count = total

    @property
    def mean(self) -> float | None:
        return _keep_finite(self._mean) if self.count else None

    @property
    def std(self) -> float | None:
        """With one degree of freedom less, as pandas has it."""
        return (
            _keep_finite(math.sqrt(self._squares / (self.count - 1))) if self.count > 1 and self._squares >= 0 else None
        )

    @property
    def quantiles_exact(self) -> bool:
        return self.count <= MOST_KEPT

    def compute_quantiles(self) -> list[float | None]:
        """A quarter, half and three quarters of the numbers are at most these."""
        if not self.count:
            return [None, None, None]
        with np.errstate(all="ignore"):
            return [_keep_finite(float(each)) for each in np.quantile(self._kept, [0.25, 0.5, 0.75])]

    def _keep(self, values: Any) -> None:
        keys = self._random.random(len(values))
        if len(self._keys) == MOST_KEPT:
            wanted = keys < self._keys.max()
            values, keys = values[wanted], keys[wanted]
        kept, keys = np.concatenate([self._kept, values]), np.concatenate([self._keys, keys])
        if len(keys) > MOST_KEPT:
            smallest = np.argpartition(keys, MOST_KEPT)[:MOST_KEPT]
            kept, keys = kept[smallest], keys[smallest]
        self._kept, self._keys = kept, keys


def _keep_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
