"""Durable workspaces and their files, with or without a live session. Endpoints translate and decide nothing."""

from __future__ import annotations

from datetime import datetime
from email.utils import format_datetime
from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.errors import Conflict
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest import conditions
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.elsewhere import copy_elsewhere
from kernel_gateway.faces.rest.parameters import Below, DryRunOnly, Listing, OnePath, PageOf, Removal
from kernel_gateway.faces.rest.paths import check_directory, check_path
from kernel_gateway.faces.rest.responses import OCTETS, ZIP, answer_download, answer_dry_run, answer_head
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.services.workspaces.workspaces import Reading
from sandcell.models.model import Page
from sandcell.models.workspaces import (
    Copied,
    CopyFiles,
    CreateLink,
    DurableFile,
    FileEntry,
    Link,
    Removed,
    Workspace,
)


async def list_workspaces(call: Call) -> Page[Workspace]:
    return await call.services.workspaces.list(call.principal, call.query.limit, call.query.cursor)


async def get_workspace(call: Call) -> Workspace:
    return await call.services.workspaces.get(call.principal, call.ids["workspace_id"])


async def delete_workspace(call: Call) -> Removed:
    return await call.services.removals.remove(call.principal, call.ids["workspace_id"], dry_run=call.query.dry_run)


async def list_workspace_files(call: Call) -> Page[FileEntry]:
    query = call.query
    return await call.services.workspaces.list_files(
        call.principal,
        call.ids["workspace_id"],
        check_directory(query.path),
        recursive=query.recursive,
        limit=query.limit,
        cursor=query.cursor,
    )


async def stat_workspace_file(call: Call) -> DurableFile:
    return await call.services.workspaces.stat(call.principal, call.ids["workspace_id"], check_path(call.query.path))


async def archive_workspace(call: Call) -> Response:
    workspace_id, path = call.ids["workspace_id"], check_directory(call.query.path)
    pieces = await call.services.workspaces.archive(call.principal, workspace_id, path)
    return answer_download(pieces, None, f"{path.rpartition('/')[2] or workspace_id}.zip", ZIP)


async def copy_workspace_files(call: Call) -> Copied | Response:
    body = call.body
    body.paths, body.to_path = [check_path(path) for path in body.paths], check_directory(body.to_path)
    if (answer := await copy_elsewhere(call, body.to)) is not None:
        return answer
    return await call.services.file_copies.copy(call.principal, call.ids["workspace_id"], body)


async def create_workspace_link(call: Call) -> Link:
    call.body.path = check_path(call.body.path)
    return await call.services.links.create(call.principal, call.ids["workspace_id"], call.body)


async def head_workspace_file(call: Call) -> Response:
    file = await call.services.workspaces.stat(call.principal, call.ids["workspace_id"], call.path)
    if file.kind != "file":
        raise Conflict(f"{file.path!r} is a {file.kind}, not a file")
    wanted = conditions.Wanted({name: call.headers[name] for name in call.headers if name.lower() != "range"})
    wanted(file)
    if wanted.unchanged:
        return answer_head(304, _make_validators(file))
    return answer_head(200, {**_make_validators(file), "Content-Length": str(file.size), "Content-Type": OCTETS})


async def read_workspace_file(call: Call) -> Response:
    wanted = conditions.Wanted(call.headers)
    reading = await call.services.workspaces.read_part(call.principal, call.ids["workspace_id"], call.path, wanted)
    return await answer_reading(reading, wanted)


async def answer_reading(reading: Reading, wanted: conditions.Wanted) -> Response:
    """A durable file or the part of it that is wanted, or the word that it is as it was."""
    file, start, end = reading.file, reading.start, reading.end
    if wanted.unchanged:
        await reading.chunks.aclose()
        return answer_head(304, _make_validators(file))
    status, headers = 200, _make_validators(file)
    if end - start < file.size:
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    return answer_download(reading.chunks, end - start, file.path, status=status, headers=headers)


async def write_workspace_file(call: Call) -> DurableFile:
    expected = conditions.read_expected(call.headers)
    workspaces, workspace_id = call.services.workspaces, call.ids["workspace_id"]
    return await workspaces.write(call.principal, workspace_id, call.path, call.upload, expected)


async def delete_workspace_file(call: Call) -> Response | None:
    removed = await call.services.workspaces.remove(
        call.principal,
        call.ids["workspace_id"],
        call.path,
        recursive=call.query.recursive,
        dry_run=call.query.dry_run,
        expected=conditions.read_expected(call.headers),
    )
    return answer_dry_run(removed) if call.query.dry_run else None


def _make_validators(file: DurableFile) -> dict[str, str]:
    """What a cache and a reader of ranges go by."""
    modified = datetime.fromisoformat(file.modified_at)
    return {
        "Etag": file.etag or "",
        "Last-Modified": format_datetime(modified, usegmt=True),
        "Accept-Ranges": "bytes",
    }


