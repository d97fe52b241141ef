"""Queries for the one thread that SQLite gets: those that wait at the same time share a transaction.

A commit, and the way to a thread and back, cost as much as the statements of a short query. So the thread is handed
what one turn of the loop has asked for, takes all that waits, in the order in which it was asked, and no answer goes
out before their one commit. It stays for a while when nothing waits any more: to wake it costs less than to call it.

When anything in such a group fails, all of it is rolled back and each query has a transaction of its own: so none is
harmed by another, and a query may be called twice, the first time without effect. Nothing is committed of a query that
somebody has given up by then: who was told that it failed may rely on that, unless its commit itself takes as long as
all of it may.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Connection

T = TypeVar("T")
MOST_AT_ONCE: Final = 16
"""Queries in one transaction: a short one waits for those behind it."""
STAY_SECONDS: Final = 1.0
"""How long the thread waits for more before it is the executor's again."""


class GivenUp(Exception):
    """Nobody waits for a query any more, and its commit was about to begin."""


Query = Callable[[Connection], Any]
Ended = tuple["_Asked", Any, BaseException | None]


class _Asked(msgspec.Struct, eq=False, frozen=True):
    query: Query
    answer: asyncio.Future[Any]


class SharedTransactions:
    """`carry_out(query)` runs one transaction, blocking, and is called in the executor's one thread."""

    def __init__(self, executor: Executor, carry_out: Callable[[Query], Any], *, deadline_seconds: float) -> None:
        self._executor = executor
        self._carry_out = carry_out
        self._deadline_seconds = deadline_seconds
        self._deadlines: deque[tuple[float, asyncio.Future[Any], bool]] = deque()
        """When each is late; and whether it had more time already, as its commit was under way."""
        self._committing: set[asyncio.Future[Any]] = set()
        """Those that may be committed, and have not been answered."""
        self._timer: asyncio.TimerHandle | None = None
        self._turn: list[_Asked] = []
        """Asked in this turn of the loop, not handed over yet."""
        self._handed: queue.SimpleQueue[list[_Asked]] = queue.SimpleQueue()
        self._waiting: deque[_Asked] = deque()
        """What the thread has taken of that; its own."""
        self._guard = threading.Lock()
        self._working = self._closing = False

    async def run(self, query: Callable[[Connection], T]) -> T:
        """What the query returns, once it is committed; raises what it raises, and TimeoutError at its deadline."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._watch(answer, loop)
        if not self._turn:
            loop.call_soon(self._hand_over, loop)
        self._turn.append(_Asked(query, answer))
        return await answer

    def leave(self) -> None:
        """The thread is wanted for something else: it goes when nothing waits any more, and does not stay again."""
        self._hand_over(asyncio.get_running_loop())
        self._closing = True
        self._handed.put([])

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """At the end of the turn that asked."""
        asked, self._turn = self._turn, []
        if not asked:
            return
        with self._guard:
            self._handed.put(asked)
            idle, self._working = not self._working, True
        if not idle:
            return
        try:
            self._executor.submit(self._work, loop)
        except RuntimeError as error:  # the database is closed: nobody is to wait for it
            self._working = False
            self._handed = queue.SimpleQueue()
            for each in asked:
                if not each.answer.done():
                    each.answer.set_exception(error)

    def _watch(self, answer: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> None:
        """One timer serves all: each has the same time, so who asked first is late first."""
        deadlines = self._deadlines
        while deadlines and deadlines[0][1].done():
            deadlines.popleft()
        deadlines.append((loop.time() + self._deadline_seconds, answer, False))
        if self._timer is None:
            self._timer = loop.call_at(deadlines[0][0], self._end_late, loop)

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        deadlines = self._deadlines
        with self._guard:
            while deadlines and (deadlines[0][1].done() or deadlines[0][0] <= loop.time()):
                _, answer, again = deadlines.popleft()
                if answer in self._committing and not again:
                    deadlines.append((loop.time() + self._deadline_seconds, answer, True))
                elif not answer.done():
                    answer.set_exception(TimeoutError())
        if deadlines:
            self._timer = loop.call_at(deadlines[0][0], self._end_late, loop)

    def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the thread: take groups until nothing comes any more."""
        waiting = self._waiting
        while True:
            self._gather()
            if not waiting:
                with self._guard:  # what is handed over from here on calls the thread again
                    if self._handed.empty():
                        self._working = False
                        return
                continue
            group = [waiting.popleft() for _ in range(min(len(waiting), MOST_AT_ONCE))]
            # Who gave up before its turn is spared.
            for ended in self._run_group([each for each in group if not each.answer.done()]):
                with contextlib.suppress(RuntimeError):  # the loop is closed, and with it all who waited
                    loop.call_soon_threadsafe(self._answer, ended)

    def _gather(self) -> None:
        """Take what was handed over; where there is nothing, wait for a while."""
        with contextlib.suppress(queue.Empty):
            while len(self._waiting) < MOST_AT_ONCE:
                self._waiting.extend(self._handed.get_nowait())
        if not self._waiting and not self._closing:
            with contextlib.suppress(queue.Empty):
                self._waiting.extend(self._handed.get(timeout=STAY_SECONDS))

    def _run_group(self, group: Sequence[_Asked]) -> Iterator[Sequence[Ended]]:
        """What is committed, as soon as it is: a caller must not pass its deadline while others have their turn."""
        while len(group) > 1:
            try:
                values = self._commit(group)
            except GivenUp:  # by some: the others go on together
                group = [each for each in group if not each.answer.done()]
            except BaseException:  # raised below, to the one whose it is
                break
            else:
                yield [(each, value, None) for each, value in zip(group, values, strict=True)]
                return
        for each in group:
            # A database that is away keeps each of them waiting: who has given up by its turn is spared.
            if not each.answer.done():
                yield [self._run_alone(each)]

    def _run_alone(self, asked: _Asked) -> Ended:
        try:
            return asked, self._commit([asked])[0], None
        except BaseException as error:
            return asked, None, error

    def _commit(self, group: Sequence[_Asked]) -> list[Any]:
        """What the queries give, in one transaction; raises what one of them does, and GivenUp."""
        answers = {each.answer for each in group}

        def ask(connection: Connection) -> list[Any]:
            values = [each.query(connection) for each in group]
            with self._guard:
                if any(answer.done() for answer in answers):
                    raise GivenUp
                self._committing |= answers
            return values

        try:
            return list(self._carry_out(ask))
        except BaseException:
            with self._guard:
                self._committing -= answers
            raise

    def _answer(self, ended: Sequence[Ended]) -> None:
        """On the loop: wake those who still wait."""
        with self._guard:
            self._committing.difference_update(asked.answer for asked, _, _ in ended)
        for asked, value, error in ended:
            if asked.answer.done():
                continue
            if error is None:
                asked.answer.set_result(value)
            else:
                asked.answer.set_exception(error)
