"""How verdicts agree with labels: a confusion matrix, and the two kinds of mistakes that are counted in it."""

from collections import Counter
from collections.abc import Iterable

ACCUSES = ("different", "failed", "needs_hidden_state")
"""Verdicts that say that a replay did not show what the record shows."""


class Matrix:
    """`mistakes` are the cells, in words, whose verdict does not agree with their label."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self.mistakes: list[str] = []

    def add(self, label: str, verdict: str, agrees: Iterable[str], where: str) -> None:
        self._counts[label, verdict] += 1
        if verdict not in agrees:
            self.mistakes.append(f"{where}: labelled {label}, called {verdict}")

    @property
    def false_same(self) -> int:
        """Changes that were called `same`."""
        return self._counts["different", "same"]

    @property
    def false_different(self) -> float:
        """The share of cells without a change that were accused."""
        same = sum(count for (label, _), count in self._counts.items() if label == "same")
        return sum(self._counts["same", verdict] for verdict in ACCUSES) / max(same, 1)

    def __str__(self) -> str:
        labels = sorted({label for label, _ in self._counts})
        verdicts = sorted({verdict for _, verdict in self._counts})
        head = "".join(f"{verdict:>19}" for verdict in verdicts)
        rows = [
            f"{label:<12}" + "".join(f"{self._counts[label, verdict]:>19,}" for verdict in verdicts) for label in labels
        ]
        rates = f"false same: {self.false_same}; false different: {self.false_different:.1%}"
        return "\n".join(["", f"{'':12}{head}", *rows, rates, *self.mistakes])
