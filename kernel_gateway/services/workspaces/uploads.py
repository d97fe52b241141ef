"""Uploads in parts into live sessions and durable workspaces: `staged_uploads` keeps their bytes until they are whole.

The file appears as if it had been written with one request: at once, with the permissions of the one that it replaces,
and as a change that is flushed. Until then nothing in the session or workspace shows that it is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, BinaryIO, Final, Literal

import msgspec

from kernel_gateway.cursors import cursor_to, nonsense, place_in
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.services.workspaces.files import Files
from kernel_gateway.services.workspaces.staged_uploads import Staged, StagedUploads
from kernel_gateway.services.workspaces.workspaces import Workspaces
from kernel_gateway.settings import Settings
from sandcell.models.model import Page
from sandcell.models.uploads import Upload
from sandcell.models.workspaces import DurableFile, FileEntry
from workspace_sync import ANYTHING, Expected

CHUNK_BYTES: Final = 262_144
"""Of a staged file in memory, on its way into a sandbox."""


class Target(msgspec.Struct, frozen=True):
    """What an upload goes into."""

    kind: Literal["sessions", "workspaces"]
    id: str

    @property
    def name(self) -> str:
        """Both in one word."""
        return f"{self.kind}/{self.id}"


class Uploads:
    """Each belongs to a principal and to a session or workspace; another's is not found."""

    def __init__(
        self,
        *,
        settings: Settings,
        readiness: Readiness,
        background: Background,
        registry: Registry,
        access: WorkspaceAccess,
        staged: StagedUploads,
        files: Files,
        workspaces: Workspaces,
    ) -> None:
        self._settings = settings
        self._readiness = readiness
        self._background = background
        self._registry = registry
        self._access = access
        self._staged = staged
        self._files = files
        self._workspaces = workspaces

    async def create(
        self, principal: Principal, target: Target, path: str, size: int | None, key: str | None = None
    ) -> Upload:
        """Begin an upload, or find the one that was begun with this key and is not complete."""
        self._readiness.require_accepting()
        await self._require(principal, target, to_change=True)
        staged = await self._staged.create(principal.id, target.name, path, size, key)
        return self._describe(staged)

    async def list(
        self, principal: Principal, target: Target, limit: int = 100, cursor: str | None = None
    ) -> Page[Upload]:
        """Those that are not complete, in the order they were begun."""
        await self._require(principal, target)
        after = 0 if cursor is None else _read_place(cursor)
        found = self._staged.list_open(principal.id, target.name)
        page = found[after : after + limit]
        more = after + len(page) < len(found)
        return Page([self._describe(each) for each in page], cursor_to(b"%d" % (after + limit)) if more else None)

    async def get(self, principal: Principal, target: Target, upload_id: str) -> Upload:
        """How far one is."""
        return self._describe(await self._find(principal, target, upload_id))

    async def append(
        self,
        principal: Principal,
        target: Target,
        upload_id: str,
        offset: int,
        chunks: AsyncIterator[bytes],
    ) -> Upload:
        """Add a part, which begins where the bytes so far end; of one that breaks off, what has come stays."""
        self._readiness.require_accepting()
        staged = await self._find(principal, target, upload_id, to_change=True)
        if target.kind == "sessions":
            live = await self._registry.require(principal, target.id)
            chunks = _touching(chunks, live.touch)
        await self._staged.append(staged, offset, chunks)
        return self._describe(staged)

    async def complete(
        self,
        principal: Principal,
        target: Target,
        upload_id: str,
        sha256: str | None,
        *,
        expected: Expected = ANYTHING,
    ) -> FileEntry:
        """Write the file. A caller who goes away stops nothing, and gets the same answer when asking again."""
        self._readiness.require_accepting()
        staged = await self._find(principal, target, upload_id, to_change=True)

        async def put(file: BinaryIO, size: int) -> dict[str, Any]:
            written: FileEntry
            if target.kind == "sessions":
                written = await self._files.write_stream(principal, target.id, staged.path, _read(file))
            else:
                written = await self._workspaces.put(principal, target.id, staged.path, file, size, expected=expected)
            found: dict[str, Any] = msgspec.to_builtins(written)
            return found

        work = self._staged.complete(staged, sha256, put)
        result = await self._background.carry_out(work, f"upload {staged.id}")
        return msgspec.convert(result, FileEntry if target.kind == "sessions" else DurableFile)

    async def give_up(self, principal: Principal, target: Target, upload_id: str) -> None:
        """Remove an upload and what has come of it."""
        await self._staged.give_up(await self._find(principal, target, upload_id))

    async def forget_session(self, session_id: str) -> None:
        """Remove all uploads into a session that has ended."""
        await self._staged.forget(Target("sessions", session_id).name)

    async def sweep(self) -> None:
        """Remove uploads whose time is over, and those of sessions and workspaces that are there no more."""
        await self._staged.expire()
        for owner in self._staged.owners():
            kind, _, owner_id = owner.partition("/")
            if owner_id not in self._registry if kind == "sessions" else await self._access.is_gone(owner_id):
                await self._staged.forget(owner)

    async def _find(self, principal: Principal, target: Target, upload_id: str, *, to_change: bool = False) -> Staged:
        await self._require(principal, target, to_change=to_change)
        return self._staged.find(principal.id, target.name, upload_id)

    async def _require(self, principal: Principal, target: Target, *, to_change: bool = False) -> None:
        """Raises NotFound, SessionTerminated, WorkspaceInUse."""
        if target.kind == "sessions":
            await self._registry.require(principal, target.id)
        elif to_change:
            await self._access.require_not_live(principal, target.id)
        else:
            await self._access.row(principal, target.id)

    def _describe(self, staged: Staged) -> Upload:
        entry = DurableFile if staged.owner.startswith("workspaces/") else FileEntry
        return Upload(
            id=staged.id,
            path=staged.path,
            size_bytes=staged.size_bytes,
            offset_bytes=staged.offset,
            part_bytes=self._settings.payload_bytes,
            created_at=rfc3339(staged.created),
            expires_at=rfc3339(self._staged.expires(staged)),
            file=None if staged.result is None else msgspec.convert(staged.result, entry),
        )


def _read_place(cursor: str) -> int:
    place = place_in(cursor)
    if not place.isdigit() or len(place) > 9:
        raise nonsense()
    return int(place)


async def _touching(chunks: AsyncIterator[bytes], touch: Callable[[], None]) -> AsyncIterator[bytes]:
    """The same chunks; each is work that keeps the session from idling."""
    async for chunk in chunks:
        touch()
        yield chunk


async def _read(file: BinaryIO) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, CHUNK_BYTES):
        yield chunk
