"""Single requests to one bucket over kept connections, at a tenth of the cost of botocore's way.

Only for what goes well: an answer that is not a plain success is left to botocore, which asks again in its own way and
knows redirects, regions, back-off and errors. Words: a `Wire` is all connections to one bucket; an exchange is one
request and its whole answer, in memory.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from select import POLLIN, poll

import httptools

from workspace_sync.s3_store_signature import Key, Signer, quoted_path, quoted_query

RECEIVE_BYTES = 1 << 16
HEAD_BYTES = 64 * 1024
"""Headers of one answer, all together."""
SENT_BYTES = 1 << 18
"""Of a body at a time: each has the time that an answer has, however long the whole takes on a slow link."""
JOINED_BYTES = 1 << 16
"""A body up to this size goes out in one piece with its head."""
MAX_IDLE = 16
"""Connections kept while nothing is asked."""
IDLE_SECONDS = 15.0
"""Age at which a kept connection is not used again; servers close theirs after some time."""

EXCHANGE_SECONDS = 600.0
"""Longest time one exchange takes, however slowly it moves."""

Body = bytes | bytearray | memoryview


class WireBroken(Exception):
    """The exchange did not come to an end, or not in a form this module takes."""


@dataclass(frozen=True)
class Address:
    """Where a bucket is: host and port, TLS if any, and what its keys' paths begin with."""

    host: str
    port: int
    named: str
    tls: ssl.SSLContext | None
    path: str
    region: str


@dataclass
class Answer:
    """A status, headers by their names in lower case, and the whole body."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)


class Wire:
    """Exchanges with one bucket; safe to use from several threads, a connection for each that is in one."""

    def __init__(
        self, address: Address, key: Callable[[], Key], connect_timeout_seconds: float, read_timeout_seconds: float
    ) -> None:
        self._address = address
        self._key = key
        self._connect_timeout = connect_timeout_seconds
        self._read_timeout = read_timeout_seconds
        self._signer = Signer(address.named, address.region)
        self._idle: list[tuple[float, socket.socket]] = []
        self._guard = threading.Lock()
        self._closed = False

    def exchange(
        self,
        method: str,
        key: str,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
        sha256: str = "",
        most_bytes: int = JOINED_BYTES,
    ) -> Answer:
        """One request; the answer's body has at most so many bytes. Raises `WireBroken`, `TimeoutError`."""
        path = quoted_path(self._address.path + key)
        asked = quoted_query(query) if query else ""
        digest = sha256 or hashlib.sha256(body).hexdigest()
        signed = self._signer.sign(method, path, asked, headers or {}, key=self._key(), sha256=digest, now=time.time())
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        target = f"{path}?{asked}" if asked else path
        head = f"{method} {target} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode()
        return self._carry(head, body, most_bytes)

    def close(self) -> None:
        """Close what is idle; connections in use are closed when their exchange ends."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _carry(self, head: bytes, body: Body, most_bytes: int) -> Answer:
        connection = self._kept()
        if connection is not None:
            try:
                return self._over(connection, head, body, most_bytes)
            except WireBroken:
                pass  # the server may have closed it meanwhile; all we ask may be asked twice
        return self._over(self._connected(), head, body, most_bytes)

    def _over(self, connection: socket.socket, head: bytes, body: Body, most_bytes: int) -> Answer:
        reading, until = _Reading(most_bytes), time.monotonic() + EXCHANGE_SECONDS
        try:
            _send(connection, head, body, until)
            while not reading.done:
                _check_time(until)
                if room := reading.room():
                    taken = connection.recv_into(room)
                    reading.fill(taken)
                else:
                    piece = connection.recv(RECEIVE_BYTES)
                    taken = len(piece)
                    reading.take(piece)
                if not taken:
                    raise WireBroken("the connection ended inside an answer")
        except TimeoutError:
            connection.close()
            raise
        except (OSError, httptools.HttpParserError) as error:
            connection.close()
            raise WireBroken(type(error).__name__) from error
        except BaseException:
            connection.close()
            raise
        finally:
            reading.end()
        self._keep(connection, again=reading.again)
        return reading.answer

    def _kept(self) -> socket.socket | None:
        """An idle connection on which nothing came: what did would be taken for the next answer."""
        found, old, now = None, [], time.monotonic()
        with self._guard:
            while self._idle and now - self._idle[0][0] > IDLE_SECONDS:
                old.append(self._idle.pop(0)[1])
            while self._idle and found is None:
                connection = self._idle.pop()[1]
                if _is_silent(connection):
                    found = connection
                else:
                    old.append(connection)
        for connection in old:
            connection.close()
        return found

    def _keep(self, connection: socket.socket, *, again: bool) -> None:
        with self._guard:
            if again and not self._closed and len(self._idle) < MAX_IDLE:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _connected(self) -> socket.socket:
        at = self._address
        try:
            connection = socket.create_connection((at.host, at.port), self._connect_timeout)
        except OSError as error:  # a timeout as well: botocore tells the two apart
            raise WireBroken(type(error).__name__) from error
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(self._read_timeout)
            return at.tls.wrap_socket(connection, server_hostname=at.host) if at.tls else connection
        except (OSError, ValueError) as error:
            connection.close()
            raise WireBroken(type(error).__name__) from error


def _send(connection: socket.socket, head: bytes, body: Body, until: float) -> None:
    if len(body) <= JOINED_BYTES:
        connection.sendall(head + bytes(body))
        return
    connection.sendall(head)
    with memoryview(body) as view:
        for start in range(0, len(view), SENT_BYTES):
            _check_time(until)
            connection.sendall(view[start : start + SENT_BYTES])


def _check_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("an exchange that takes too long")


def _is_silent(connection: socket.socket) -> bool:
    looked = poll()
    looked.register(connection, POLLIN)
    return not looked.poll(0) and not (isinstance(connection, ssl.SSLSocket) and connection.pending())


class _Reading:
    """One answer as it comes; the parser calls the methods that begin with `on_`."""

    def __init__(self, most_bytes: int) -> None:
        self.answer = Answer()
        self.done = False
        self.again = False
        self._most = most_bytes
        self._head_bytes = 0
        self._in_head = True
        self._filled = 0
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
        return memoryview(self.answer.body)[self._filled :]

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

    def on_header(self, name: bytes, value: bytes) -> None:
        self.answer.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head = False
        self.answer.status = self._parser.get_status_code()
        length = self.answer.headers.get("content-length", "")
        if length.isdecimal() and "transfer-encoding" not in self.answer.headers and self.answer.status >= 200:
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
