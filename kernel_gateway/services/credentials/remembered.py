"""What the database said of credentials, remembered in memory until one of them is revoked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")
MOST_REMEMBERED = 10_000


class Remembered(Generic[T]):
    """Answers by their question. No other process can revoke behind our back: a database has one service."""

    def __init__(self) -> None:
        self._answers: dict[str, T] = {}
        self._revocations = 0

    async def ask(self, question: str, otherwise: Callable[[], Awaitable[T | None]]) -> T | None:
        """The answer remembered, or the one found now; None, which is not remembered, when there is none.

        An answer that was on its way when something was revoked is asked for again: it may be the revoked one's.
        """
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
