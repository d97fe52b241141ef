"""Blocking jobs of one attempt in a bounded executor, none of which outlives the attempt unseen."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import partial
from itertools import chain
from operator import length_hint
from typing import TypeVar, cast

Item = TypeVar("Item")
Result = TypeVar("Result")
MOMENT_SECONDS = 0.05
"""How long a thread goes on with further jobs of the same attempt."""
_END = object()


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
        future.add_done_callback(self._note_end)
        running = asyncio.wrap_future(future)
        running.add_done_callback(_look)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.stop.set()  # a thread cannot be cancelled: it ends when it looks at this
            if not running.done():
                await asyncio.wait([running])
            raise

    def call_when_idle(self, then: Callable[[], None]) -> None:
        """Call this once no job runs or waits any more: at once, or by the last one, which may have been given up."""
        with self._guard:
            if self._unfinished:
                self._then.append(then)
                return
        then()

    def _note_end(self, future: Future[Result]) -> None:
        with self._guard:
            self._unfinished.discard(future)
            due, self._then = ([], self._then) if self._unfinished else (self._then, [])
        for then in due:  # without the lock, which they may want
            then()

    async def each(
        self,
        job: Callable[[Item], Result],
        items: Iterable[Item],
        note: Callable[[Result], None] | None = None,
        *,
        at_once: int | None = None,
    ) -> None:
        """Run the job for every item; the first error ends it, after the jobs under way have ended.

        `at_once`: by no more threads than that. `note` is called on the loop with each result as it comes, so that it
        is known even when a later one fails. A thread does many short jobs before it comes back, but not for long:
        others wait for threads too. Where there is nothing to do no thread is asked.
        """
        most = min(at_once or self._concurrency, length_hint(items, self._concurrency), self._concurrency)
        if (first := next(rest := iter(items), _END)) is _END:
            return
        waiting, guard = chain([cast("Item", first)], rest), threading.Lock()

        async def work() -> None:
            more = True
            while more and not self.stop.is_set():
                some: list[Result] = []
                try:
                    more = await self.run(partial(self._some, job, waiting, guard, some))
                finally:
                    if note is not None:
                        for result in some:
                            note(result)

        workers = [asyncio.create_task(work()) for _ in range(most)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            self.stop.set()
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _some(
        self, job: Callable[[Item], Result], waiting: Iterator[Item], guard: threading.Lock, some: list[Result]
    ) -> bool:
        """Do jobs for a moment, or one; returns whether any may be left."""
        until = time.monotonic() + MOMENT_SECONDS
        while not self.stop.is_set():
            with guard:
                item = next(waiting, _END)
            if item is _END:
                return False
            some.append(job(cast("Item", item)))
            if time.monotonic() >= until:
                break
        return True


def _look(future: asyncio.Future[Result]) -> None:
    """Look at an error that no caller waits for any more, so that the loop does not complain of it."""
    if not future.cancelled():
        future.exception()
