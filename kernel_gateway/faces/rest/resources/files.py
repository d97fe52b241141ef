"""Endpoints of the files of a live session; those of a durable workspace are in `durable`."""

from __future__ import annotations

from kernel_gateway.faces.rest import bodies
from kernel_gateway.faces.rest.calls import JSON, Call, Document, Download
from kernel_gateway.faces.rest.paths import checked_directory
from sandcell.models.shapes import FileEntry, Page


async def index(call: Call) -> Page[FileEntry]:
    query = call.query
    return await call.services.files.list(
        call.principal,
        call.ids["session_id"],
        checked_directory(query.path),
        recursive=query.recursive,
        limit=query.limit,
        cursor=query.cursor,
    )


async def read(call: Call) -> Download:
    entry, chunks = await call.services.files.read(call.principal, call.ids["session_id"], call.path)
    return Download(chunks, entry.size, entry.path)


async def write(call: Call) -> FileEntry:
    return await call.services.files.write(call.principal, call.ids["session_id"], call.path, call.upload)


async def remove(call: Call) -> Document | None:
    files, session_id, recursive = call.services.files, call.ids["session_id"], call.query.recursive
    if call.query.dry_run:
        gone = await files.would_remove(call.principal, session_id, call.path, recursive=recursive)
        return Document(bodies.encode(gone), JSON)
    await files.remove(call.principal, session_id, call.path, recursive=recursive)
    return None
