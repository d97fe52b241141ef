"""Owner of background tasks: it starts them, logs what fails in them, and ends them all."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

from kernels.cancelling import cancel_all

T = TypeVar("T")
CLOSE_SECONDS = 60.0
log = structlog.get_logger(__name__)


class Background:
    """Tasks that outlive the call that started them, but not their owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task; its failure is logged even when nothing awaits it."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def carry_out(self, work: Coroutine[Any, Any, T], name: str) -> T:
        """Await work that goes on when the caller is cancelled."""
        return await asyncio.shield(self.spawn(work, name))

    async def aclose(self) -> None:
        """Cancel what is left and wait for it."""
        own = asyncio.current_task()
        await cancel_all((task for task in self._tasks if task is not own), CLOSE_SECONDS)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.debug("background_task_failed", task=task.get_name(), error=type(task.exception()).__name__)
