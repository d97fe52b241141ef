"""What the two drivers share of httpx: options, how a step becomes a request, how an answer comes back."""

from __future__ import annotations

import asyncio
import hashlib
import io
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO, Any

import httpx
import msgspec

from sandcell.errors import ConnectionFailed
from sandcell.steps import Answer, Ask, Digest, Piece, Read

CONNECT_SECONDS = 10.0
CHUNK = 262_144
EVENTS_SILENCE_SECONDS = 45.0
"""The service sends a heartbeat every 15 s; a stream this silent is dead."""
KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
        if hasattr(socket, name)
    ),
]
"""The kernel notices a dead peer within a minute, also in the middle of a long wait."""
FAILURES = (httpx.TransportError, httpx.StreamError)


def make_verification(url: str) -> ssl.SSLContext | bool:
    """How httpx is to verify the server: without TLS it reads no list of authorities, which takes it 20 ms."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.lower().startswith("http:") else True


def make_headers(token: str) -> dict[str, str]:
    """The headers of every request."""
    return {"Authorization": f"Bearer {token}", "Accept": "*/*"} if token else {"Accept": "*/*"}


def timeout(seconds: float) -> httpx.Timeout:
    """Connecting is quick or fails; the answer may take `seconds`."""
    return httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))


def make_arguments(ask: Ask) -> dict[str, Any]:
    """httpx's keyword arguments for a step, but for content that is sent in pieces."""
    sent = dict(ask.headers)
    content: bytes | None = None
    if ask.json is not None:
        content = msgspec.json.encode(ask.json)
        sent["Content-Type"] = "application/json"
    elif ask.content is not None:
        sent["Content-Type"] = "application/octet-stream"
        if is_in_pieces(ask):
            sent["Content-Length"] = str(_size(ask.content))
        elif isinstance(ask.content, bytes):
            content = ask.content
    return {"headers": sent, "content": content, "timeout": timeout(ask.timeout_seconds)}


def read_answer(response: httpx.Response) -> Answer:
    """A response that was read whole."""
    return Answer(response.status_code, response.content)


def lost_answer(url: str, error: Exception) -> Answer:
    """No response: why not, in words."""
    return Answer(lost=explain_failure(url, error))


def explain_failure(url: str, error: Exception) -> str:
    """What went wrong between us and the service."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"cannot reach {url}: {error or 'no answer'}"
    if isinstance(error, httpx.TimeoutException):
        return f"{url} did not answer in time"
    return f"the connection to {url} was lost: {error or type(error).__name__}"


def stream_error(url: str, error: Exception) -> ConnectionFailed:
    """The exception for a stream that could not be had or broke."""
    return ConnectionFailed(explain_failure(url, error), code="connection_failed", retryable=True)


def is_in_pieces(ask: Ask) -> bool:
    """Whether the content is sent piece by piece: a file's, or one whose progress is followed."""
    return isinstance(ask.content, Path | Piece) or (ask.content is not None and ask.on_progress is not None)


def read_pieces(ask: Ask) -> Iterator[bytes]:
    """The content, piece by piece."""
    content = ask.content or b""
    sent, size = 0, _size(content)
    with _open(content) as stream:
        while piece := stream.read(min(CHUNK, size - sent)):
            yield piece
            sent += len(piece)
            _report(ask, sent, size)


async def read_pieces_async(ask: Ask) -> AsyncIterator[bytes]:
    """As `read_pieces`, in a worker thread, so that a slow disk does not hold up the event loop."""
    content = ask.content or b""
    sent, size = 0, _size(content)
    stream = await asyncio.to_thread(_open, content)
    try:
        while piece := await asyncio.to_thread(stream.read, min(CHUNK, size - sent)):
            yield piece
            sent += len(piece)
            _report(ask, sent, size)
    finally:
        stream.close()


def read_local(step: Digest | Read) -> Answer:
    """What is asked for of local content."""
    if isinstance(step, Read):
        return Answer(content=_read_full(step.stream, step.size))
    with _open(step.content) as stream:
        return Answer(content=hashlib.file_digest(stream, "sha256").hexdigest().encode())  # type: ignore[arg-type]


def _read_full(stream: IO[bytes], size: int) -> bytes:
    """As many bytes as there are: a pipe gives fewer at a time."""
    pieces = bytearray()
    while len(pieces) < size and (piece := stream.read(size - len(pieces))):
        pieces += piece
    return bytes(pieces)


def _open(content: bytes | Path | Piece) -> IO[bytes]:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    if isinstance(content, Path):
        return content.open("rb")
    stream = content.path.open("rb")
    stream.seek(content.start)
    return stream


def _size(content: bytes | Path | Piece) -> int:
    if isinstance(content, Piece):
        return content.size
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _report(ask: Ask, done: int, size: int | None) -> None:
    if ask.on_progress is not None:
        ask.on_progress(done, size)