WORKSPACES: Final = "/v1/workspaces"
WORKSPACE: Final = "/v1/workspaces/{workspace_id}"
FILE: Final = "/v1/workspaces/{workspace_id}/files/{path}"
READ: Final[Errors] = (e.NotFound, r.InvalidPath, e.Conflict, e.StoreUnavailable, e.DeadlinePassed)
PART: Final[Errors] = (*READ, e.FileChanged, r.RangeNotSatisfiable, e.PreconditionFailed)
CHANGE: Final[Errors] = (*READ, e.WorkspaceInUse, e.PreconditionFailed, e.NoSpace, e.ShuttingDown)
EXPECTS: Final = {
    "If-Match": "the ETag, a SHA-256 in quotes, that the file has to have; `*`: it has to be there",
    "If-None-Match": "`*`: the file must not be there yet",
}

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        WORKSPACES,
        list_workspaces,
        name="listWorkspaces",
        event="ListWorkspaces",
        summary="List your workspaces",
        result=Page[Workspace],
        query=PageOf,
    ),
    Route(
        "GET",
        WORKSPACE,
        get_workspace,
        name="getWorkspace",
        event="GetWorkspace",
        summary="Show a workspace",
        result=Workspace,
        errors=(e.NotFound, e.StoreUnavailable),
    ),
    Route(
        "DELETE",
        WORKSPACE,
        delete_workspace,
        name="deleteWorkspace",
        event="DeleteWorkspace",
        summary=(
            "Delete a workspace, all its files; refused while a live session holds it. Notebooks of its sessions stay"
        ),
        result=Removed,
        query=DryRunOnly,
        errors=(e.NotFound, e.WorkspaceInUse, e.StoreUnavailable, e.DeadlinePassed, e.ShuttingDown),
    ),
    Route(
        "GET",
        f"{WORKSPACE}/files",
        list_workspace_files,
        name="listWorkspaceFiles",
        event="ListWorkspaceFiles",
        summary="List durable files",
        result=Page[FileEntry],
        query=Listing,
        errors=READ,
    ),
    Route(
        "GET",
        f"{WORKSPACE}/stat",
        stat_workspace_file,
        name="statWorkspaceFile",
        event="GetWorkspaceFile",
        summary="Show a durable file, directory or link: kind, size, mode, SHA-256, ETag",
        result=DurableFile,
        query=OnePath,
        errors=READ,
    ),
    Route(
        "GET",
        f"{WORKSPACE}/archive",
        archive_workspace,
        name="archiveWorkspace",
        event="ArchiveWorkspace",
        summary=(
            "Download durable files as a zip archive; what is too large, a link or gone is listed in its `SKIPPED.txt`"
        ),
        media=ZIP,
        query=Below,
        errors=(*READ, e.NoSpace, e.LimitReached),
    ),
    Route(
        "POST",
        f"{WORKSPACE}/copy",
        copy_workspace_files,
        name="copyWorkspaceFiles",
        event="CopyWorkspaceFiles",
        summary=(
            "Copy durable files to another workspace of yours, inside the store; refused while a session holds that one"
        ),
        result=Copied,
        body=CopyFiles,
        errors=(*READ, e.WorkspaceInUse, e.NoSpace, e.ShuttingDown),
    ),
    Route(
        "POST",
        f"{WORKSPACE}/links",
        create_workspace_link,
        name="createWorkspaceLink",
        event="CreateLink",
        summary="Create a link straight to a durable file in S3, for a while; the answer alone carries it",
        result=Link,
        status=201,
        body=CreateLink,
        errors=READ,
    ),
    Route(
        "HEAD",
        FILE,
        head_workspace_file,
        name="headWorkspaceFile",
        event="HeadWorkspaceFile",
        summary="The size, time and ETag of a durable file",
        media=OCTETS,
        headers=conditions.CACHED,
        bare=conditions.SAME,
        errors=(*READ, e.PreconditionFailed),
    ),
    Route(
        "GET",
        FILE,
        read_workspace_file,
        name="readWorkspaceFile",
        event="ReadWorkspaceFile",
        summary="Download a durable file; `Range` is heeded (206)",
        media=OCTETS,
        headers={**conditions.RANGED, **conditions.CACHED},
        bare={206: "the range that was asked for", **conditions.SAME},
        errors=PART,
    ),
    Route(
        "PUT",
        FILE,
        write_workspace_file,
        name="writeWorkspaceFile",
        event="WriteWorkspaceFile",
        summary="Upload a durable file; refused while a live session holds the workspace",
        result=DurableFile,
        uploads=True,
        headers=EXPECTS,
        errors=CHANGE,
    ),
    Route(
        "DELETE",
        FILE,
        delete_workspace_file,
        name="deleteWorkspaceFile",
        event="RemoveWorkspaceFile",
        summary="Remove a durable file or directory; with `dry_run` only say what would be removed",
        status=204,
        query=Removal,
        headers=EXPECTS,
        dry_run_result=Removed,
        errors=CHANGE,
    ),
)
