"""The files of a live session, read and written inside its sandbox as its user."""

from __future__ import annotations

from collections.abc import AsyncIterator

from kernel_gateway.identity.principal import Principal
from kernel_gateway.shapes import FileEntry, Page


class Files:
    """Paths are relative to /workspace."""

    async def list(
        self,
        principal: Principal,
        session_id: str,
        path: str = "",
        *,
        recursive: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page[FileEntry]:
        raise NotImplementedError

    async def read(self, principal: Principal, session_id: str, path: str) -> tuple[FileEntry, AsyncIterator[bytes]]:
        raise NotImplementedError

    async def write(self, principal: Principal, session_id: str, path: str, chunks: AsyncIterator[bytes]) -> FileEntry:
        """Replace or make a file, whole or not at all; parents are made."""
        raise NotImplementedError

    async def remove(self, principal: Principal, session_id: str, path: str, *, recursive: bool = False) -> None:
        raise NotImplementedError
