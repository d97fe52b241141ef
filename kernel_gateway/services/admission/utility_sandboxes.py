"""Sandboxes that do one thing and belong to no session: the sweep leaves them alone for as long as they are held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UtilitySandboxes:
    """The ids of those that exist now, or are about to."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    @contextmanager
    def hold(self, sandbox_id: str) -> Iterator[None]:
        """Entered before the sandbox is made, left when it has been destroyed."""
        self._ids.add(sandbox_id)
        try:
            yield
        finally:
            self._ids.discard(sandbox_id)

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)
