"""Endpoints of files: those of a live session, and those of a durable workspace."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call, Download
from kernel_gateway.faces.rest.paths import checked_directory
from kernel_gateway.shapes import FileEntry, Page, Workspace


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


async def remove(call: Call) -> None:
    files, recursive = call.services.files, call.query.recursive
    await files.remove(call.principal, call.ids["session_id"], call.path, recursive=recursive)


async def workspaces(call: Call) -> Page[Workspace]:
    return await call.services.workspaces.list(call.principal, call.query.limit, call.query.cursor)


async def workspace(call: Call) -> Workspace:
    return await call.services.workspaces.get(call.principal, call.ids["workspace_id"])


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


async def read_durable(call: Call) -> Download:
    entry, chunks = await call.services.workspaces.read(call.principal, call.ids["workspace_id"], call.path)
    return Download(chunks, entry.size, entry.path)


async def write_durable(call: Call) -> FileEntry:
    return await call.services.workspaces.write(call.principal, call.ids["workspace_id"], call.path, call.upload)


async def remove_durable(call: Call) -> None:
    workspaces, recursive = call.services.workspaces, call.query.recursive
    await workspaces.remove(call.principal, call.ids["workspace_id"], call.path, recursive=recursive)
