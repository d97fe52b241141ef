"""Small objects that are asked for before they are read, and given in the order in which they come.

One thread keeps a server busy so, and one object that is slow to come holds back none that is there.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from select import POLLIN, poll
from typing import BinaryIO, Generic

from workspace_sync.store import Item, Opened

MOST_ASKED = 16
"""Objects asked for and not read yet, a connection each."""
SILENCE_MILLISECONDS = 1000
"""When nothing comes for so long, the object asked for first is waited for."""


class Ahead(Generic[Item]):
    """The objects `wanted`, by their keys, each with what opens it: `opened`, or `get` for one that `ask` refused.

    An iterator for one thread after the other. `close` gives up what is asked for, also while a thread waits for it.
    """

    def __init__(
        self,
        wanted: Iterable[tuple[Item, str]],
        ask: Callable[[str], socket.socket | None],
        opened: Callable[[str, socket.socket], BinaryIO],
        get: Callable[[str], BinaryIO],
    ) -> None:
        self._wanted = iter(wanted)
        self._ask = ask
        self._opened = opened
        self._get = get
        self._asked: dict[int, tuple[Item, str, socket.socket]] = {}
        self._come: list[int] = []
        self._poll = poll()
        self._guard = threading.Lock()
        self._closed = False

    def __iter__(self) -> Iterator[tuple[Item, Opened]]:
        return self

    def __next__(self) -> tuple[Item, Opened]:
        with self._guard:
            found = None if self._closed else self._next()
        if self._closed:
            self.close()
        if found is None:
            raise StopIteration
        return found

    def close(self) -> None:
        self._closed = True
        if self._guard.acquire(blocking=False):  # else whoever has it looks again
            try:
                while self._asked:
                    self._asked.popitem()[1][2].close()
            finally:
                self._guard.release()

    def _next(self) -> tuple[Item, Opened] | None:
        while len(self._asked) < MOST_ASKED:
            wanted = next(self._wanted, None)
            if wanted is None:
                break
            item, key = wanted
            connection = self._ask(key)
            if connection is None:
                return item, partial(self._get, key)
            self._asked[connection.fileno()] = item, key, connection
            self._poll.register(connection, POLLIN)
        if self._asked and not self._come:
            self._come = [number for number, _ in self._poll.poll(SILENCE_MILLISECONDS)]
        if self._closed or not self._asked:
            return None
        number = self._come.pop() if self._come else next(iter(self._asked))
        self._poll.unregister(number)
        item, key, connection = self._asked.pop(number)
        return item, partial(self._opened, key, connection)
