"""Invocations under way, who waits for them, and results of those that ended lately: who sends one again joins it.

Clients repeat a request whose answer they did not get, with the same `amz-sdk-invocation-id`. Code must not run twice
because of that. An invocation belongs to the service: a client that goes away does not cancel it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from kernel_gateway.services.background import Background

KEPT_SECONDS: Final = 300.0
KEPT_BYTES: Final = 64 * 1024 * 1024
"""Results that ended lately, all together; the oldest go."""
MOST_KEPT: Final = 10_000
MOST_REPEATABLE_BYTES: Final = 1024 * 1024
"""A larger result is not kept where asking again is safe: it would push out those that cannot be asked for twice."""
Key = tuple[str, str, str]
"""Principal, session, and a hash of the client's own id of the invocation and of its body."""


@dataclass(eq=False)
class Waiter:
    """A client that waits for an invocation; `over` once that has ended, or the client has left."""

    session_id: str
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Invocations:
    """By key; those without one cannot be joined."""

    def __init__(self, background: Background, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._background = background
        self._monotonic = monotonic
        self._running: dict[Key, asyncio.Task[bytes]] = {}
        self._ended: OrderedDict[Key, tuple[float, asyncio.Task[bytes]]] = OrderedDict()
        self._kept_bytes = 0
        self._waiting: dict[str, set[Waiter]] = {}

    def find(self, key: Key | None) -> asyncio.Task[bytes] | None:
        """The invocation of this key, running or ended lately."""
        if key is None:
            return None
        self._forget()
        running = self._running.get(key)
        if running is None and key in self._ended:
            return self._ended[key][1]
        return running

    def run(
        self, key: Key | None, work: Callable[[], Coroutine[Any, Any, bytes]], *, repeatable: bool = False
    ) -> asyncio.Task[bytes]:
        """Start the work, unless it is that of an invocation which is there already.

        `repeatable` work may be done again once it has ended, for who asks again.
        """
        found = self.find(key)
        if found is not None:
            return found
        task = self._background.spawn(work(), "invocation")
        if key is not None:
            self._running[key] = task
            task.add_done_callback(lambda _: self._end(key, task, repeatable=repeatable))
        return task

    def wait_for(self, session_id: str, work: asyncio.Task[bytes]) -> Waiter:
        """A client waits for this work from now on, until it `leave`s."""
        waiter = Waiter(session_id)
        self._waiting.setdefault(session_id, set()).add(waiter)
        work.add_done_callback(lambda _: self.leave(waiter))
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """The client waits no longer; saying so again does nothing."""
        waiter.over.set()
        waiting = self._waiting.get(waiter.session_id, set())
        waiting.discard(waiter)
        if not waiting:
            self._waiting.pop(waiter.session_id, None)

    async def settle(self, session_id: str, seconds: float) -> None:
        """Wait for what clients of this session wait for now, but no longer than `seconds`.

        What nobody waits for any more holds up nothing.
        """
        waiters = list(self._waiting.get(session_id, ()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for waiter in waiters:
                    await waiter.over.wait()

    def _end(self, key: Key, task: asyncio.Task[bytes], *, repeatable: bool) -> None:
        self._running.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        if repeatable and len(task.result()) > MOST_REPEATABLE_BYTES:
            return
        self._ended[key] = self._monotonic() + KEPT_SECONDS, task
        self._kept_bytes += len(task.result())
        self._forget()

    def _forget(self) -> None:
        now = self._monotonic()
        while self._ended:
            until, task = next(iter(self._ended.values()))
            if until > now and self._kept_bytes <= KEPT_BYTES and len(self._ended) <= MOST_KEPT:
                return
            self._ended.popitem(last=False)
            self._kept_bytes -= len(task.result())
