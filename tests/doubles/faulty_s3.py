"""An HTTP proxy in front of a real S3 server: every request is known by its operation, and can be made to fail.

`fail` says what happens to which operations and how often, `deny` takes permissions away as a policy does, `heal` ends
it all. Bodies pass in pieces. Ways to fail: `Refusal` (a status and a code), `Reset` (before or after the server did
it), `Torn` (a short answer), `Stall` (no answer), `Slow` (late and in drops), `Damaged` (other bytes arrive).
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PIECE_BYTES = 1 << 16
STALL_SECONDS = 120.0


@dataclass(frozen=True)
class Refusal:
    """Answered by the proxy; the server never sees the request. `body` in place of S3's XML, when given."""

    status: int
    code: str
    message: str = "as the test wants it"
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Reset:
    """The connection is reset: before the server sees the request, or once it has done it (`after`)."""

    after: bool = False


@dataclass(frozen=True)
class Torn:
    """The answer's head is whole, of its body come `passed` bytes and the end of the connection."""

    passed: int = 100


@dataclass(frozen=True)
class Stall:
    """Nothing is answered until `heal`, `drop` or `close`."""


@dataclass(frozen=True)
class Slow:
    """The answer waits, then its body comes in pieces with a pause before each."""

    before_seconds: float = 0.0
    pause_seconds: float = 0.0
    piece_bytes: int = PIECE_BYTES


@dataclass(frozen=True)
class Damaged:
    """The last byte of each piece of the request's body arrives as another one."""


Fault = Refusal | Reset | Torn | Stall | Slow | Damaged


@dataclass(frozen=True)
class Request:
    """What came: S3's name of the operation (`PutObject`, `UploadPart` ...), the key, the query, the headers."""

    operation: str
    key: str
    query: dict[str, list[str]]
    headers: dict[str, str]


@dataclass
class _Rule:
    applies: Callable[[Request], bool]
    fault: Fault
    times: int = 1 << 60
    skip: int = 0


PERMISSION = {
    "PutObject": "s3:PutObject", "UploadPart": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject",
    "CompleteMultipartUpload": "s3:PutObject", "CopyObject": "s3:PutObject", "UploadPartCopy": "s3:PutObject",
    "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject", "DeleteObject": "s3:DeleteObject",
    "DeleteObjects": "s3:DeleteObject", "ListObjectsV2": "s3:ListBucket", "ListObjects": "s3:ListBucket",
    "HeadBucket": "s3:ListBucket", "AbortMultipartUpload": "s3:AbortMultipartUpload",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads", "ListParts": "s3:ListMultipartUploadParts",
    "GetBucketVersioning": "s3:GetBucketVersioning", "GetBucketLocation": "s3:GetBucketLocation",
}  # fmt: skip
"""What Amazon asks of a caller for each operation."""


