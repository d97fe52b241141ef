"""Changes of durable files under way: a session that starts on their workspace waits for them, and so does its removal.

A change says so before it looks for a live session, and a session is on record before it waits here: so either the
change is refused, or what it wrote is all there when the session's files are restored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from kernel_gateway.errors import DeadlinePassed


class DurableChanges:
    """Of every workspace of this gateway. What `begin` begins `end` ends; a block is the two of them."""

    def __init__(self) -> None:
        self._under_way: dict[str, int] = {}
        self._ended = asyncio.Event()

    @contextmanager
    def change(self, workspace_id: str) -> Iterator[None]:
        """For as long as the block lasts, files of the workspace change."""
        self.begin(workspace_id)
        try:
            yield
        finally:
            self.end(workspace_id)

    def begin(self, workspace_id: str) -> None:
        self._under_way[workspace_id] = self._under_way.get(workspace_id, 0) + 1

    def end(self, workspace_id: str) -> None:
        self._under_way[workspace_id] -= 1
        if not self._under_way[workspace_id]:
            del self._under_way[workspace_id]
        self._ended.set()
        self._ended = asyncio.Event()

    async def wait_settled(self, workspace_id: str, deadline_seconds: float) -> None:
        """Return when nothing changes the workspace; raises DeadlinePassed."""
        try:
            async with asyncio.timeout(deadline_seconds):
                while workspace_id in self._under_way:
                    await self._ended.wait()
        except TimeoutError:
            raise DeadlinePassed(
                f"files are still being written to the workspace after {deadline_seconds:g} s; try again later"
            ) from None
