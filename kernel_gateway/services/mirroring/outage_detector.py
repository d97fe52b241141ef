"""When a round of deliveries may take the store for away: one that fails must not hold back the others for ever."""

from __future__ import annotations

from workspace_sync.errors import StoreUnavailable, StoreUnusable

AWAY = (StoreUnavailable, StoreUnusable)
"""Errors that would be the same for everything else; unless the store has trouble with one object alone."""
IN_A_ROW = 2
"""So many deliveries that find the store away are taken for all of them."""


class OutageDetector:
    """The outcomes of one round, one after another."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def away(self, failure: Exception | None) -> bool:
        """Note how one delivery ended; whether the rest of the round can wait for the next."""
        self._in_a_row = self._in_a_row + 1 if isinstance(failure, AWAY) else 0
        return self._in_a_row >= IN_A_ROW
