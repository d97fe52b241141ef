"""Single requests to one bucket over kept connections, at a tenth of the cost of botocore's way.

Only for what goes well: an answer that is not a plain success is left to botocore, which asks again in its own way and
knows redirects, regions, back-off and errors. Words: a `Wire` is all connections to one bucket; an exchange is one
request and its whole answer, in memory; an `Incoming` is an answer whose body is read as it comes.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from select import POLLIN, poll
from typing import TypeVar

import httptools

from workspace_sync.s3_store_payload import Body, Payload, pieces_of, sha256_of, size_of
from workspace_sync.s3_store_reading import Answer, Opening, Reading, WireBroken
from workspace_sync.s3_store_signature import Key, Signer, quoted_path, quoted_query
from workspace_sync.store import FileSource

RECEIVE_BYTES = 1 << 16
JOINED_BYTES = 1 << 16
"""A body up to this size goes out in one piece with its head."""
MAX_IDLE = 32
"""Connections kept while nothing is asked."""
IDLE_SECONDS = 15.0
"""Age at which a kept connection is not used again; servers close theirs after some time."""

EXCHANGE_SECONDS = 600.0
"""Longest time one exchange takes, however slowly it moves."""
SLOWEST = 100_000
"""Bytes a second: what comes slower than that, after the time of an exchange, is given up."""

AnyReading = TypeVar("AnyReading", bound=Reading)


@dataclass(frozen=True)
class Address:
    """Where a bucket is: host and port, TLS if any, and what its keys' paths begin with."""

    host: str
    port: int
    named: str
    tls: ssl.SSLContext | None
    path: str
    region: str


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
        body: Payload = b"",
        sha256: str = "",
        most_bytes: int = JOINED_BYTES,
        meanwhile: Callable[[], object] | None = None,
    ) -> Answer:
        """One request; the answer's body has at most so many bytes. Raises `WireBroken`, `TimeoutError`.

        `meanwhile` is done once all is sent, while the server works; twice, if it has to be sent twice.
        """
        request = self._request(method, key, headers, query=query, body=body, sha256=sha256)
        return self._read(*self._carry(lambda: Reading(most_bytes), request, body, meanwhile))

    def open(self, key: str, headers: Mapping[str, str], most_bytes: int = JOINED_BYTES) -> Incoming:
        """GET an object, its body as it comes; an answer that is none is read whole. Raises as `exchange`."""
        request = self._request("GET", key, headers)
        return self._incoming(*self._carry(lambda: Opening(most_bytes), request, b"", None))

    def ask(self, key: str, query: Mapping[str, str] | None = None) -> socket.socket:
        """GET; the answer comes on this connection, for `opened` (an object's) or `answered` to read it.

        Raises `WireBroken`, `TimeoutError`, both of them also when the server has just closed a kept connection.
        """
        request = self._request("GET", key, {}, query=query)
        connection = self._kept() or self._connected()
        with _ClosedOnErrors(connection):
            connection.sendall(request)
        return connection

    def opened(self, connection: socket.socket, most_bytes: int = JOINED_BYTES) -> Incoming:
        """The answer to what was asked, as of `open`; the connection is not the caller's any more. Raises as `ask`."""
        until = time.monotonic() + EXCHANGE_SECONDS
        return self._incoming(connection, _answered(connection, Opening(most_bytes), until))

    def answered(self, connection: socket.socket, most_bytes: int) -> Answer:
        """The answer to what was asked, read whole; the connection is not the caller's any more. Raises as `ask`."""
        until = time.monotonic() + EXCHANGE_SECONDS
        return self._read(connection, _answered(connection, Reading(most_bytes), until))

    def _read(self, connection: socket.socket, reading: Reading) -> Answer:
        self._keep(connection, again=reading.again)
        return reading.answer

    def _incoming(self, connection: socket.socket, opening: Opening) -> Incoming:
        if opening.left:
            keep = partial(self._keep, connection, again=opening.again)
            return Incoming(opening.answer, opening.begun, opening.left, connection, keep)
        self._keep(connection, again=opening.again)
        return Incoming(opening.answer, opening.answer.body, len(opening.answer.body), None, _nothing)

    def _request(
        self,
        method: str,
        key: str,
        headers: Mapping[str, str] | None,
        *,
        query: Mapping[str, str] | None = None,
        body: Payload = b"",
        sha256: str = "",
    ) -> bytes:
        path = quoted_path(self._address.path + key)
        asked = quoted_query(query) if query else ""
        digest = sha256 or sha256_of(body)
        signed = self._signer.sign(method, path, asked, headers or {}, key=self._key(), sha256=digest, now=time.time())
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        target = f"{path}?{asked}" if asked else path
        return f"{method} {target} HTTP/1.1\r\n{lines}content-length: {size_of(body)}\r\n\r\n".encode()

    def close(self) -> None:
        """Close what is idle; connections in use are closed when their exchange ends."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _carry(
        self, new: Callable[[], AnyReading], head: bytes, body: Payload, meanwhile: Callable[[], object] | None
    ) -> tuple[socket.socket, AnyReading]:
        connection = self._kept()
        if connection is not None:
            try:
                return connection, _exchanged(connection, new, head, body, meanwhile)
            except WireBroken:
                pass  # the server may have closed it meanwhile; all we ask may be asked twice
        connection = self._connected()
        return connection, _exchanged(connection, new, head, body, meanwhile)

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


class Incoming:
    """The body of an answer as it comes, `left` bytes of it; not for two threads at once.

    The connection is used again once all has come, and closed when it breaks off or is given up.
    """

    def __init__(
        self,
        answer: Answer,
        begun: bytearray,
        left: int,
        connection: socket.socket | None,
        keep: Callable[[], None],
    ) -> None:
        self.answer = answer
        self.left = left
        self._size = left
        self._begun = memoryview(begun)
        self._connection = connection
        self._keep = keep
        self._waited_seconds = 0.0

    def readinto(self, buffer: Body) -> int:
        """Some of what is left; 0 at the end. Raises `WireBroken`, `TimeoutError`."""
        if not self.left:
            return 0
        with memoryview(buffer)[: self.left] as view:
            taken = self._begun_into(view) or self._received_into(view)
        self.left -= taken
        if not self.left:
            self._keep()
            self._connection = None
        return taken

    def close(self) -> None:
        """Give up what is left."""
        self.left = 0
        if self._connection is not None:
            self._connection.close()

    def _begun_into(self, view: memoryview) -> int:
        taken = min(len(view), len(self._begun))
        view[:taken] = self._begun[:taken]
        self._begun = self._begun[taken:]
        return taken

    def _received_into(self, view: memoryview) -> int:
        if self._connection is None:
            raise WireBroken("an answer that has ended already")
        began = time.monotonic()
        try:
            taken = self._connection.recv_into(view)
            self._waited_seconds += time.monotonic() - began
            if not taken:
                raise WireBroken("the connection ended inside an answer")
            if self._waited_seconds > EXCHANGE_SECONDS + (self._size - self.left) / SLOWEST:
                raise TimeoutError("an answer that takes too long")
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and not isinstance(error, TimeoutError):
                raise WireBroken(type(error).__name__) from error
            raise
        return taken


def _nothing() -> None:
    """What is left to do for an answer that has been read."""


def _exchanged(
    connection: socket.socket,
    new: Callable[[], AnyReading],
    head: bytes,
    body: Payload,
    meanwhile: Callable[[], object] | None,
) -> AnyReading:
    until = time.monotonic() + EXCHANGE_SECONDS
    with _ClosedOnErrors(connection):
        _send(connection, head, body, until)
        if meanwhile is not None:
            meanwhile()
    return _answered(connection, new(), until)


def _answered(connection: socket.socket, reading: AnyReading, until: float) -> AnyReading:
    """Read until the reading is done."""
    try:
        with _ClosedOnErrors(connection):
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
    finally:
        reading.end()
    return reading


class _ClosedOnErrors:
    """Closes the connection when an exchange fails, which is told by `WireBroken` or `TimeoutError`."""

    __slots__ = ("_connection",)

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            return
        self._connection.close()
        if isinstance(error, OSError | httptools.HttpParserError) and not isinstance(error, TimeoutError):
            raise WireBroken(type(error).__name__) from error


def _send(connection: socket.socket, head: bytes, body: Payload, until: float) -> None:
    if not isinstance(body, FileSource) and len(body) <= JOINED_BYTES:
        connection.sendall(head + bytes(body))
        return
    connection.sendall(head)
    for piece in pieces_of(body):
        _check_time(until)
        connection.sendall(piece)


def _check_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("an exchange that takes too long")


def _is_silent(connection: socket.socket) -> bool:
    looked = poll()
    looked.register(connection, POLLIN)
    return not looked.poll(0) and not (isinstance(connection, ssl.SSLSocket) and connection.pending())
