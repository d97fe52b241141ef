"""Durable workspaces: the files that outlive sessions, with or without a live one."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import FileEntry, Page, Workspace


class Workspaces:
    """Reads are always allowed; writes and removals are refused (WorkspaceInUse) while a live session holds it."""

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[Workspace]:
        raise NotImplementedError

    async def get(self, principal: Principal, workspace_id: str) -> Workspace:
        raise NotImplementedError

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
        raise NotImplementedError

    async def read(self, principal: Principal, workspace_id: str, path: str) -> tuple[FileEntry, AsyncIterator[bytes]]:
        raise NotImplementedError

    async def write(
        self, principal: Principal, workspace_id: str, path: str, chunks: AsyncIterator[bytes]
    ) -> FileEntry:
        raise NotImplementedError

    async def remove(self, principal: Principal, workspace_id: str, path: str, *, recursive: bool = False) -> None:
        raise NotImplementedError
