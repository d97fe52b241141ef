"""An object read as it comes: one request for all of it, and where that breaks off another one for the rest.

Nothing is held in memory but what the reader's own buffer and the system's hold; a reader that stands still keeps
nobody else from reading, and goes on by a new request when the server has closed its connection meanwhile.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
from select import POLLIN, poll
from typing import Any, BinaryIO

from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import Item, Opened
from workspace_sync.stores.s3.stretch import ByteRange

# Objects that are asked for before they are read, and given in the order in which they come.
#
# One thread keeps a server busy so, and an object that is late holds back none that is there (over TLS only on a
# connection that was used before: a new one has something to read at once, which is no answer).

MOST_ASKED = 8
"""Objects asked for and not read yet, a connection each."""
_AT_A_TIME = 2
"""Asked for before the next is given: connections are made one by one, and what is there does not wait for them."""


def ahead(
    wanted: Iterable[tuple[Item, str]],
    ask: Callable[[str], socket.socket | None],
    opened: Callable[[str, socket.socket], BinaryIO],
    get: Callable[[str], BinaryIO],
    silence_seconds: float,
) -> Generator[tuple[Item, Opened]]:
    """The objects wanted, by their keys, each with what opens it, which has to be called before the next is taken.

    What `ask` refuses, and what is not answered while nothing comes for so long, is opened by `get`.
    """
    left, asked, waiting = iter(wanted), dict[int, tuple[Item, str, socket.socket]](), poll()
    come: list[tuple[int, int]] = []
    try:
        while (more := list(islice(left, min(_AT_A_TIME, MOST_ASKED - len(asked))))) or asked:
            for item, key in more:
                connection = ask(key)
                if connection is None:
                    yield item, partial(get, key)
                else:
                    asked[connection.fileno()] = item, key, connection
                    waiting.register(connection, POLLIN)
            if asked and not come:
                come = waiting.poll(silence_seconds * 1000)
            if come:
                number = come.pop()[0]
                item, key, connection = asked.pop(number)
                waiting.unregister(number)
                yield item, partial(opened, key, connection)
            elif asked:
                item, key, connection = asked.pop(next(iter(asked)))
                waiting.unregister(connection)
                connection.close()
                yield item, partial(get, key)
    finally:
        for _, _, connection in asked.values():
            connection.close()


ATTEMPTS = 3
"""Requests for the rest of an object that may break off in a row, without a byte."""


class ObjectReader(io.RawIOBase):
    """The bytes from `offset` to `end`, the first of which `stretch` brings; `ask(offset, size)` gets another one."""

    def __init__(self, stretch: ByteRange, offset: int, end: int, ask: Callable[[int, int], ByteRange]) -> None:
        super().__init__()
        self._stretch: ByteRange | None = stretch
        self._at = offset
        self._end = end
        self._ask = ask

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes, none at the end. Raises `StoreUnavailable` when the store gives no more of them."""
        for _ in range(ATTEMPTS if self._at < self._end else 0):
            if self._stretch is None:
                self._stretch = self._ask(self._at, self._end - self._at)
            if taken := self._stretch.readinto(buffer):
                self._at += taken
                return taken
            self._let_go()
        if self._at < self._end:
            raise StoreUnavailable("an object breaks off before its end; it is read again")
        return 0

    def rest(self) -> bytearray:
        """All that is left, in memory."""
        data = bytearray(max(self._end - self._at, 0))
        with memoryview(data) as view:
            filled = 0
            while filled < len(data):
                filled += self.readinto(view[filled:])
        return data

    def close(self) -> None:
        self._let_go()
        super().close()

    def _let_go(self) -> None:
        if self._stretch is not None:
            self._stretch.close()
            self._stretch = None
