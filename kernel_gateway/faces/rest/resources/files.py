"""Files of a live session; those of a durable workspace are in `workspaces`. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest import conditions
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import Listing, Removal
from kernel_gateway.faces.rest.paths import check_directory
from kernel_gateway.faces.rest.responses import OCTETS, answer_download, answer_dry_run, answer_head
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.model import Page
from sandcell.models.workspaces import FileEntry, Removed


async def list_session_files(call: Call) -> Page[FileEntry]:
    query = call.query
    return await call.services.files.list(
        call.principal,
        call.ids["session_id"],
        check_directory(query.path),
        recursive=query.recursive,
        limit=query.limit,
        cursor=query.cursor,
    )


async def read_session_file(call: Call) -> Response:
    wanted = conditions.Wanted(call.headers)
    reading = await call.services.files.read(
        call.principal, call.ids["session_id"], call.path, wanted if wanted.chooses else None
    )
    file, start, end = reading.file, reading.start, reading.end
    headers = {"Etag": file.etag, "Accept-Ranges": "bytes"} if file.etag else {}
    if wanted.unchanged:
        await reading.chunks.aclose()
        return answer_head(304, headers)
    status = 200
    if end - start < file.size:
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size}"
    return answer_download(reading.chunks, end - start, file.entry.path, status=status, headers=headers)


async def write_session_file(call: Call) -> FileEntry:
    return await call.services.files.write(call.principal, call.ids["session_id"], call.path, call.upload)


async def delete_session_file(call: Call) -> Response | None:
    files, session_id, recursive = call.services.files, call.ids["session_id"], call.query.recursive
    if call.query.dry_run:
        gone = await files.would_remove(call.principal, session_id, call.path, recursive=recursive)
        return answer_dry_run(gone)
    await files.remove(call.principal, session_id, call.path, recursive=recursive)
    return None


FILES: Final = "/v1/sessions/{session_id}/files"
FILE: Final = "/v1/sessions/{session_id}/files/{path}"
LIVE: Final[Errors] = (
    e.NotFound,
    e.SessionTerminated,
    e.SandboxUnavailable,
    e.WorkspaceRestoring,
    r.InvalidPath,
    e.FileChanged,
    e.Conflict,
    e.DeadlinePassed,
)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        FILES,
        list_session_files,
        name="listSessionFiles",
        event="ListFiles",
        summary="List live files",
        result=Page[FileEntry],
        query=Listing,
        errors=LIVE,
    ),
    Route(
        "GET",
        FILE,
        read_session_file,
        name="readSessionFile",
        event="ReadFile",
        summary="Download a live file; `Range` is heeded (206)",
        media=OCTETS,
        headers=conditions.RANGED | conditions.CACHED,
        bare={206: "the range that was asked for", **conditions.SAME},
        errors=(*LIVE, r.RangeNotSatisfiable, e.PreconditionFailed),
    ),
    Route(
        "PUT",
        FILE,
        write_session_file,
        name="writeSessionFile",
        event="WriteFile",
        summary="Upload a live file, whole or not at all; directories are made",
        result=FileEntry,
        uploads=True,
        errors=(*LIVE, e.NoSpace),
    ),
    Route(
        "DELETE",
        FILE,
        delete_session_file,
        name="deleteSessionFile",
        event="RemoveFile",
        summary="Remove a live file or directory; with `dry_run` only say what would be removed",
        status=204,
        query=Removal,
        dry_run_result=Removed,
        errors=LIVE,
    ),
)
