"""Files of a live session, and uploads in parts into sessions and workspaces; `workspaces` has the other durable files.

Endpoints translate and decide nothing.
"""

from __future__ import annotations

import re
from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest import conditions
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import Listing, NewUpload, PageOf, Removal
from kernel_gateway.faces.rest.paths import check_directory, check_path
from kernel_gateway.faces.rest.resources.executions import read_idempotency_key
from kernel_gateway.faces.rest.resources.workspaces import CHANGE, EXPECTS
from kernel_gateway.faces.rest.responses import OCTETS, answer_download, answer_dry_run, answer_head
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.services.workspaces.uploads import Target
from sandcell.models.model import Page
from sandcell.models.uploads import CompleteUpload, Upload
from sandcell.models.workspaces import DurableFile, FileEntry, Removed
from workspace_sync import ANYTHING


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


def _find_target(call: Call) -> Target:
    if "session_id" in call.ids:
        return Target("sessions", call.ids["session_id"])
    return Target("workspaces", call.ids["workspace_id"])


async def create_upload(call: Call) -> Upload:
    path, size = check_path(call.query.path), call.query.size_bytes
    key = read_idempotency_key(call.headers.get("Idempotency-Key"))
    return await call.services.uploads.create(call.principal, _find_target(call), path, size, key)


async def list_uploads(call: Call) -> Page[Upload]:
    return await call.services.uploads.list(call.principal, _find_target(call), call.query.limit, call.query.cursor)


async def get_upload(call: Call) -> Upload:
    return await call.services.uploads.get(call.principal, _find_target(call), call.ids["upload_id"])


async def append_to_upload(call: Call) -> Upload:
    offset = call.headers.get("Upload-Offset", "0")
    if not OFFSET.fullmatch(offset):
        raise e.InvalidRequest("Upload-Offset is a number of bytes", field="Upload-Offset")
    return await call.services.uploads.append(
        call.principal, _find_target(call), call.ids["upload_id"], int(offset), call.upload
    )


async def complete_upload(call: Call) -> FileEntry:
    target, upload_id, sha256 = _find_target(call), call.ids["upload_id"], call.body.sha256
    expected = conditions.read_expected(call.headers) if target.kind == "workspaces" else ANYTHING
    return await call.services.uploads.complete(call.principal, target, upload_id, sha256, expected=expected)


async def give_up_upload(call: Call) -> None:
    await call.services.uploads.give_up(call.principal, _find_target(call), call.ids["upload_id"])


OFFSET: Final = re.compile("[0-9]{1,18}")
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


def _make_upload_routes(owner: str, word: str, errors: Errors) -> tuple[Route, ...]:
    """Of uploads into what `owner` is the address of; `word` is in the names of their operations."""
    kind = "" if word == "Session" else word
    return (
        Route(
            "POST",
            f"{owner}/uploads",
            create_upload,
            name=f"create{word}Upload",
            event=f"Create{kind}Upload",
            summary=f"Begin an upload in parts into a {word.lower()}",
            result=Upload,
            status=201,
            query=NewUpload,
            headers={"Idempotency-Key": "the same key and query return the same upload until it is complete"},
            errors=(*errors, *BEGIN),
        ),
        Route(
            "GET",
            f"{owner}/uploads",
            list_uploads,
            name=f"list{word}Uploads",
            event=f"List{kind}Uploads",
            summary="List uploads that are not complete",
            result=Page[Upload],
            query=PageOf,
            errors=errors,
        ),
    )


def _make_part_routes(owner: str, word: str, errors: Errors) -> tuple[Route, ...]:
    """The same of one upload's bytes."""
    one, kind = f"{owner}/uploads/{{upload_id}}", "" if word == "Session" else word
    return (
        Route(
            "GET",
            one,
            get_upload,
            name=f"get{word}Upload",
            event=f"Get{kind}Upload",
            summary="Show how far an upload is",
            result=Upload,
            errors=errors,
        ),
        Route(
            "PATCH",
            one,
            append_to_upload,
            name=f"appendTo{word}Upload",
            event=f"AppendTo{kind}Upload",
            summary="Add the next part, which begins at `Upload-Offset`; of one that breaks off, what has come stays",
            result=Upload,
            uploads=True,
            headers={"Upload-Offset": "the part's first byte in the file: `offset_bytes` of the upload"},
            errors=(*errors, e.Conflict, e.WrongOffset, e.QuotaReached, e.NoSpace, e.ShuttingDown),
        ),
        Route(
            "DELETE",
            one,
            give_up_upload,
            name=f"giveUp{word}Upload",
            event=f"GiveUp{kind}Upload",
            summary="Remove an upload, and what has come of it",
            status=204,
            errors=(*errors, e.Conflict),
        ),
    )


BEGIN: Final[Errors] = (
    r.InvalidPath,
    e.IdempotencyConflict,
    e.QuotaReached,
    e.PayloadTooLarge,
    e.NoSpace,
    e.ShuttingDown,
)
SESSION, WORKSPACE = "/v1/sessions/{session_id}", "/v1/workspaces/{workspace_id}"
INTO_SESSION: Final[Errors] = (e.NotFound, e.SessionTerminated)
INTO_WORKSPACE: Final[Errors] = (e.NotFound, e.WorkspaceInUse)
UPLOADS: Final[tuple[Route, ...]] = (
    *_make_upload_routes(SESSION, "Session", INTO_SESSION),
    *_make_part_routes(SESSION, "Session", INTO_SESSION),
    Route(
        "POST",
        f"{SESSION}/uploads/{{upload_id}}/complete",
        complete_upload,
        name="completeSessionUpload",
        event="CompleteUpload",
        summary="Write the file, whole or not at all; asked again, the answer is the same",
        result=FileEntry,
        body=CompleteUpload,
        errors=(*LIVE, e.ChecksumMismatch, e.NoSpace, e.ShuttingDown),
    ),
    *_make_upload_routes(WORKSPACE, "Workspace", INTO_WORKSPACE),
    *_make_part_routes(WORKSPACE, "Workspace", INTO_WORKSPACE),
    Route(
        "POST",
        f"{WORKSPACE}/uploads/{{upload_id}}/complete",
        complete_upload,
        name="completeWorkspaceUpload",
        event="CompleteWorkspaceUpload",
        summary="Write the durable file, whole or not at all; asked again, the answer is the same",
        result=DurableFile,
        body=CompleteUpload,
        headers=EXPECTS,
        errors=(*CHANGE, e.ChecksumMismatch),
    ),
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
    *UPLOADS,
)
