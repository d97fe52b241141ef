"""What is scarce, shared between principals: places at work, threads, bytes of memory. One rule for all of them.

There are so many units, of which one *owner* (a principal's id as a rule) holds `share` at most. Those who wait are
served owner by owner, each owner's requests in their order, so that none waits longer because another asks for more.
`Turns` is that rule, pure; `FairShares` waits by it, `FairThreads` runs jobs by it. How long a request waits is bounded
by itself and no part of the time that the work has.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, TypeVar

import msgspec

from kernel_gateway.errors import LimitReached

WAIT_SECONDS: Final = 300.0
"""How long one waits for a turn, unless said otherwise."""
MOST_WAITING: Final = 100
"""Requests of one owner that wait for one thing at once, unless said otherwise."""
RETRY_SECONDS: Final = 10.0
SERVICE: Final = ""
"""The owner of what the service does on its own behalf."""
T = TypeVar("T")


def share_of(total: int) -> int:
    """What one owner may hold of `total` places, so that others find one without waiting for that owner."""
    return max(1, total - max(1, total // 4))


class Turns(Generic[T]):
    """Who is next. `ask` and `give_back` change who is; `due` hands out what can be handed out now."""

    def __init__(self, total: int, share: int) -> None:
        self.total = total
        self.share = min(share, total)
        self.free = total
        self._held: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[tuple[int, T]]] = OrderedDict()

    def held_by(self, owner: str) -> int:
        return self._held[owner]

    def waiting_of(self, owner: str) -> int:
        return len(self._waiting.get(owner, ()))

    def ask(self, owner: str, size: int, item: T) -> None:
        """`size` is at most the share: an owner who holds nothing always gets it in the end."""
        self._waiting.setdefault(owner, deque()).append((size, item))

    def withdraw(self, owner: str, size: int, item: T) -> None:
        """The item does not wait any more; what it held up may be due."""
        self._waiting[owner].remove((size, item))
        if not self._waiting[owner]:
            del self._waiting[owner]

    def give_back(self, owner: str, size: int) -> None:
        self.free += size
        self._held[owner] -= size
        if not self._held[owner]:
            del self._held[owner]

    def due(self) -> Iterator[T]:
        """The items whose turn it is, one owner after another; what is yielded is held from then on."""
        while (owner := self._next()) is not None:
            queue = self._waiting[owner]
            size, item = queue.popleft()
            self._waiting.move_to_end(owner)
            if not queue:
                del self._waiting[owner]
            self.free -= size
            self._held[owner] += size
            yield item

    def clear(self) -> list[T]:
        """Everything that waits, which waits no more."""
        waiting = [item for queue in self._waiting.values() for _, item in queue]
        self._waiting.clear()
        return waiting

    def _next(self) -> str | None:
        """The owner whose turn it is; none overtakes one who only waits for others to give back."""
        for owner, queue in self._waiting.items():
            size = queue[0][0]
            if self._held[owner] + size > self.share:
                continue
            return owner if size <= self.free else None
        return None


class FairShares:
    """`take` waits for a turn. `what` completes "wait for ...": it is in the message of a refusal."""

    def __init__(
        self,
        what: str,
        total: int,
        share: int | None = None,
        *,
        wait_seconds: float = WAIT_SECONDS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._what = what
        self._wait_seconds = wait_seconds
        self._most_waiting = most_waiting
        self._turns = Turns[asyncio.Future[None]](total, share_of(total) if share is None else share)

    @property
    def held(self) -> int:
        """Units in use."""
        return self._turns.total - self._turns.free

    async def take(self, owner: str, size: int = 1) -> Share:
        """Wait for so many units, or for all that one owner may hold; raises LimitReached when they do not come."""
        size = min(size, self._turns.share)
        if self._turns.waiting_of(owner) >= self._most_waiting:
            raise LimitReached(
                f"{self._most_waiting} of your requests wait for {self._what}: wait until they have been served",
                retry_after_seconds=RETRY_SECONDS,
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.ask(owner, size, turn)
        self._serve()
        if not turn.done():
            await self._wait(owner, size, turn)
        return Share(self, owner, size)

    def take_now(self, owner: str, size: int) -> Share:
        """The same without a wait, for those who hold what others wait for; raises LimitReached."""
        size = min(size, self._turns.share)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns.ask(owner, size, turn)
        self._serve()
        if turn.done():
            return Share(self, owner, size)
        self._turns.withdraw(owner, size, turn)
        raise LimitReached(f"there is no {self._what} now: try again later", retry_after_seconds=1.0)

    async def _wait(self, owner: str, size: int, turn: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._wait_seconds):
                await asyncio.shield(turn)
        except BaseException as error:
            if turn.done():  # its turn came when its wait was ending already
                self._turns.give_back(owner, size)
            else:
                self._turns.withdraw(owner, size, turn)
            self._serve()
            if isinstance(error, TimeoutError):
                raise LimitReached(
                    f"others are served before you: this request has waited {self._wait_seconds:g} s for {self._what}",
                    retry_after_seconds=RETRY_SECONDS,
                ) from None
            raise

    @asynccontextmanager
    async def place(self, owner: str, size: int = 1) -> AsyncIterator[None]:
        """Hold them for the length of a block."""
        held = await self.take(owner, size)
        try:
            yield
        finally:
            held.release()

    def give_back(self, owner: str, size: int) -> None:
        """Called by `Share`: let those go on whose turn it is."""
        self._turns.give_back(owner, size)
        self._serve()

    def _serve(self) -> None:
        for turn in self._turns.due():
            turn.set_result(None)


class Share:
    """Units that are held until they are released; releasing them again is fine."""

    def __init__(self, shares: FairShares, owner: str, size: int) -> None:
        self._shares = shares
        self._owner = owner
        self.size = size

    def shrink(self, size: int) -> None:
        """No more than that is needed from now on."""
        if size < self.size:
            less, self.size = self.size - size, size
            self._shares.give_back(self._owner, less)

    def release(self) -> None:
        self.shrink(0)


class _Job(msgspec.Struct, frozen=True, eq=False):
    owner: str
    work: Callable[[], Any]
    future: Future[Any]

    def carry_out(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.work()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class FairThreads:
    """So many threads, for blocking work. What waits is in here, never in the pool behind it."""

    def __init__(self, threads: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._turns = Turns[_Job](threads, share_of(threads))
        self._guard = threading.Lock()
        self._closed = False

    def of(self, owner: str) -> Executor:
        """The threads as one owner sees them; `submit` raises RuntimeError once they are closed."""
        return _OwnThreads(self, owner)

    def submit(self, owner: str, work: Callable[[], Any]) -> Future[Any]:
        job = _Job(owner, work, Future())
        with self._guard:
            if self._closed:
                raise RuntimeError("the threads are closed")
            self._turns.ask(owner, 1, job)
            self._serve()
        return job.future

    def _run(self, job: _Job) -> None:
        try:
            job.carry_out()
        finally:
            with self._guard:
                self._turns.give_back(job.owner, 1)
                self._serve()

    def _serve(self) -> None:
        if not self._closed:
            for job in self._turns.due():
                self._pool.submit(self._run, job)

    def close(self) -> None:
        """Begin nothing more: what waits is cancelled, what runs goes on."""
        with self._guard:
            self._closed = True
            waiting = self._turns.clear()
        for job in waiting:
            job.future.cancel()
            job.future.set_running_or_notify_cancel()
        self._pool.shutdown(wait=False)


class _OwnThreads(Executor):
    def __init__(self, threads: FairThreads, owner: str) -> None:
        self._threads = threads
        self._owner = owner

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        return self._threads.submit(self._owner, partial(work, *args, **kwargs))
