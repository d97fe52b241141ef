"""Answers on the wire: JSON, documents, downloads, server-sent events, and errors of every origin in one shape.

What is sent piece by piece waits for the client to take it, and not for ever. Once its headers are out an answer can
only be cut off: the connection is closed, and the client sees that something is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import structlog
import tornado.web

from kernel_gateway.errors import FileChanged, GatewayError
from kernel_gateway.faces import answering
from kernel_gateway.faces.errors import MethodNotAllowed
from kernel_gateway.faces.receiving import ours
from kernel_gateway.faces.rest import bodies, sse
from kernel_gateway.faces.rest.calls import EVENTS, OCTETS, Accepted, Bare, Document, Download, Following, Piece

log = structlog.get_logger(__name__)

HEARTBEAT_SECONDS = 15.0


async def send(handler: Any, answer: Any) -> None:
    """Send what an endpoint answered with."""
    match answer:
        case None:
            handler.set_status(204)
            handler.clear_header("Content-Type")
            handler.finish()
        case Accepted(value):
            handler.set_status(202)
            handler.finish(bodies.encode(value))
        case Document(content, media_type, headers):
            handler.set_header("Content-Type", media_type)
            for name, value in headers.items():
                handler.set_header(name, value)
            handler.finish(content)
        case Bare(status, headers):
            handler.set_status(status)
            handler.clear_header("Content-Type")
            for name, value in headers.items():
                handler.set_header(name, value)
            handler.finish()
        case Download():
            await _send_download(handler, answer)
        case Piece():
            await _send_piece(handler, answer)
        case Following(events):
            await _send_events(handler, events)
        case _:
            handler.set_status(handler.route.status)
            handler.finish(bodies.encode(answer))


async def _send_download(handler: Any, download: Download) -> None:
    """A file, never as something a browser would run; a file that shrinks meanwhile is an answer cut off."""
    handler.set_status(download.status)
    handler.set_header("Content-Type", download.media_type)
    handler.set_header("Content-Disposition", disposition(download.name))
    for name, value in download.headers.items():
        handler.set_header(name, value)
    if download.size is None:
        await _send_all(handler, download.chunks)
        return
    handler.set_header("Content-Length", str(download.size))
    await _send_bytes(handler, download.chunks, download.size)


async def _send_piece(handler: Any, piece: Piece) -> None:
    """A part of an output, or all of it; a browser that shows it runs nothing of it."""
    handler.set_header("Content-Type", piece.media_type)
    handler.set_header("Content-Length", str(piece.end - piece.start))
    handler.set_header("Content-Security-Policy", "sandbox; default-src 'none'")
    handler.set_header("Accept-Ranges", "bytes")
    handler.set_header("Etag", f'"{piece.tag}"')
    if piece.media_type == OCTETS:
        handler.set_header("Content-Disposition", disposition(piece.name))
    if piece.end - piece.start < piece.size:
        handler.set_status(206)
        handler.set_header("Content-Range", f"bytes {piece.start}-{piece.end - 1}/{piece.size}")
    await _send_bytes(handler, piece.chunks, piece.end - piece.start)


async def _send_bytes(handler: Any, chunks: AsyncIterator[bytes], size: int) -> None:
    left = size
    try:
        while left > 0 and (chunk := await anext(chunks, None)) is not None:
            piece = chunk[:left]
            left -= len(piece)
            await handler.push(piece)
    finally:
        await _close(chunks)
    if left:
        raise FileChanged(f"the file changed while it was read: {left} bytes are missing")
    handler.finish()


async def _send_all(handler: Any, chunks: AsyncIterator[bytes]) -> None:
    try:
        async for chunk in chunks:
            await handler.push(chunk)
    finally:
        await _close(chunks)
    handler.finish()


async def _send_events(handler: Any, events: AsyncIterator[Any]) -> None:
    """Events as they come, and a comment now and then so that both ends notice a dead connection."""
    handler.set_header("Content-Type", EVENTS)
    handler.set_header("X-Accel-Buffering", "no")
    upcoming = asyncio.ensure_future(anext(events, None))
    try:
        await handler.push(b"")
        while True:
            done, _ = await asyncio.wait({upcoming}, timeout=HEARTBEAT_SECONDS)
            if not done:
                await handler.push(sse.HEARTBEAT)
                continue
            if (event := upcoming.result()) is None:
                break
            await handler.push(sse.frame(event))
            upcoming = asyncio.ensure_future(anext(events, None))
    finally:
        upcoming.cancel()
        await asyncio.wait({upcoming})
        await _close(events)
    handler.finish()


async def _close(iterator: AsyncIterator[Any]) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()


def disposition(path: str) -> str:
    """`Content-Disposition` for a file: its last name, any bytes, as RFC 6266 wants it."""
    name = path.rsplit("/", 1)[-1].encode("utf-8", "surrogateescape")
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def fail(handler: Any, error: Exception) -> None:
    """Answer with an error, or cut the answer off when it has begun."""
    if not handler._headers_written:
        handler.clear()
        write_error(handler, ours(error, handler.request_id))
        handler.finish()
        return
    handler.cut_off = type(error).__name__
    if not handler.gone:
        log.warning("answer_cut_off", path=handler.request.path, error=type(error).__name__)
        handler.request.connection.stream.close()


def write_error(handler: Any, error: GatewayError) -> None:
    """Status, headers and body of an error; the caller sends them."""
    answering.write_error(handler, error, bodies.encode(error.body()))


def write_tornado_error(handler: Any, status: int, exc_info: Any, allowed: list[str]) -> None:
    """An error that tornado raised itself, in our shape."""
    if status == 405 and allowed:
        found: GatewayError = MethodNotAllowed(str(handler.request.method)[:32], allowed)
    else:
        found = answering.of_tornado(handler, status, exc_info)
    write_error(handler, found)
    handler.finish()


def log_request(handler: tornado.web.RequestHandler) -> None:
    """The access log, one line a request: no query, no header, no body."""
    request, status = handler.request, handler.get_status()
    principal = getattr(getattr(handler, "call", None), "principal", None)
    level = log.debug if request.path in ("/healthz", "/readyz") else log.info
    level(
        "request",
        method=request.method,
        path=request.path,
        status=status,
        milliseconds=round(1000 * request.request_time(), 2),
        principal=principal.name if principal and principal.name else None,
    )
