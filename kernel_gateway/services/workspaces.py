"""Durable workspaces: the files that outlive sessions, with or without a live one."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from typing import IO

from kernel_gateway.errors import Conflict, NotFound, WorkspaceInUse, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.files import bounded
from kernel_gateway.services.paging import page_of_files
from kernel_gateway.services.parts import Parts
from kernel_gateway.shapes import FileEntry, Page, Workspace
from kernel_gateway.storage import sessions
from kernel_gateway.storage.sessions import WorkspaceRow
from workspace_sync import Chunks, DurableWorkspace, FileInfo

IN_MEMORY_BYTES = 1_000_000
"""An upload larger than this waits on disk for the store."""


class Workspaces:
    """Reads are always allowed; writes and removals are refused (WorkspaceInUse) while a live session holds it.

    A workspace that waits in the spool is delivered before it is changed.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[Workspace]:
        """The principal's workspaces, newest first; without counts, which only `get` takes from the store."""
        rows, following = await self._parts.database.run(
            lambda connection: sessions.list_workspaces(connection, principal.id, limit, cursor)
        )
        return Page([_workspace(row) for row in rows], following)

    async def get(self, principal: Principal, workspace_id: str) -> Workspace:
        """A workspace with the number and size of its durable files."""
        row = await self._row(principal, workspace_id)
        with translated():
            summary = await self._parts.mirrors.run(self._durable(row).summary)
        return _workspace(row, summary.file_count, summary.size_bytes)

    async def list_files(
        self,
        principal: Principal,
        workspace_id: str,
        path: str = "",
        *,
        recursive: bool = True,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[FileEntry]:
        """The durable files below a path, by path."""
        durable = self._durable(await self._row(principal, workspace_id))
        with translated():
            found = await self._parts.mirrors.run(lambda: durable.list(path, recursive=recursive))
        return page_of_files([_entry(each) for each in found], self._parts.settings.files_listed, limit, cursor)

    async def read(self, principal: Principal, workspace_id: str, path: str) -> tuple[FileEntry, AsyncIterator[bytes]]:
        """A durable file and its bytes."""
        durable = self._durable(await self._row(principal, workspace_id))
        with translated():
            found, chunks = await self._parts.mirrors.run(lambda: durable.open(path))
        return _entry(found), self._chunks(chunks)

    async def write(
        self, principal: Principal, workspace_id: str, path: str, chunks: AsyncIterator[bytes]
    ) -> FileEntry:
        """Replace or make a durable file, whole or not at all."""
        self._parts.require_accepting()
        durable = await self._to_change(principal, workspace_id)
        self._parts.require_disk()
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=str(self._parts.settings.state_path)) as source:
            size = await self._collect(chunks, source)
            with translated():
                found = await self._parts.mirrors.run(lambda: durable.put(path, source, size))  # type: ignore[arg-type]
        return _entry(found)

    async def remove(self, principal: Principal, workspace_id: str, path: str, *, recursive: bool = False) -> None:
        """Remove a durable file, or a directory with all below it when `recursive`."""
        self._parts.require_accepting()
        durable = await self._to_change(principal, workspace_id)
        with translated():
            await self._parts.mirrors.run(lambda: _remove(durable, path, recursive=recursive))

    async def _row(self, principal: Principal, workspace_id: str) -> WorkspaceRow:
        row = await self._parts.database.run(lambda c: sessions.find_workspace(c, workspace_id, principal.id))
        if row is None:
            raise NotFound("there is no such workspace")
        return row

    async def _to_change(self, principal: Principal, workspace_id: str) -> DurableWorkspace:
        row = await self._row(principal, workspace_id)
        if row.live:
            raise WorkspaceInUse(
                "a live session holds this workspace: change its files through the session",
                workspace_id=workspace_id,
                session_id=row.session_id,
            )
        with translated():
            await self._parts.spool.deliver(workspace_id)
        return self._durable(row)

    def _durable(self, row: WorkspaceRow) -> DurableWorkspace:
        return self._parts.mirrors.durable(row.id)

    async def _collect(self, chunks: AsyncIterator[bytes], source: IO[bytes]) -> int:
        size = 0
        async for chunk in bounded(chunks, self._parts.settings.payload_bytes):
            size += source.write(chunk)
        source.seek(0)
        return size

    async def _chunks(self, chunks: Chunks) -> AsyncIterator[bytes]:
        try:
            with translated():
                while piece := await self._parts.mirrors.run(lambda: next(chunks, b"")):
                    yield piece
        finally:
            chunks.close()


def _remove(durable: DurableWorkspace, path: str, *, recursive: bool) -> None:
    if not recursive:
        below = durable.list(path)
        if any(each.path != path.rstrip("/") for each in below):
            raise Conflict("the directory is not empty; remove it with recursive", reason="not_empty")
    durable.delete(path)


def _workspace(row: WorkspaceRow, file_count: int | None = None, size_bytes: int | None = None) -> Workspace:
    return Workspace(row.id, rfc3339(row.created), row.session_id, file_count, size_bytes)


def _entry(found: FileInfo) -> FileEntry:
    return FileEntry(found.path, found.kind, found.size, rfc3339(found.modified))
