"""`asyncio.timeout`, which came with Python 3.11; images may have 3.9."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import Any

if sys.version_info >= (3, 11):
    from asyncio import timeout as timeout  # noqa: PLC0414 - this name is what the module is for
else:  # pragma: no cover - in sandboxes of images whose Python is older than the service's

    class timeout:  # noqa: N801 - called as the function is
        """Cancels the task that is in the block at its deadline, and makes that a TimeoutError."""

        def __init__(self, seconds: float | None) -> None:
            self._loop = asyncio.get_running_loop()
            self._when = None if seconds is None else self._loop.time() + seconds
            self._timer: Any = None
            self._expired = False

        async def __aenter__(self) -> timeout:
            self._task: Any = asyncio.current_task()
            self.reschedule(self._when)
            return self

        def reschedule(self, when: float | None) -> None:
            """Move the deadline, by the loop's clock."""
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None if when is None else self._loop.call_at(when, self._expire)

        def _expire(self) -> None:
            self._expired = True
            self._task.cancel()

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
        ) -> None:
            self.reschedule(None)
            if self._expired and kind is asyncio.CancelledError:
                raise TimeoutError from error