class FaultyS3:
    """`endpoint` is the proxy's address; `requests` are the operations that came, in order."""

    def __init__(self, endpoint: str, *, one_write_at_a_time: bool = False, address: str = "127.0.0.1") -> None:
        parts = urlsplit(endpoint)
        self.writing = threading.Lock() if one_write_at_a_time else None
        self.server = (parts.hostname or "", parts.port or 0)
        self.requests: list[Request] = []
        self.denied: set[str] = set()
        self.done: Callable[[Request], None] = lambda _: None
        """Called once the server has carried a request out, before it is answered."""
        self.healed = threading.Event()
        self.guard = threading.Lock()
        self.sockets: set[socket.socket] = set()
        self._rules: list[_Rule] = []
        self._listener = _Listener(self, address)
        self.endpoint = f"http://{address}:{self._listener.server_address[1]}"
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="faulty s3")
        self._thread.start()

    def __enter__(self) -> FaultyS3:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def fail(
        self,
        fault: Fault,
        *operations: str,
        times: int = 1 << 60,
        skip: int = 0,
        key: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Let these operations (all, when none is named) fail `times` times, after `skip` that pass."""

        def applies(request: Request) -> bool:
            return (not operations or request.operation in operations) and key(request.key)

        with self.guard:
            self._rules.append(_Rule(applies, fault, times, skip))

    def away(self) -> None:
        """Every connection is reset, those there are too."""
        self.fail(Reset())
        self.drop()

    def deny(self, *permissions: str) -> None:
        """Take permissions (`s3:PutObject` ...) away, as a policy does."""
        self.denied |= set(permissions)

    def heal(self) -> None:
        """Nothing fails any more; what stalled ends."""
        with self.guard:
            self._rules.clear()
        self.denied.clear()
        self._let_go()

    def drop(self) -> None:
        """Cut every connection there is."""
        self._let_go()
        with self.guard:
            for one in self.sockets:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def operations(self) -> list[str]:
        """The names of what came."""
        return [each.operation for each in self.requests]

    def close(self) -> None:
        self._listener.shutdown()
        self._thread.join(120)
        self.heal()
        self.drop()
        self._listener.server_close()

    def fault_of(self, request: Request) -> Fault | None:
        """Note the request, and say what happens to it."""
        wanted = PERMISSION.get(request.operation)
        with self.guard:
            self.requests.append(request)
            if wanted in self.denied and request.operation != "DeleteObjects":
                return Refusal(403, "AccessDenied", f"not authorized to perform: {wanted}")
            for rule in self._rules:
                if rule.times and rule.applies(request):
                    if rule.skip:
                        rule.skip -= 1
                        continue
                    rule.times -= 1
                    return rule.fault
        return None

    def _let_go(self) -> None:
        with self.guard:
            self.healed.set()
            self.healed = threading.Event()


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, proxy: FaultyS3, address: str) -> None:
        self.proxy = proxy
        super().__init__((address, 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what faults are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.proxy = self.server.proxy
        with self.proxy.guard:
            self.proxy.sockets.add(self.connection)
        self.behind = http.client.HTTPConnection(*self.proxy.server, timeout=STALL_SECONDS)

    def finish(self) -> None:
        with self.proxy.guard:
            self.proxy.sockets.discard(self.connection)
        self.behind.close()
        with contextlib.suppress(OSError):
            super().finish()

    def do(self) -> None:
        try:
            self._serve()
        except (OSError, http.client.HTTPException):
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do  # noqa: N815

    def _serve(self) -> None:
        request = _request(self.command, self.path, dict(self.headers.items()))
        body = _Body(self)
        fault = self.proxy.fault_of(request)
        if isinstance(fault, Refusal):
            body.drain()
            self._refuse(fault)
        elif isinstance(fault, Stall):
            self.proxy.healed.wait(STALL_SECONDS)
            self._reset()
        elif fault == Reset():
            self._reset()
        elif request.operation == "DeleteObjects" and "s3:DeleteObject" in self.proxy.denied:
            self._refuse_each(body)
        elif self.proxy.writing is None or self.command in ("GET", "HEAD"):
            self._pass(request, body, fault)
        else:
            with self.proxy.writing:
                self._pass(request, body, fault)

    def _refuse(self, refusal: Refusal) -> None:
        text = f"<?xml version='1.0'?><Error><Code>{refusal.code}</Code><Message>{refusal.message}</Message></Error>"
        self._answer(refusal.status, text.encode() if refusal.body is None else refusal.body, refusal.headers)

    def _refuse_each(self, body: _Body) -> None:
        """As Amazon does: 200, and an error for each key."""
        keys = re.findall(r"<Key>(.*?)</Key>", b"".join(body.raw()).decode())
        errors = "".join(f"<Error><Key>{key}</Key><Code>AccessDenied</Code></Error>" for key in keys)
        self._answer(200, f"<?xml version='1.0'?><DeleteResult>{errors}</DeleteResult>".encode())

    def _answer(self, status: int, content: bytes, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", "application/xml"), *headers, ("Content-Length", str(len(content)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _reset(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _pass(self, request: Request, body: _Body, fault: Fault | None) -> None:
        self.behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("expect", "connection"):
                self.behind.putheader(name, value)
        self.behind.endheaders()
        for piece in body.raw():
            self.behind.send(piece[:-1] + bytes([piece[-1] ^ 1]) if isinstance(fault, Damaged) else piece)
        answer = self.behind.getresponse()
        self.proxy.done(request)
        if fault == Reset(after=True):
            answer.read()
            self._reset()
        elif answer.status == 404 and request.key and "s3:ListBucket" in self.proxy.denied:
            answer.read()  # who may not list is not told what is absent
            self._refuse(Refusal(403, "AccessDenied", "not authorized to perform: s3:ListBucket"))
        else:
            self._relay(answer, fault)

    def _relay(self, answer: http.client.HTTPResponse, fault: Fault | None) -> None:
        slow = fault if isinstance(fault, Slow) else Slow()
        if slow.before_seconds:
            self.proxy.healed.wait(slow.before_seconds)
        in_chunks = answer.chunked  # as Ceph answers a copy
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        if in_chunks:
            self.send_header("Transfer-Encoding", "chunked")
        elif answer.getheader("Content-Length") is None and self.command != "HEAD":
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        left = fault.passed if isinstance(fault, Torn) else 1 << 60
        while left and (piece := answer.read(min(left, slow.piece_bytes))):
            if slow.pause_seconds:
                self.proxy.healed.wait(slow.pause_seconds)
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if in_chunks else piece)
            left -= len(piece)
        if left and in_chunks:
            self.wfile.write(b"0\r\n\r\n")
        if not left:
            self.close_connection = True
            self.behind.close()

    def log_message(self, format: str, *values: Any) -> None:  # noqa: A002 - the name of the method it replaces
        """Nobody reads it."""


class _Body:
    """A request's body, of a known length or in chunks; read once."""

    def __init__(self, handler: _Handler) -> None:
        self.source = handler.rfile
        self.chunked = "chunked" in handler.headers.get("Transfer-Encoding", "")
        self.left = int(handler.headers.get("Content-Length", 0))

    def raw(self) -> Iterator[bytes]:
        """The bytes as they came, chunk marks too."""
        source = self.source
        while not self.chunked and self.left:
            piece = source.read1(min(self.left, PIECE_BYTES))
            if not piece:
                raise ConnectionError("the client went away")
            self.left -= len(piece)
            yield piece
        while self.chunked:
            mark = source.readline(PIECE_BYTES)
            size = int(mark.split(b";")[0], 16)
            yield mark + source.read(size) + source.readline(PIECE_BYTES)
            self.chunked = size > 0

    def drain(self) -> None:
        for _ in self.raw():
            pass


def _request(method: str, target: str, headers: dict[str, str]) -> Request:
    parts = urlsplit(target)
    query = parse_qs(parts.query, keep_blank_values=True)
    _, _, key = unquote(parts.path).lstrip("/").partition("/")
    small = {name.lower(): value for name, value in headers.items()}
    return Request(_operation(method, key, query, "x-amz-copy-source" in small), key, query, small)


def _operation(method: str, key: str, query: dict[str, list[str]], copies: bool) -> str:
    if not key:
        return _of_bucket(method, query)
    if "uploadId" in query:
        part = "UploadPartCopy" if copies else "UploadPart"
        names = {"PUT": part, "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload", "GET": "ListParts"}
    else:
        names = {
            "PUT": "CopyObject" if copies else "PutObject", "GET": "GetObject", "HEAD": "HeadObject",
            "DELETE": "DeleteObject", "POST": "CreateMultipartUpload",
        }  # fmt: skip
    return names.get(method, method)


def _of_bucket(method: str, query: dict[str, list[str]]) -> str:
    if method == "GET":
        named = {
            "uploads": "ListMultipartUploads",
            "versioning": "GetBucketVersioning",
            "location": "GetBucketLocation",
        }
        found = [name for mark, name in named.items() if mark in query]
        return found[0] if found else "ListObjectsV2" if "list-type" in query else "ListObjects"
    return {"HEAD": "HeadBucket", "PUT": "CreateBucket", "POST": "DeleteObjects"}.get(method, method)
