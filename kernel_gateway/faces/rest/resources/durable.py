"""Endpoints of durable workspaces. They translate and decide nothing."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime
from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.errors import Conflict
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.rest import bodies, conditions
from kernel_gateway.faces.rest.calls import JSON, OCTETS, ZIP, Bare, Call, Document, Download
from kernel_gateway.faces.rest.parameters import Below, Listing, OnePath, PageOf, Rehearsal, Removal
from kernel_gateway.faces.rest.paths import checked, checked_directory
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.shapes import FileEntry, Page, Workspace
from sandcell.models.workspaces import Copied, CopyFiles, CreateLink, DurableFile, Link, Removed


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


# The rows of the table of routes that work on durable workspaces.

W: Final = "/v1/workspaces"
W_ONE: Final = "/v1/workspaces/{workspace_id}"
W_FILE: Final = "/v1/workspaces/{workspace_id}/files/{path}"
READ: Errors = (e.NotFound, r.InvalidPath, e.Conflict, e.StoreUnavailable, e.DeadlinePassed)
PART: Errors = (*READ, e.FileChanged, r.RangeNotSatisfiable, e.PreconditionFailed)
CHANGE: Errors = (*READ, e.WorkspaceInUse, e.PreconditionFailed, e.NoSpace, e.ShuttingDown)
CACHED: Final = {"If-None-Match": "the ETag of what the caller has: answered with 304 when it is still that"}
RANGED: Final = {
    "Range": "one range of bytes, as `bytes=0-999`, `bytes=1000-` or `bytes=-1000`",
    "If-Range": "the ETag that the range is meant for; of another file all comes",
    "If-Match": "the ETag that the file has to have",
}
EXPECTS: Final = {
    "If-Match": "the ETag, a SHA-256 in quotes, that the file has to have; `*`: it has to be there",
    "If-None-Match": "`*`: the file must not be there yet",
}
SAME: Final = {304: "the caller has it already"}

ROUTES: Final[tuple[Route, ...]] = (
    Route("GET", W, workspaces, "List your workspaces", Page[Workspace], query=PageOf),
    Route("GET", W_ONE, workspace, "Show a workspace", Workspace, errors=(e.NotFound, e.StoreUnavailable)),
    Route(
        "DELETE",
        W_ONE,
        remove,
        "Delete a workspace, all its files; refused while a live session holds it. Notebooks of its sessions stay",
        Removed,
        query=Rehearsal,
        errors=(e.NotFound, e.WorkspaceInUse, e.StoreUnavailable, e.DeadlinePassed, e.ShuttingDown),
    ),
    Route(
        "GET",
        f"{W_ONE}/files",
        index_durable,
        "List durable files",
        Page[FileEntry],
        query=Listing,
        errors=READ,
    ),
    Route(
        "GET",
        f"{W_ONE}/stat",
        stat,
        "Show a durable file, directory or link: kind, size, mode, SHA-256, ETag",
        DurableFile,
        query=OnePath,
        errors=READ,
    ),
    Route(
        "GET",
        f"{W_ONE}/archive",
        archive,
        "Download durable files as a zip archive; what is too large, a link or gone is listed in its `SKIPPED.txt`",
        media=ZIP,
        query=Below,
        errors=(*READ, e.NoSpace, e.LimitReached),
    ),
    Route(
        "POST",
        f"{W_ONE}/copy",
        copy,
        "Copy durable files to another workspace of yours, inside the store; refused while a session holds that one",
        Copied,
        body=CopyFiles,
        errors=(*READ, e.WorkspaceInUse, e.NoSpace, e.ShuttingDown),
    ),
    Route(
        "POST",
        f"{W_ONE}/links",
        link,
        "Create a link straight to a durable file in S3, for a while; the answer alone carries it",
        Link,
        201,
        CreateLink,
        errors=READ,
    ),
    Route(
        "HEAD",
        W_FILE,
        head_durable,
        "The size, time and ETag of a durable file",
        media=OCTETS,
        headers=CACHED,
        bare=SAME,
        errors=(*READ, e.PreconditionFailed),
    ),
    Route(
        "GET",
        W_FILE,
        read_durable,
        "Download a durable file; `Range` is heeded (206)",
        media=OCTETS,
        headers={**RANGED, **CACHED},
        bare={206: "the range that was asked for", **SAME},
        errors=PART,
    ),
    Route(
        "PUT",
        W_FILE,
        write_durable,
        "Upload a durable file; refused while a live session holds the workspace",
        DurableFile,
        uploads=True,
        headers=EXPECTS,
        errors=CHANGE,
    ),
    Route(
        "DELETE",
        W_FILE,
        remove_durable,
        "Remove a durable file or directory; with `dry_run` only say what would be removed",
        status=204,
        query=Removal,
        headers=EXPECTS,
        rehearsal=Removed,
        errors=CHANGE,
    ),
)
