"""Durable workspaces: the files that outlive sessions, with or without a live one."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import IO, BinaryIO, cast

import msgspec

from kernel_gateway.errors import Conflict, LimitReached, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.pieces import Pieces
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.workspaces.access import WorkspaceAccess, describe_removal, durable_file
from kernel_gateway.services.workspaces.files import is_private, limit_bytes
from kernel_gateway.services.workspaces.paging import page_of_files
from kernel_gateway.settings import Settings
from kernel_gateway.storage import sessions, workspace_usage
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import WorkspaceRow
from sandcell.models.model import Page
from sandcell.models.workspaces import DurableFile, FileEntry, Removed, Workspace
from workspace_sync import ANYTHING, ArchiveLimits, DurableWorkspace, Expected, FileInfo
from workspace_sync import Removed as Gone

IN_MEMORY_BYTES = 1_000_000
"""An upload larger than this waits on disk for the store."""
MOST_ARCHIVES = 4
"""Archives that one principal has made at once."""
RETRY_SECONDS = 10.0
Bounds = Callable[[DurableFile], tuple[int, int]]
"""From a file to the first byte wanted and the one after the last."""


class Reading(msgspec.Struct, frozen=True):
    """A durable file, and its bytes `start` up to `end`, which come piece by piece."""

    file: DurableFile
    start: int
    end: int
    chunks: Pieces


async def read_part(mirrors: Mirrors, principal_id: str, files: DurableWorkspace, path: str, bounds: Bounds) -> Reading:
    """One of these files and some of its bytes; raises what `bounds` raises."""
    with translated():
        opened = await mirrors.run_durable(
            principal_id, lambda: files.open_part(path, lambda info: bounds(durable_file(info)))
        )
    pieces = Pieces(mirrors, principal_id, opened.chunks)
    return Reading(durable_file(opened.info), opened.start, opened.end, pieces)


class Workspaces:
    """Reads are always allowed; writes and removals are refused (WorkspaceInUse) while a live session holds it.

    A workspace that waits in the spool is delivered before it is changed.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        database: Database,
        mirrors: Mirrors,
        ledger: WorkspaceLedger,
        readiness: Readiness,
        disk_room: DiskRoom,
        access: WorkspaceAccess,
    ) -> None:
        self._settings = settings
        self._database = database
        self._mirrors = mirrors
        self._ledger = ledger
        self._readiness = readiness
        self._disk_room = disk_room
        self._access = access
        self._archives: Counter[str] = Counter()
        """Those being read, by principal."""

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[Workspace]:
        """The principal's workspaces, newest first, with what is known of what they hold."""
        rows, following = await self._database.run(
            lambda connection: sessions.list_workspaces(connection, principal.id, limit, cursor)
        )
        return Page([self._workspace(row) for row in rows], following)

    async def get(self, principal: Principal, workspace_id: str) -> Workspace:
        """A workspace with the number and size of its durable files, counted now if they have not been yet."""
        found = self._workspace(await self._access.row(principal, workspace_id))
        if found.file_count is None:
            with translated():
                summary = await self._mirrors.run_durable(principal.id, self._access.durable(workspace_id).summary)
            found.file_count, found.size_bytes = summary.file_count, summary.size_bytes
            counts = summary.file_count, summary.size_bytes
            await self._database.run(lambda c: workspace_usage.record_first(c, workspace_id, *counts))
        return found

    async def create(self, principal: Principal) -> str:
        """Make a workspace without files or sessions; returns its id."""
        return await self._access.create(principal)

    async def find_session(self, principal: Principal, workspace_id: str) -> tuple[str | None, bool]:
        """The session that used it last, if any has, and whether that one lives; raises NotFound."""
        row = await self._access.row(principal, workspace_id)
        return row.session_id, row.live

    async def is_gone(self, workspace_id: str) -> bool:
        """Whether a workspace of this id was removed, whosever it was: none gets the id again."""
        return await self._access.is_gone(workspace_id)

    def _workspace(self, row: WorkspaceRow) -> Workspace:
        """With what is noted of it and not in the database yet."""
        noted, last = self._ledger.waiting(row.id), max(row.touched or 0.0, row.created)
        workspace = Workspace(row.id, rfc3339(row.created), row.session_id, row.file_count, row.size_bytes)
        if noted is not None:
            last = max(last, noted.touched)
            if noted.file_count is not None:
                workspace.file_count, workspace.size_bytes = noted.file_count, noted.size_bytes
        workspace.touched_at = rfc3339(last)
        return workspace

    async def list_files(
        self,
        principal: Principal,
        workspace_id: str,
        path: str = "",
        *,
        recursive: bool = True,
        limit: int | None = None,
        cursor: str | None = None,
        private: bool = True,
    ) -> Page[FileEntry]:
        """The durable files below a path, by path; without `private`, not those in directories that programs keep."""
        durable = await self._access.open(principal, workspace_id)
        most = self._settings.files_listed

        def page() -> Page[FileEntry]:
            listed = durable.list(path, recursive=recursive)
            found = [_entry(each) for each in listed if private or not is_private(each.path.rpartition("/")[0])]
            return page_of_files(found, most, limit, cursor, complete=True)

        with translated():
            return await self._mirrors.run_durable(principal.id, page)

    async def stat(self, principal: Principal, workspace_id: str, path: str) -> DurableFile:
        """What is durable at a path."""
        durable = await self._access.open(principal, workspace_id)
        with translated():
            return durable_file(await self._mirrors.run_durable(principal.id, lambda: durable.stat(path)))

    async def read(self, principal: Principal, workspace_id: str, path: str) -> tuple[FileEntry, AsyncIterator[bytes]]:
        """A durable file and its bytes."""
        reading = await self.read_part(principal, workspace_id, path, lambda file: (0, file.size))
        return reading.file, reading.chunks

    async def read_part(self, principal: Principal, workspace_id: str, path: str, bounds: Bounds) -> Reading:
        """A durable file and some of its bytes; raises what `bounds` raises."""
        durable = await self._access.open(principal, workspace_id)
        return await read_part(self._mirrors, principal.id, durable, path, bounds)

    async def archive(self, principal: Principal, workspace_id: str, path: str) -> Pieces:
        """A file, or what is below a directory, as a zip archive that is made while it is read; of all when empty.

        Each holds the names of its workspace for as long as it is read, so a principal has few at once: LimitReached.
        """
        durable = await self._access.open(principal, workspace_id)
        self._disk_room.require()
        settings, mirrors = self._settings, self._mirrors
        limits = ArchiveLimits(settings.archive_file_bytes, str(settings.state_path))
        if self._archives[principal.id] >= MOST_ARCHIVES:
            raise LimitReached(
                f"{MOST_ARCHIVES} archives are being made for you: wait until one has arrived",
                retry_after_seconds=RETRY_SECONDS,
            )
        self._archives[principal.id] += 1
        try:
            with translated():
                made = await mirrors.run_durable(principal.id, lambda: durable.archive(path, limits))
        except BaseException:
            self._release_archive(principal.id)
            raise
        return Pieces(mirrors, principal.id, made, lambda: self._release_archive(principal.id))

    def _release_archive(self, principal_id: str) -> None:
        self._archives[principal_id] -= 1
        if not self._archives[principal_id]:
            del self._archives[principal_id]

    async def write(
        self,
        principal: Principal,
        workspace_id: str,
        path: str,
        chunks: AsyncIterator[bytes],
        expected: Expected = ANYTHING,
    ) -> DurableFile:
        """Replace or make a durable file, whole or not at all; raises PreconditionFailed."""
        self._readiness.require_accepting()
        await self._access.require_not_live(principal, workspace_id)
        self._disk_room.require()
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=str(self._settings.state_path)) as file:
            size = await self._collect(chunks, file)
            return await self.put(principal, workspace_id, path, cast("BinaryIO", file), size, expected=expected)

    async def put(
        self, principal: Principal, workspace_id: str, path: str, source: BinaryIO, size: int, *, expected: Expected
    ) -> DurableFile:
        """As `write`, of a local file with exactly `size` bytes."""
        async with self._access.change(principal, workspace_id) as durable:
            with translated():
                found = await self._access.carry_out(
                    principal, workspace_id, lambda: durable.put(path, source, size, expected)
                )
        return durable_file(found)

    async def remove(
        self,
        principal: Principal,
        workspace_id: str,
        path: str,
        *,
        recursive: bool = False,
        dry_run: bool = False,
        expected: Expected = ANYTHING,
    ) -> Removed:
        """Remove a durable file, or a directory with all below it when `recursive`; a dry run only says what."""
        async with self._access.change(principal, workspace_id) as durable:
            with translated():
                gone = await self._access.carry_out(
                    principal,
                    workspace_id,
                    lambda: _remove(durable, path, recursive=recursive, dry_run=dry_run, expected=expected),
                )
        return describe_removal(gone, dry_run=dry_run)

    async def _collect(self, chunks: AsyncIterator[bytes], source: IO[bytes]) -> int:
        size = 0
        async for chunk in limit_bytes(chunks, self._settings.payload_bytes):
            size += source.write(chunk)
        source.seek(0)
        return size


def _remove(durable: DurableWorkspace, path: str, *, recursive: bool, dry_run: bool, expected: Expected) -> Gone:
    if not recursive:
        below = durable.list(path)
        if any(each.path != path.rstrip("/") for each in below):
            raise Conflict("the directory is not empty; remove it with recursive", reason="not_empty")
    return durable.delete(path, expected, dry_run=dry_run)


def _entry(found: FileInfo) -> FileEntry:
    return FileEntry(found.path, found.kind, found.size, rfc3339(found.modified))
