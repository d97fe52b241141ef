"""What the database said of credentials, remembered in memory until one of them is revoked."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
MOST_REMEMBERED = 10_000
FRESH_SECONDS: Final = 1.0
"""How long an answer counts where other gateways can revoke behind our back."""


class Remembered(Generic[T]):
    """Answers by their question. Nobody else revokes anything behind our back unless the database is `shared`."""

    def __init__(self, *, shared: bool = False, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._answers: dict[str, T] = {}
        self._revocations = 0
        self._shared = shared
        self._monotonic = monotonic
        self._since = monotonic()

    async def ask(self, question: str, otherwise: Callable[[], Awaitable[T | None]]) -> T | None:
        """The answer remembered, or the one found now; None, which is not remembered, when there is none.

        An answer that was on its way when something was revoked is asked for again: it may be the revoked one's.
        """
        if self._shared and self._monotonic() - self._since > FRESH_SECONDS:
            self._answers.clear()
            self._since = self._monotonic()
        known = self._answers.get(question)
        if known is not None:
            return known
        while True:
            revocations = self._revocations
            found = await otherwise()
            if revocations == self._revocations:
                break
        if found is not None:
            if len(self._answers) >= MOST_REMEMBERED:
                self._answers.clear()
            self._answers[question] = found
        return found

    def forget(self) -> None:
        """Ask again for everything: something was revoked."""
        self._revocations += 1
        self._answers.clear()
