"""Files of storage sessions: upload, list, show, download, delete."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote

from tornado.httputil import HTTPFile

from kernel_gateway.errors import GatewayError, InvalidRequest
from kernel_gateway.faces import forms
from kernel_gateway.faces.librechat.identifiers import clean_path, format_id, identify_file, parse_id
from kernel_gateway.faces.librechat.places import Call
from kernel_gateway.faces.responses import Response, Stream
from sandcell.models.workspaces import FileEntry

OCTETS: Final = "application/octet-stream"


async def upload_file(call: Call) -> Response:
    """Files into a storage session of their own; one that is refused refuses all."""
    parts = await _parse(call)
    paths = [clean_path(part.filename) for part in parts]
    async with _create_workspace(call) as workspace_id:
        for path, part in zip(paths, parts, strict=True):
            await call.services.workspaces.write(call.principal, workspace_id, path, forms.split(part.body))
    files = [{"fileId": identify_file(path), "filename": path} for path in paths]
    return Response(_describe_upload("success", workspace_id, files))


async def upload_files(call: Call) -> Response:
    """The same, each file by itself: the answer says of each whether it is there."""
    parts = await _parse(call)
    async with _create_workspace(call) as workspace_id:
        files = [await _upload_one(call, workspace_id, part) for part in parts]
    failed = sum(each["status"] == "error" for each in files)
    if failed == len(files):
        _remove(call, workspace_id)
    message = "success" if not failed else "error" if failed == len(files) else "partial_success"
    answer = {**_describe_upload(message, workspace_id, files), "succeeded": len(files) - failed, "failed": failed}
    return Response(answer, status=400 if message == "error" else 200)


@asynccontextmanager
async def _create_workspace(call: Call) -> AsyncIterator[str]:
    """One that goes again when what follows fails."""
    workspace_id = await call.services.workspaces.create(call.principal)
    try:
        yield workspace_id
    except BaseException:
        _remove(call, workspace_id)
        raise


def _remove(call: Call, workspace_id: str) -> None:
    removal = call.services.removals.remove(call.principal, workspace_id)
    call.services.background.spawn(removal, f"removal of {workspace_id}")


async def _upload_one(call: Call, workspace_id: str, part: HTTPFile) -> dict[str, Any]:
    try:
        path = clean_path(part.filename)
        await call.services.workspaces.write(call.principal, workspace_id, path, forms.split(part.body))
    except GatewayError as error:
        return {"status": "error", "filename": part.filename, "error": error.message}
    return {"status": "success", "filename": path, "fileId": identify_file(path)}


def _describe_upload(message: str, workspace_id: str, files: list[dict[str, Any]]) -> dict[str, Any]:
    """Older clients read `session_id`."""
    session = format_id(workspace_id)
    return {"message": message, "session_id": session, "storage_session_id": session, "files": files}


async def _parse(call: Call) -> list[HTTPFile]:
    if not forms.is_form(call.headers):
        raise InvalidRequest("the body is a form (multipart/form-data) with parts named `file`")
    return await asyncio.to_thread(forms.parse_files, call.headers["Content-Type"], call.content)


async def list_files(call: Call) -> Response:
    """In as much detail as `detail` says: simple, summary, full or normalized."""
    workspace_id = parse_id(call.ids["storage_id"])
    files = (await call.places.list_files(call.principal, workspace_id)).files
    detail = call.query.get("detail", "simple")
    if detail == "simple":
        return Response([_name(workspace_id, each) for each in files])
    describe = _describe_normalized if detail == "normalized" else _describe
    return Response([describe(workspace_id, each) for each in files])


async def stat_file(call: Call) -> Response:
    workspace_id = parse_id(call.ids["storage_id"])
    return Response(_describe(workspace_id, await call.places.find(call.principal, workspace_id, call.ids["file_id"])))


async def download_file(call: Call) -> Response:
    workspace_id = parse_id(call.ids["storage_id"])
    named = await call.places.find(call.principal, workspace_id, call.ids["file_id"])
    found, chunks = await call.places.read(call.principal, workspace_id, named.path)
    name = quote(found.path.rsplit("/", 1)[-1].encode("utf-8", "surrogateescape"))
    headers = {"Content-Type": _media_type(found), "Content-Disposition": f"attachment; filename*=utf-8''{name}"}
    return Response(Stream(chunks, found.size), headers=headers)


async def delete_file(call: Call) -> Response:
    workspace_id = parse_id(call.ids["storage_id"])
    found = await call.places.find(call.principal, workspace_id, call.ids["file_id"])
    await call.places.remove(call.principal, workspace_id, found.path)
    session = format_id(workspace_id)
    return Response({"message": "File deleted successfully", "session_id": session, "fileId": call.ids["file_id"]})


def _name(workspace_id: str, file: FileEntry) -> str:
    """As an object of the Code API's store is called; clients cut the file's id from it, up to the first dot."""
    leaf = file.path.rsplit("/", 1)[-1]
    ending = "." + leaf.rpartition(".")[2] if "." in leaf else ""
    return f"{format_id(workspace_id)}/{identify_file(file.path)}{ending}"


def _describe(workspace_id: str, file: FileEntry) -> dict[str, Any]:
    session, file_id = format_id(workspace_id), identify_file(file.path)
    kind = _media_type(file)
    return {
        "name": _name(workspace_id, file),
        "id": file_id,
        "session_id": session,
        "storage_session_id": session,
        "size": file.size,
        "lastModified": file.modified_at,
        "contentType": kind,
        "originalFilename": file.path,
        "metadata": {"content-type": kind, "original-filename": file.path, "original-filename-encoded": "none"},
    }


def _describe_normalized(workspace_id: str, file: FileEntry) -> dict[str, Any]:
    session = format_id(workspace_id)
    file_id = identify_file(file.path)
    return {"id": file_id, "name": file.path, "session_id": session, "storage_session_id": session}


def _media_type(file: FileEntry) -> str:
    return mimetypes.guess_type(file.path)[0] or OCTETS
