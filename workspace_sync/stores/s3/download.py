"""An object read as it comes: where an answer ends before the object does, another request asks for the rest.

Nothing is held in memory but the first piece of an object and what the reader's own buffer and the system's hold; a
reader that stands still keeps no other from reading, and goes on by a new request when the server has closed its
connection meanwhile.
"""

from __future__ import annotations

import io
import re
import socket
import time
from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import islice
from select import POLLIN, poll
from typing import Any, BinaryIO, Protocol

from botocore.exceptions import BotoCoreError, HTTPClientError
from urllib3.exceptions import HTTPError

from workspace_sync.errors import StoreUnavailable
from workspace_sync.store import Item, Opened

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


PIECE_BYTES = 1 << 16
"""Read of an answer at a time: what came before it broke off is lost up to that size, and asked for again."""
WAIT_SECONDS = 600.0
"""Longest time that one answer is waited for, all its pieces together."""
SLOWEST = 100_000
"""Bytes a second: what comes slower than that, after the time of an answer, is given up."""
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_BROKEN_OFF = (BotoCoreError, HTTPClientError, HTTPError, OSError, ValueError)


class Body(Protocol):
    """What an answer's bytes are read from."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> None: ...


class ByteRange:
    """Bytes of an object as they come, `left` of them; where the object ends, and its ETag."""

    def __init__(self, body: Body, left: int, end: int, etag: str) -> None:
        self.left = left
        self.end = end
        self.etag = etag
        self._body = body
        self._seconds_left = WAIT_SECONDS + left / SLOWEST

    def readinto(self, buffer: Any) -> int:
        """Some of what is left; 0 at the end, and when it breaks off."""
        if not self.left or self._seconds_left < 0:
            return 0
        began = time.monotonic()
        with memoryview(buffer)[: self.left] as view:
            try:
                piece = self._body.read(min(len(view), PIECE_BYTES))
            except _BROKEN_OFF:
                return 0
            view[: len(piece)] = piece
        self._seconds_left -= time.monotonic() - began
        self.left -= len(piece)
        return len(piece)

    def skip(self, size: int) -> None:
        """Read so many bytes and let them go. Raises `StoreUnavailable` when it breaks off."""
        room = bytearray(min(size, PIECE_BYTES))
        while size > 0:
            with memoryview(room)[:size] as view:
                taken = self.readinto(view)
            if not taken:
                self.close()
                raise StoreUnavailable("an object breaks off before its end; it is read again")
            size -= taken

    def close(self) -> None:
        """Give up what is left."""
        self._body.close()


def make_range(body: Body, size: int, etag: str, content_range: str | None, offset: int) -> ByteRange:
    """What of an answer belongs to a range that begins at `offset`.

    Its body has `size` bytes. `content_range` is None for an answer that is no part, of a server that knows no ranges.
    """
    if content_range is None:
        whole = ByteRange(body, size, size, etag)
        whole.skip(min(offset, size))
        return whole
    total = _CONTENT_RANGE.fullmatch(content_range)
    if total is None or int(total[1]) != offset or int(total[2]) - offset + 1 != size:
        body.close()
        raise StoreUnavailable("other bytes came than were asked for; they are asked for again")
    return ByteRange(body, size, int(total[3]), etag)


def make_empty_range(offset: int) -> ByteRange:
    """Nothing, since the object ends before `offset`."""
    return ByteRange(io.BytesIO(), 0, offset, "")


ATTEMPTS = 3
"""Requests for the rest of an object that may break off in a row, without a byte."""


class ObjectReader(io.RawIOBase):
    """The bytes from `offset` to `end`, the first of which `begun` brings; `ask(offset, size)` gets further ones."""

    def __init__(self, begun: ByteRange, offset: int, end: int, ask: Callable[[int, int], ByteRange]) -> None:
        super().__init__()
        self._range: ByteRange | None = begun
        self._at = offset
        self._end = end
        self._ask = ask

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes, none at the end. Raises `StoreUnavailable` when the store gives no more of them."""
        for _ in range(ATTEMPTS if self._at < self._end else 0):
            if self._range is None:
                self._range = self._ask(self._at, self._end - self._at)
            if taken := self._range.readinto(buffer):
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
        if self._range is not None:
            self._range.close()
            self._range = None
