"""Small objects to and from one bucket over kept connections, at a tenth of the cost of botocore's way.

Only for what goes well: an answer that is not a plain success is left to botocore, which asks again in its own way and
knows redirects, regions, back-off and errors. Large objects go through botocore alone. A `Wire` is all
connections to one bucket; an exchange is one request and its whole answer, in memory.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import unescape
from select import POLLIN, poll
from urllib.parse import quote

import httptools
import msgspec

# One answer of an S3 server as its bytes come (no I/O).

HEAD_BYTES = 64 * 1024
"""Headers of one answer, all together."""
BODY_BYTES = 1 << 20
"""The body of one answer: what is asked for of an object."""


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
        """The object's ETag without its quotes; empty when there is none."""
        return self.headers.get("etag", "").strip('"')


class Reading:
    """One answer as it comes; the parser calls the methods that begin with `on_`."""

    def __init__(self) -> None:
        self.answer = Answer()
        self.done = False
        self.again = False
        """Whether the connection can be used for another request."""
        self._head_bytes = 0
        self._in_head = True
        self._head: dict[bytes, bytes] = {}
        self.on_header = self._head.__setitem__  # called so often that its cost counts
        self._parser = httptools.HttpResponseParser(self)

    def take(self, piece: bytes) -> None:
        """What came. Raises `httptools.HttpParserError`, `WireBroken`."""
        if self._in_head:
            self._head_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserCallbackError as error:
            raise WireBroken("an answer that is too long, or none to what was asked") from error
        if self._in_head and self._head_bytes > HEAD_BYTES:
            raise WireBroken("headers that are too long")

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

    def on_body(self, piece: bytes) -> None:
        if len(self.answer.body) + len(piece) > BODY_BYTES:
            raise WireBroken("an answer that is too long")
        self.answer.body += piece

    def on_message_complete(self) -> None:
        if self.answer.status >= 200:  # an interim answer is none
            self.done = True
            self.again = self._parser.should_keep_alive()
        else:
            self._in_head = True
            self.answer = Answer()


# Signature Version 4 of requests to one bucket (pure, but for the clock it is given).
#
# Only what a `Wire` sends: headers of this package's own, no query, a body whose SHA-256 is known.
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
        self, method: str, path: str, headers: Mapping[str, str], *, key: Key, sha256: str, now: float
    ) -> dict[str, str]:
        """All headers of the request, signed. `path` is as sent; header names are lower case."""
        moment = self._format_time(int(now))
        signed = {"host": self._host, **headers, "x-amz-content-sha256": sha256, "x-amz-date": moment}
        if key.token:
            signed["x-amz-security-token"] = key.token
        in_order = sorted(signed)
        names = ";".join(in_order)
        lines = "".join([f"{name}:{signed[name]}\n" for name in in_order])
        request = f"{method}\n{path}\n\n{lines}\n{names}\n{sha256}"
        scope = f"{moment[:8]}/{self._region}/s3/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._derive_key(key.secret, moment[:8]), text.encode(), "sha256").hex()
        signed["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return signed

    def _format_time(self, now: int) -> str:
        known, moment = self._moment
        if known != now:
            moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
            self._moment = (now, moment)
        return moment

    def _derive_key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, derived = self._derived
        if (known_secret, known_day) != (secret, day):
            derived = f"AWS4{secret}".encode()
            for part in (day, self._region, "s3", "aws4_request"):
                derived = hmac.digest(derived, part.encode(), "sha256")
            self._derived = (secret, day, derived)
        return derived


def quote_path(path: str) -> str:
    """A path as it is sent and signed."""
    return quote(path, safe="/-_.~")


RECEIVE_BYTES = 1 << 16
JOINED_BYTES = 1 << 16
"""A body up to this size goes out in one piece with its head."""
PIECE_BYTES = 1 << 18
"""Of a larger body at a time: each has the time that an answer has, however long the whole takes on a slow link."""
MAX_IDLE = 64
"""Connections kept while nothing is asked."""
IDLE_SECONDS = 15.0
"""Age at which a kept connection is not used again; servers close theirs after some time."""

EXCHANGE_SECONDS = 600.0
"""Longest time one exchange takes, however slowly it moves."""
_COPIED_ETAG = re.compile(rb"<CopyObjectResult.*<ETag>([^<]+)</ETag>", re.DOTALL)
_NOTHING = memoryview(b"")
_NOTHING_SHA256 = hashlib.sha256().hexdigest()


class Address(msgspec.Struct, frozen=True):
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

    def put(self, key: str, body: memoryview, sha256: str) -> Answer:
        """PUT an object. Raises `WireBroken`, `TimeoutError`, both also when the server closed a kept connection."""
        return self.receive(self._send("PUT", key, {}, body, sha256))

    def copy(self, source: str, key: str) -> Answer:
        """Have the server copy an object, `source` with its bucket. Raises as `put`.

        Its ETag is in the body, and is missing in one that tells of a failure, which begins as that of a success.
        """
        headers = {"x-amz-copy-source": quote_path(source)}
        answer = self.receive(self._send("PUT", key, headers, _NOTHING, _NOTHING_SHA256))
        found = _COPIED_ETAG.search(answer.body)
        if found is not None:
            answer.headers["etag"] = unescape(found[1].decode("latin-1"))
        return answer

    def ask(self, key: str) -> socket.socket:
        """GET an object's first `BODY_BYTES`; the answer comes on this connection, for `receive`. Raises as `put`."""
        return self._send("GET", key, {"range": f"bytes=0-{BODY_BYTES - 1}"}, _NOTHING, _NOTHING_SHA256)

    def receive(self, connection: socket.socket) -> Answer:
        """The answer to what was sent; the connection is not the caller's any more. Raises as `put`."""
        reading, until = Reading(), time.monotonic() + EXCHANGE_SECONDS
        try:
            with _ClosedOnErrors(connection):
                while not reading.done:
                    _check_time(until)
                    piece = connection.recv(RECEIVE_BYTES)
                    if not piece:
                        raise WireBroken("the connection ended inside an answer")
                    reading.take(piece)
        finally:
            reading.end()
        self._keep(connection, again=reading.again)
        return reading.answer

    def _send(self, method: str, key: str, headers: Mapping[str, str], body: memoryview, sha256: str) -> socket.socket:
        path = quote_path(self._address.path + key)
        signed = self._signer.sign(method, path, headers, key=self._key(), sha256=sha256, now=time.time())
        lines = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
        head = f"{method} {path} HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode()
        connection = self._find_kept() or self._connect()
        until = time.monotonic() + EXCHANGE_SECONDS
        with _ClosedOnErrors(connection):
            if len(body) <= JOINED_BYTES:
                connection.sendall(head + bytes(body))
                return connection
            connection.sendall(head)
            # All of it at once would have to be through within one timeout: that of `sendall` counts for the whole.
            for start in range(0, len(body), PIECE_BYTES):
                _check_time(until)
                connection.sendall(body[start : start + PIECE_BYTES])
        return connection

    def close(self) -> None:
        """Close what is idle; connections in use are closed when their exchange ends."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _find_kept(self) -> socket.socket | None:
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

    def _connect(self) -> socket.socket:
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


class _ClosedOnErrors:
    """Closes the connection when an exchange fails, and raises `WireBroken` or `TimeoutError`."""

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


def _check_time(until: float) -> None:
    if time.monotonic() > until:
        raise TimeoutError("an exchange that takes too long")


def _is_silent(connection: socket.socket) -> bool:
    looked = poll()
    looked.register(connection, POLLIN)
    return not looked.poll(0) and not (isinstance(connection, ssl.SSLSocket) and connection.pending())
