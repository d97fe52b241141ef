"""Whole workspaces removed: no longer found from one moment on, then taken out of the store, whatever happens between.

The files, their manifest, what waits of them in the spool and the datasets go. Notebooks and outputs next to them stay:
they are the record of sessions. A mark on this host's disk stands for a removal that is not finished; the sweep goes on
with it when the store did not do it at once.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError, NotFound, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.fair_shares import SERVICE
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.mirroring.durable_changes import DurableChanges
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.workspaces.access import WorkspaceAccess, describe_removal
from kernel_gateway.settings import Settings
from kernel_gateway.storage import workspace_usage as workspace_removal
from kernel_gateway.storage.database import Database
from sandcell.models.workspaces import MOST_NAMED, Removed

CHANGES_SECONDS = 10.0
"""How long a removal waits for changes of files under way, before it is left to the sweep."""
log = structlog.get_logger(__name__)


class WorkspaceRemovals:
    """`remove` for a principal, `expire` for the service itself, `finish_all` at start and in each sweep."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        mirrors: Mirrors,
        spool: Spool,
        ledger: WorkspaceLedger,
        durable_changes: DurableChanges,
        readiness: Readiness,
        background: Background,
        access: WorkspaceAccess,
    ) -> None:
        self._clock = clock
        self._database = database
        self._mirrors = mirrors
        self._spool = spool
        self._ledger = ledger
        self._durable_changes = durable_changes
        self._readiness = readiness
        self._background = background
        self._access = access
        self._marks: Path = settings.state_path / "removals"
        self._beginning: set[str] = set()
        """Marked, and not yet deleted for everybody: their marks are left alone."""

    async def remove(self, principal: Principal, workspace_id: str, *, dry_run: bool = False) -> Removed:
        """Remove a workspace, or only say what would go. Raises NotFound, WorkspaceInUse, StoreUnavailable.

        Once the store has said what is in it the removal is sure: what the store does not do now it does later.
        """
        self._readiness.require_accepting()
        await self._access.require_not_live(principal, workspace_id)
        answer = await self._list_contents(principal, workspace_id, dry_run=dry_run)
        if dry_run:
            return answer
        removing = self.expire(workspace_id)
        pending = await self._background.carry_out(removing, f"removal of {workspace_id}")
        if pending is None:
            await self._access.require_not_live(principal, workspace_id)  # says which of the two it was
            raise NotFound("there is no such workspace")
        answer.pending = pending
        return answer

    async def expire(self, workspace_id: str, *, untouched_since: float | None = None) -> bool | None:
        """Remove a workspace; None when a live session holds it or it is gone, else whether the store has still to.

        One that anybody has used since `untouched_since` stays as well.
        """
        if not await self._begin(workspace_id, untouched_since):
            await self._finish(workspace_id)  # of one that is gone; the mark of one that lives is taken away
            return None
        log.info("workspace_removed", workspace=workspace_id)
        return not await self._finish(workspace_id)

    async def finish_all(self) -> None:
        """Go on with removals that the store has not carried out yet."""
        for workspace_id in await asyncio.to_thread(self._read_marks):
            if workspace_id not in self._beginning:
                await self._finish(workspace_id)

    async def _begin(self, workspace_id: str, untouched_since: float | None) -> bool:
        """Mark it, then delete it for everybody; False when a live session holds it, or it is gone or was used."""
        self._beginning.add(workspace_id)
        try:
            # The mark first: after a crash it is what says that files of a deleted workspace are still to go.
            await asyncio.to_thread(self._mark, workspace_id)
            now = self._clock.now()

            def delete(connection: Connection) -> bool:
                if untouched_since is not None and self._ledger.waiting(workspace_id) is not None:
                    return False  # it is in use now, and the database is soon told
                return workspace_removal.mark_deleted(connection, workspace_id, now, untouched_since=untouched_since)

            return await self._database.run(delete)
        finally:
            self._beginning.discard(workspace_id)

    async def _list_contents(self, principal: Principal, workspace_id: str, *, dry_run: bool) -> Removed:
        durable = self._access.durable(workspace_id)
        with translated():
            contents, beside = await self._mirrors.run_durable(principal.id, durable.contents)
        answer = describe_removal(contents, dry_run=dry_run)
        answer.kept = beside[:MOST_NAMED]
        return answer

    async def _finish(self, workspace_id: str) -> bool:
        """Take the files out of the store, then the mark away; says whether that is done."""
        try:
            if await self._database.run(lambda c: workspace_removal.is_deleted(c, workspace_id)):
                # A change that found the workspace before it was gone would leave files of it behind.
                await self._durable_changes.wait_settled(workspace_id, CHANGES_SECONDS)
                await self._spool.discard(workspace_id)
                with translated():
                    await self._mirrors.run_durable(SERVICE, self._access.durable(workspace_id).remove_files)
            await asyncio.to_thread((self._marks / workspace_id).unlink, missing_ok=True)
        except (GatewayError, OSError) as error:
            log.warning("workspace_removal_waits", workspace=workspace_id, error=str(error))
            return False
        return True

    def _mark(self, workspace_id: str) -> None:
        self._marks.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self._marks / workspace_id).touch()

    def _read_marks(self) -> list[str]:
        return sorted(each.name for each in self._marks.iterdir()) if self._marks.is_dir() else []
