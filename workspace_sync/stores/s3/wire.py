"""Single requests to one bucket over kept connections, at a tenth of the cost of botocore's way.

Only for what goes well: an answer that is not a plain success is left to botocore, which asks again in its own way and
knows redirects, regions, back-off and errors. Words: a `Wire` is all connections to one bucket; an exchange is one
request and its whole answer, in memory; an `Incoming` is an answer whose body is read as it comes.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from select import POLLIN, poll
from typing import TypeVar
from urllib.parse import quote

import httptools

from workspace_sync.store import FileSource
from workspace_sync.stores.s3.payload import Body, Payload, pieces_of, sha256_of, size_of

# One answer of an S3 server as its bytes come (no I/O): all of it in memory, or its head and the way to its body.

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


# Signature Version 4 of requests to one bucket (pure, but for the clock it is given).
#
# Only what `wire` sends: headers of this package's own, a query of plain names, a body whose SHA-256 is known.
# Source of the form: Amazon S3 API Reference, "Authenticating Requests (AWS Signature Version 4)".


@dataclass(frozen=True, slots=True)
class Key:
    """An access key: its id, its secret, and the token that temporary ones come with."""

    id: str
    secret: str
    token: str | None = None


class Signer:
    """Signs for one host and region; keeps the key of the day and what the second is called."""

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._derived: tuple[str, str, bytes] = ("", "", b"")
        self._moment: tuple[int, str] = (0, "")

    def sign(
        self, method: str, path: str, query: str, headers: Mapping[str, str], *, key: Key, sha256: str, now: float
    ) -> dict[str, str]:
        """All headers of the request, signed. `path` and `query` are as sent; header names are lower case."""
        moment = self._moment_of(int(now))
        signed = {"host": self._host, **headers, "x-amz-content-sha256": sha256, "x-amz-date": moment}
        if key.token:
            signed["x-amz-security-token"] = key.token
        in_order = sorted(signed)
        names = ";".join(in_order)
        lines = "".join([f"{name}:{signed[name]}\n" for name in in_order])
        request = f"{method}\n{path}\n{query}\n{lines}\n{names}\n{sha256}"
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._of_day(key.secret, moment[:8]), text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return signed

    def _moment_of(self, now: int) -> str:
        known, moment = self._moment
        if known != now:
            moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
            self._moment = (now, moment)
        return moment

    def _of_day(self, secret: str, day: str) -> bytes:
        known_secret, known_day, derived = self._derived
        if (known_secret, known_day) != (secret, day):
            derived = f"AWS4{secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                derived = hmac.digest(derived, part.encode(), "sha256")
            self._derived = (secret, day, derived)
        return derived


def quoted_path(path: str) -> str:
    """A path as it is sent and signed."""
    return quote(path, safe="/-_.~")


def quoted_query(query: Mapping[str, str]) -> str:
    """A query as it is sent and signed."""
    return "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))


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

    def ask(self, key: str) -> socket.socket:
        """GET an object; the answer comes on this connection, for `opened` to read it.

        Raises `WireBroken`, `TimeoutError`, both of them also when the server has just closed a kept connection.
        """
        request = self._request("GET", key, {})
        connection = self._kept() or self._connected()
        with _ClosedOnErrors(connection):
            connection.sendall(request)
        return connection

    def opened(self, connection: socket.socket, most_bytes: int = JOINED_BYTES) -> Incoming:
        """The answer to what was asked, as of `open`; the connection is not the caller's any more. Raises as `ask`."""
        until = time.monotonic() + EXCHANGE_SECONDS
        return self._incoming(connection, _answered(connection, Opening(most_bytes), until))

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
