"""Blocking jobs of one attempt in a bounded executor, none of which outlives the attempt unseen."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Threads:
    """Runs jobs, at most `concurrency` at once. `stop` is set when the attempt is given up: jobs look at it often."""

    def __init__(self, executor: Executor, concurrency: int) -> None:
        self._executor = executor
        self._concurrency = concurrency
        self.stop = threading.Event()
        self._unfinished: set[Future[object]] = set()
        self._guard = threading.Lock()
        self._then: list[Callable[[], None]] = []

    async def run(self, job: Callable[[], Result]) -> Result:
        """Run one job; when cancelled, waits for a thread that runs it already, unless cancelled again."""
        future = self._executor.submit(job)
        with self._guard:
            self._unfinished.add(future)  # type: ignore[arg-type]
        future.add_done_callback(self._finished)
        running = asyncio.wrap_future(future)
        running.add_done_callback(_look)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.stop.set()
            if not running.done():
                await asyncio.wait([running])
            raise

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call this once no job runs or waits any more: at once, or by the last one, which may have been given up."""
        with self._guard:
            if self._unfinished:
                self._then.append(then)
                return
        then()

    def _finished(self, future: Future[Result]) -> None:
        with self._guard:
            self._unfinished.discard(future)
            due, self._then = ([], self._then) if self._unfinished else (self._then, [])
        for then in due:
            then()

    async def each(
        self, job: Callable[[Item], Result], items: Iterable[Item], note: Callable[[Result], None] | None = None
    ) -> list[Result]:
        """Run the job for every item; the first error ends it, after the jobs under way have ended.

        `note` is called on the loop with each result as it comes, so that it is known even when a later one fails.
        """
        waiting = iter(items)
        results: list[Result] = []

        async def work() -> None:
            for item in waiting:
                if self.stop.is_set():
                    return
                result = await self.run(partial(job, item))
                results.append(result)
                if note is not None:
                    note(result)

        workers = [asyncio.create_task(work()) for _ in range(self._concurrency)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            self.stop.set()
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return results


def _look(future: asyncio.Future[Result]) -> None:
    """Look at an error nobody waits for any more, so that the loop does not complain of it."""
    if not future.cancelled():
        future.exception()
