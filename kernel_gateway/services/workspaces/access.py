"""The way to a principal's durable workspace: found or not found, and not changed under a live session."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from sqlalchemy import Connection

from kernel_gateway.errors import NotFound, WorkspaceInUse, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.mirroring.durable_changes import DurableChanges
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.storage import sessions, workspace_usage
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import WorkspaceRow
from kernel_gateway.storage.states import gateways
from sandcell.models.workspaces import MOST_NAMED, DurableFile, Removed
from workspace_sync import DurableWorkspace, FileInfo
from workspace_sync import Removed as Gone

T = TypeVar("T")
UNFIT = re.compile(r"[^A-Za-z0-9._-]")
"""Characters of a store's own tag that are left out of the entity tag."""


class WorkspaceAccess:
    """Another principal's workspace is not found."""

    def __init__(
        self,
        *,
        clock: Clock,
        database: Database,
        mirrors: Mirrors,
        spool: Spool,
        ledger: WorkspaceLedger,
        durable_changes: DurableChanges,
        readiness: Readiness,
    ) -> None:
        self._clock = clock
        self._database = database
        self._mirrors = mirrors
        self._spool = spool
        self._ledger = ledger
        self._durable_changes = durable_changes
        self._readiness = readiness

    async def create(self, principal: Principal) -> str:
        """A workspace without files or sessions; returns its id."""
        self._readiness.require_accepting()
        workspace_id, now = str(uuid.uuid4()), self._clock.now()
        await self._database.run(lambda c: sessions.add_workspace(c, workspace_id, principal.id, now))
        return workspace_id

    async def row(self, principal: Principal, workspace_id: str) -> WorkspaceRow:
        """The workspace's row; raises NotFound."""
        row = await self._database.run(lambda c: sessions.find_workspace(c, workspace_id, principal.id))
        if row is None:
            raise NotFound("there is no such workspace")
        return row

    async def open(self, principal: Principal, workspace_id: str) -> DurableWorkspace:
        """Its files in the store, to read."""
        found = await self.row(principal, workspace_id)
        self._ledger.touch(found.id)
        return self.durable(found.id)

    @asynccontextmanager
    async def change(self, principal: Principal, workspace_id: str) -> AsyncIterator[DurableWorkspace]:
        """Its files in the store, to change; what waits in the spool is delivered first. Raises WorkspaceInUse."""
        self._readiness.require_accepting()
        await self.row(principal, workspace_id)  # nothing of another principal's is touched or held up
        with self._durable_changes.change(workspace_id):
            await self._touch(workspace_id)
            await self.require_not_live(principal, workspace_id)
            with translated():
                await self._spool.deliver(workspace_id)
            yield self.durable(workspace_id)

    async def carry_out(self, principal: Principal, workspace_id: str, work: Callable[[], T]) -> T:
        """Change files in a thread; they count as changing until it has ended, also when the caller no longer waits.

        Raises errors of workspace_sync, TimeoutError.
        """
        changes = self._durable_changes
        changes.begin(workspace_id)
        return await self._mirrors.run_durable(principal.id, work, lambda: changes.end(workspace_id))

    async def require_not_live(self, principal: Principal, workspace_id: str) -> WorkspaceRow:
        """The workspace's row; raises NotFound, WorkspaceInUse."""
        row = await self.row(principal, workspace_id)
        if row.live:
            raise WorkspaceInUse(
                "a live session holds this workspace: change its files through the session",
                workspace_id=workspace_id,
                session_id=row.session_id,
            )
        return row

    async def is_gone(self, workspace_id: str) -> bool:
        """Whether a workspace has been removed, of any principal."""
        return await self._database.run(lambda c: workspace_usage.is_deleted(c, workspace_id))

    async def _touch(self, workspace_id: str) -> None:
        """In the database at once: from here on it is too young to expire. Raises SessionElsewhere."""
        now = self._clock.now()

        def touch(connection: Connection) -> None:
            gateways.require_home(connection, workspace_id)
            workspace_usage.record(connection, [(workspace_id, now, None, None)])

        await self._database.run(touch)

    def durable(self, workspace_id: str) -> DurableWorkspace:
        """The files of a workspace that has been found."""
        return self._mirrors.durable(workspace_id)


def durable_file(info: FileInfo) -> DurableFile:
    """A durable file as callers see it."""
    is_file = info.kind == "file"
    return DurableFile(
        path=info.path,
        kind=info.kind,
        size=info.size,
        modified_at=rfc3339(info.modified),
        mode=f"{info.mode:o}",
        sha256=(info.sha256 or None) if is_file else None,
        etag=etag_of(info) if is_file else None,
        target=info.target if info.kind == "link" else None,
    )


def etag_of(info: FileInfo) -> str:
    """The entity tag of a file: its digest, or a weak one of the store's when the digest is not known."""
    return f'"{info.sha256}"' if info.sha256 else f'W/"{UNFIT.sub("", info.etag)}"'


def describe_removal(gone: Gone, *, dry_run: bool) -> Removed:
    """What was removed, as callers see it."""
    paths = list(gone.paths[:MOST_NAMED])
    return Removed(dry_run, gone.file_count, gone.size_bytes, paths, len(gone.paths) - len(paths))
