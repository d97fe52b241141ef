"""The answers of the REST face that are more than JSON: documents, downloads, parts of outputs, event streams. Pure."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote

import msgspec

from kernel_gateway.faces.json_bodies import encode
from kernel_gateway.faces.responses import Response, Stream
from kernel_gateway.faces.rest import sse
from sandcell.models.executions import Event

OCTETS = "application/octet-stream"
NOTEBOOK = "application/x-ipynb+json"
HTML = "text/html; charset=utf-8"
PYTHON = "text/x-python; charset=utf-8"
EVENTS = "text/event-stream"
ZIP = "application/zip"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
NO_HEADERS: Mapping[str, str] = {}


def answer_accepted(value: msgspec.Struct) -> Response:
    """A value with 202: the work goes on."""
    return Response(value, 202)


def answer_document(content: bytes, media_type: str, headers: Mapping[str, str] = NO_HEADERS) -> Response:
    """Bytes at hand, with their media type and what else a browser needs to know about them."""
    return Response(content, headers={"Content-Type": media_type, **headers})


def answer_dry_run(value: msgspec.Struct) -> Response:
    """What would be done, of a route that answers with nothing when it is done."""
    return Response(encode(value), 200)


def answer_head(status: int, headers: Mapping[str, str]) -> Response:
    """A status and headers without a body: what HEAD asks for, and 304."""
    return Response(None, status, headers)


def answer_download(
    chunks: AsyncIterator[bytes],
    size: int | None,
    name: str,
    media_type: str = OCTETS,
    *,
    status: int = 200,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Response:
    """A file, never as something that a browser would run; `name` is what it would save the file as."""
    fixed = {"Content-Type": media_type, "Content-Disposition": make_disposition(name)}
    return Response(Stream(chunks, size), status, {**fixed, **headers})


def answer_output(
    chunks: AsyncIterator[bytes], start: int, end: int, size: int, *, tag: str, media_type: str
) -> Response:
    """Bytes `start` up to `end` of an output that never changes: `tag` names the whole of it.

    A browser that shows it runs nothing of it.
    """
    headers = {
        "Content-Type": media_type,
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "Accept-Ranges": "bytes",
        "Etag": f'"{tag}"',
    }
    if media_type == OCTETS:
        headers["Content-Disposition"] = make_disposition(tag)
    partial = end - start < size
    if partial:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return Response(Stream(chunks, end - start), 206 if partial else 200, headers)


def answer_events(events: AsyncIterator[Event]) -> Response:
    """Server-sent events until the iterator ends; a proxy that holds them back would make them late."""
    return Response(Stream(sse.stream(events)), headers={"Content-Type": EVENTS, "X-Accel-Buffering": "no"})


def make_disposition(path: str) -> str:
    """`Content-Disposition` for a file: its last name, any bytes, as RFC 6266 wants it."""
    name = path.rsplit("/", 1)[-1].encode("utf-8", "surrogateescape")
    return f"attachment; filename*=UTF-8''{quote(name, safe='')}"
