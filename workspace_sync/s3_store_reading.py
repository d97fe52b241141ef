"""One answer of an S3 server as its bytes come (no I/O): all of it in memory, or its head and the way to its body."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools

HEAD_BYTES = 64 * 1024
"""Headers of one answer, all together."""
_LONGEST = 19
"""Digits of a length that a file can have."""


class WireBroken(Exception):
    """The exchange did not come to an end, or not in a form this module takes."""


@dataclass
class Answer:
    """A status, headers by their names in lower case, and the whole body."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    @property
    def etag(self) -> str:
        """The object's ETag without its quotes; empty when none is told."""
        return self.headers.get("etag", "").strip('"')


class Reading:
    """One answer as it comes; the parser calls the methods that begin with `on_`."""

    def __init__(self, most_bytes: int) -> None:
        self.answer = Answer()
        self.done = False
        self.again = False
        self._most = most_bytes
        self._head_bytes = 0
        self._in_head = True
        self._filled = 0
        self._head: dict[bytes, bytes] = {}
        self.on_header = self._head.__setitem__  # called so often that its cost counts
        self._parser = httptools.HttpResponseParser(self)

    def take(self, piece: bytes) -> None:
        """What came. Raises `httptools.HttpParserError`, `WireBroken`."""
        if not piece:
            return
        if self._in_head:
            self._head_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserCallbackError as error:
            raise WireBroken("an answer that is too long, or none to what was asked") from error
        if self._in_head and self._head_bytes > HEAD_BYTES:
            raise WireBroken("headers that are too long")

    def room(self) -> memoryview:
        """Where the rest of a body of known length goes, past the parser, which would copy it; empty otherwise."""
        body = self.answer.body  # of unknown length it grows, which it cannot while a view of it is held
        return memoryview(body)[self._filled :] if self._filled < len(body) else memoryview(b"")

    def fill(self, taken: int) -> None:
        """So many bytes of the room came."""
        self._filled += taken
        if taken and self._filled == len(self.answer.body):
            self.done = True
            self.again = self._parser.should_keep_alive()

    def end(self) -> None:
        """Let go of the parser, which holds this and so the body; a collector would come late for them."""
        del self._parser

    def on_message_begin(self) -> None:
        if self.done:
            raise WireBroken("more than one answer")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self.answer.headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._head.items()
        }
        self._head.clear()
        self.answer.status = self._parser.get_status_code()
        length = self.answer.headers.get("content-length", "")
        if length.isdecimal() and "transfer-encoding" not in self.answer.headers and self.answer.status >= 200:
            self._expect(length)

    def _expect(self, length: str) -> None:
        if len(length) > len(str(self._most)) or int(length) > self._most:
            raise WireBroken("an answer that is too long")
        self.answer.body = bytearray(int(length))

    def on_body(self, piece: bytes) -> None:
        end = self._filled + len(piece)
        if end > self._most:
            raise WireBroken("an answer that is too long")
        self.answer.body[self._filled : end] = piece
        self._filled = end

    def on_message_complete(self) -> None:
        if self.answer.status >= 200:  # an interim answer is none
            self.done = True
            self.again = self._parser.should_keep_alive()
        else:
            self._in_head = True
            self.answer = Answer()


class Opening(Reading):
    """An answer of which, when it is a success of known length, the body is not read here.

    Then `left` says how many bytes it has, and `begun` holds those that came with the head.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.left = 0
        self.begun = bytearray()

    def _expect(self, length: str) -> None:
        if self.answer.status not in (200, 206) or len(length) > _LONGEST:
            super()._expect(length)
        elif int(length):
            self.left = int(length)
            self.again = self._parser.should_keep_alive()
            self.done = True

    def on_body(self, piece: bytes) -> None:
        if self.left:
            self.begun += piece
        else:
            super().on_body(piece)
