"""The rows of the table of routes that work on durable workspaces."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.rest import durable
from kernel_gateway.faces.rest.calls import OCTETS, ZIP
from kernel_gateway.faces.rest.parameters import Below, Listing, OnePath, PageOf, Rehearsal, Removal
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.shapes import FileEntry, Page, Workspace
from kernel_gateway.workspace_shapes import Copied, CopyFiles, CreateLink, DurableFile, Link, Removed

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
    Route("GET", W, durable.workspaces, "List your workspaces", Page[Workspace], query=PageOf),
    Route("GET", W_ONE, durable.workspace, "Show a workspace", Workspace, errors=(e.NotFound, e.StoreUnavailable)),
    Route(
        "DELETE",
        W_ONE,
        durable.remove,
        "Delete a workspace, all its files; refused while a live session holds it. Notebooks of its sessions stay",
        Removed,
        query=Rehearsal,
        errors=(e.NotFound, e.WorkspaceInUse, e.StoreUnavailable, e.DeadlinePassed, e.ShuttingDown),
    ),
    Route(
        "GET",
        f"{W_ONE}/files",
        durable.index_durable,
        "List durable files",
        Page[FileEntry],
        query=Listing,
        errors=READ,
    ),
    Route(
        "GET",
        f"{W_ONE}/stat",
        durable.stat,
        "Show a durable file, directory or link: kind, size, mode, SHA-256, ETag",
        DurableFile,
        query=OnePath,
        errors=READ,
    ),
    Route(
        "GET",
        f"{W_ONE}/archive",
        durable.archive,
        "Download durable files as a zip archive; what is too large, a link or gone is listed in its `SKIPPED.txt`",
        media=ZIP,
        query=Below,
        errors=(*READ, e.NoSpace, e.LimitReached),
    ),
    Route(
        "POST",
        f"{W_ONE}/copy",
        durable.copy,
        "Copy durable files to another workspace of yours, inside the store; refused while a session holds that one",
        Copied,
        body=CopyFiles,
        errors=(*READ, e.WorkspaceInUse, e.NoSpace, e.ShuttingDown),
    ),
    Route(
        "POST",
        f"{W_ONE}/links",
        durable.link,
        "Create a link straight to a durable file in S3, for a while; the answer alone carries it",
        Link,
        201,
        CreateLink,
        errors=READ,
    ),
    Route(
        "HEAD",
        W_FILE,
        durable.head_durable,
        "The size, time and ETag of a durable file",
        media=OCTETS,
        headers=CACHED,
        bare=SAME,
        errors=(*READ, e.PreconditionFailed),
    ),
    Route(
        "GET",
        W_FILE,
        durable.read_durable,
        "Download a durable file; `Range` is heeded (206)",
        media=OCTETS,
        headers={**RANGED, **CACHED},
        bare={206: "the range that was asked for", **SAME},
        errors=PART,
    ),
    Route(
        "PUT",
        W_FILE,
        durable.write_durable,
        "Upload a durable file; refused while a live session holds the workspace",
        DurableFile,
        uploads=True,
        headers=EXPECTS,
        errors=CHANGE,
    ),
    Route(
        "DELETE",
        W_FILE,
        durable.remove_durable,
        "Remove a durable file or directory; with `dry_run` only say what would be removed",
        status=204,
        query=Removal,
        headers=EXPECTS,
        rehearsal=Removed,
        errors=CHANGE,
    ),
)
