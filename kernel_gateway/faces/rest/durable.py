"""Endpoints of durable workspaces. They translate and decide nothing."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime

from kernel_gateway.errors import Conflict
from kernel_gateway.faces.rest import bodies, conditions
from kernel_gateway.faces.rest.calls import JSON, OCTETS, ZIP, Bare, Call, Document, Download
from kernel_gateway.faces.rest.paths import checked, checked_directory
from kernel_gateway.shapes import FileEntry, Page, Workspace
from kernel_gateway.workspace_shapes import Copied, DurableFile, Link, Removed


async def workspaces(call: Call) -> Page[Workspace]:
    return await call.services.workspaces.list(call.principal, call.query.limit, call.query.cursor)


async def workspace(call: Call) -> Workspace:
    return await call.services.workspaces.get(call.principal, call.ids["workspace_id"])


async def remove(call: Call) -> Removed:
    return await call.services.removals.remove(call.principal, call.ids["workspace_id"], dry_run=call.query.dry_run)


async def index_durable(call: Call) -> Page[FileEntry]:
    query = call.query
    return await call.services.workspaces.list_files(
        call.principal,
        call.ids["workspace_id"],
        checked_directory(query.path),
        recursive=query.recursive,
        limit=query.limit,
        cursor=query.cursor,
    )


async def stat(call: Call) -> DurableFile:
    return await call.services.workspaces.stat(call.principal, call.ids["workspace_id"], checked(call.query.path))


async def head_durable(call: Call) -> Bare:
    file = await call.services.workspaces.stat(call.principal, call.ids["workspace_id"], call.path)
    if file.kind != "file":
        raise Conflict(f"{file.path!r} is a {file.kind}, not a file")
    wanted = conditions.Wanted({name: call.headers[name] for name in call.headers if name.lower() != "range"})
    wanted(file)
    if wanted.unchanged:
        return Bare(304, _validators(file))
    return Bare(200, {**_validators(file), "Content-Length": str(file.size), "Content-Type": OCTETS})


async def read_durable(call: Call) -> Download | Bare:
    wanted = conditions.Wanted(call.headers)
    reading = await call.services.workspaces.read_part(call.principal, call.ids["workspace_id"], call.path, wanted)
    file, start, end = reading.file, reading.start, reading.end
    if wanted.unchanged:
        await reading.chunks.aclose()
        return Bare(304, _validators(file))
    download = Download(reading.chunks, end - start, file.path, headers=_validators(file))
    if end - start < file.size:
        download.status = 206
        download.headers = {**download.headers, "Content-Range": f"bytes {start}-{end - 1}/{file.size}"}
    return download


async def archive(call: Call) -> Download:
    workspace_id, path = call.ids["workspace_id"], checked_directory(call.query.path)
    pieces = await call.services.workspaces.archive(call.principal, workspace_id, path)
    return Download(pieces, None, f"{path.rpartition('/')[2] or workspace_id}.zip", ZIP)


async def copy(call: Call) -> Copied:
    body = call.body
    body.paths, body.to_path = [checked(path) for path in body.paths], checked_directory(body.to_path)
    return await call.services.file_copies.copy(call.principal, call.ids["workspace_id"], body)


async def link(call: Call) -> Link:
    call.body.path = checked(call.body.path)
    return await call.services.links.create(call.principal, call.ids["workspace_id"], call.body)


async def write_durable(call: Call) -> DurableFile:
    expected = conditions.expected(call.headers)
    workspaces, workspace_id = call.services.workspaces, call.ids["workspace_id"]
    return await workspaces.write(call.principal, workspace_id, call.path, call.upload, expected)


async def remove_durable(call: Call) -> Document | None:
    removed = await call.services.workspaces.remove(
        call.principal,
        call.ids["workspace_id"],
        call.path,
        recursive=call.query.recursive,
        dry_run=call.query.dry_run,
        expected=conditions.expected(call.headers),
    )
    return Document(bodies.encode(removed), JSON) if call.query.dry_run else None


def _validators(file: DurableFile) -> dict[str, str]:
    """What a cache and a reader of ranges go by."""
    modified = datetime.fromisoformat(file.modified_at)
    return {
        "Etag": file.etag or "",
        "Last-Modified": format_datetime(modified, usegmt=True),
        "Accept-Ranges": "bytes",
    }
