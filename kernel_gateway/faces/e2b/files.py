"""envd's files by REST: download, upload, the environment, health."""

from __future__ import annotations

import asyncio
import zlib
from typing import Final
from urllib.parse import quote

from kernel_gateway.errors import InvalidRequest, NotFound, PayloadTooLarge
from kernel_gateway.faces import forms
from kernel_gateway.faces.e2b import answers
from kernel_gateway.faces.e2b.calls import Call
from kernel_gateway.faces.e2b.errors import SandboxGone
from kernel_gateway.faces.e2b.identifiers import format_sandbox_id, resolve_path
from kernel_gateway.faces.errors import NotOffered
from kernel_gateway.faces.responses import Response, Stream

OCTETS: Final = "application/octet-stream"
INFLATION: Final = 1_032
"""How many times its size a body can inflate to."""


async def get_health(call: Call) -> None:
    """That the sandbox lives was seen when the request was admitted; one that is paused does not run, and stays so."""
    live = await call.services.registry.require(call.principal, call.session_id)
    if live.hibernated:
        raise SandboxGone(format_sandbox_id(call.session_id))


async def get_variables(call: Call) -> Response:
    _, context = await call.services.contexts.find(call.principal, call.session_id, None, {})
    return Response(dict(context.variables))


async def download_file(call: Call) -> Response:
    path = resolve_path(_read_path(call), call.query.get("username", ""))
    found, chunks = await call.services.sandbox_files.read(call.principal, call.session_id, path)
    name = quote(path.rsplit("/", 1)[1].encode("utf-8", "surrogateescape"))
    headers = {"Content-Type": OCTETS, "Content-Disposition": f"inline; filename*=utf-8''{name}"}
    return Response(Stream(chunks, found.size), headers=headers)


async def upload_files(call: Call) -> Response:
    """Each file whole or not at all; those before one that is refused stay."""
    if any(name.lower().startswith("x-metadata-") for name in call.headers):
        raise NotOffered("metadata of files are not supported")
    user, written = call.query.get("username", ""), []
    for name, body in await asyncio.to_thread(_unpack, call):  # which takes long for what is large
        path = resolve_path(name, user)
        found = await call.services.sandbox_files.write(call.principal, call.session_id, path, forms.split(body))
        written.append(answers.describe_written(found))
    return Response(written)


def count_unpacked(call: Call, size: int) -> int:
    """The most memory that unpacking a body of this size takes at once, besides the body's own."""
    form = forms.is_form(call.headers)
    if call.headers.get("Content-Encoding", "") != "gzip":
        return 2 * size if form else 0  # the parser holds the parts twice
    inflated = min(size * INFLATION, call.services.settings.payload_bytes + 1)
    return (3 if form else 2) * inflated  # inflating ends with a copy, which is gone when the form is parsed


def _unpack(call: Call) -> list[tuple[str, bytes]]:
    """The files in the body, each with its path."""
    most = call.services.settings.payload_bytes
    content = _decompress(call.content, call.headers.get("Content-Encoding", ""), most)
    if not forms.is_form(call.headers):
        return [(_read_path(call), content)]
    parts = forms.parse_files(call.headers["Content-Type"], content)
    named = call.query.get("path")
    if named and len(parts) > 1:
        raise InvalidRequest("path: names one file, and the form has several")
    return [(named or part.filename, part.body) for part in parts]


def _read_path(call: Call) -> str:
    path = call.query.get("path", "")
    if not path:
        raise NotFound("path: say which file")
    return path


def _decompress(content: bytes, encoding: str, most_bytes: int) -> bytes:
    if encoding in ("", "identity"):
        return content
    if encoding != "gzip":
        raise InvalidRequest("Content-Encoding: only gzip is taken")
    stream = zlib.decompressobj(wbits=31)
    try:
        found = stream.decompress(content, most_bytes + 1)
    except zlib.error:
        raise InvalidRequest("the body is not gzip") from None
    if len(found) > most_bytes:
        raise PayloadTooLarge(f"the files have more than {most_bytes:,} bytes", limit_bytes=most_bytes)
    if not stream.eof:
        raise InvalidRequest("the body is not a whole gzip stream")
    return found
