"""Queries for the one thread that SQLite gets: those that wait at the same time share a transaction.

A commit, and the way to a thread and back, cost as much as the statements of a short query. So the thread takes all
that wait, in the order in which they were asked, and no answer goes out before their one commit. When anything in such
a group fails, all of it is rolled back and each query has a transaction of its own: so none is harmed by another, and a
query may be called twice, the first time without effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")
MOST_AT_ONCE: Final = 16
"""Queries in one transaction: a short one waits for those behind it."""

Query = Callable[[Connection], Any]
Ended = tuple["_Asked", Any, BaseException | None]


@dataclass(eq=False, frozen=True)
class _Asked:
    query: Query
    answer: asyncio.Future[Any]


class SharedTransactions:
    """`carry_out(query)` runs one transaction, blocking, and is called in the executor's one thread."""

    def __init__(self, executor: Executor, carry_out: Callable[[Query], Any]) -> None:
        self._executor = executor
        self._carry_out = carry_out
        self._waiting: deque[_Asked] = deque()
        self._guard = threading.Lock()
        self._working = False

    async def run(self, query: Callable[[Connection], T]) -> T:
        """What the query returns, once it is committed; raises what it raises."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        with self._guard:
            self._waiting.append(_Asked(query, answer))
            idle, self._working = not self._working, True
        if idle:
            self._begin(loop)
        return await answer

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._executor.submit(self._work, loop)
        except RuntimeError:  # the database is closed: nobody is to wait for it
            with self._guard:
                self._waiting.clear()
                self._working = False
            raise

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: take groups until nothing waits."""
        while True:
            with self._guard:
                group = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_AT_ONCE))]
                if not group:
                    self._working = False
                    return
            # Who gave up before its turn is spared.
            for ended in self._run_group([each for each in group if not each.answer.cancelled()]):
                with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all who waited
                    loop.call_soon_threadsafe(_answer, ended)

    def _run_group(self, group: Sequence[_Asked]) -> Iterator[Sequence[Ended]]:
        """What is committed, as soon as it is: a caller must not pass its deadline while others have their turn."""
        if len(group) > 1:
            with contextlib.suppress(BaseException):  # raised below, to the one whose it is
                values = self._carry_out(lambda connection: [each.query(connection) for each in group])
                yield [(each, value, None) for each, value in zip(group, values, strict=True)]
                return
        for each in group:
            # A database that is away keeps each of them waiting: who has given up by its turn is spared.
            if not each.answer.cancelled():
                yield [self._run_alone(each)]

    def _run_alone(self, asked: _Asked) -> Ended:
        try:
            return asked, self._carry_out(asked.query), None
        except BaseException as error:
            return asked, None, error


def _answer(ended: Sequence[Ended]) -> None:
    """On the loop: wake those who still wait."""
    for asked, value, error in ended:
        if asked.answer.done():
            continue
        if error is None:
            asked.answer.set_result(value)
        else:
            asked.answer.set_exception(error)
