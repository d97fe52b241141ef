"""Durable files copied between two workspaces of one principal: the one way data moves between sessions.

What a live session holds of the source is flushed first, and what waits on this host for the store is delivered. The
target must not be live, since its session would not see the files.
"""

from __future__ import annotations

import asyncio

from kernel_gateway.errors import InvalidRequest, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.mirroring.mirrors import Mirrors, prefix
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from sandcell.models.workspaces import MOST_NAMED, Copied, CopyFiles
from workspace_sync import TransferLimits
from workspace_sync.threads import Threads
from workspace_sync.workspaces.copying import CopyPlan, WorkspaceCopy


class FileCopies:
    """Another principal's workspace is not found, as source and as target."""

    def __init__(
        self, mirrors: Mirrors, background: Background, access: WorkspaceAccess, copies: WorkspaceCopies
    ) -> None:
        self._mirrors = mirrors
        self._background = background
        self._access = access
        self._copies = copies

    async def copy(self, principal: Principal, workspace_id: str, body: CopyFiles) -> Copied:
        """Copy files, or only say what would be copied.

        Raises NotFound (a workspace, a path), WorkspaceInUse (the target), Conflict, StoreUnavailable, DeadlinePassed.
        A caller who goes away stops nothing.
        """
        if body.to == workspace_id and not body.to_path:
            raise InvalidRequest("a workspace cannot be copied onto itself: say another one, or a to_path", field="to")
        await self._access.row(principal, workspace_id)
        work = self._copy(principal, workspace_id, body)
        return await self._background.carry_out(work, f"copy to {body.to}")

    async def _copy(self, principal: Principal, workspace_id: str, body: CopyFiles) -> Copied:
        limits = TransferLimits()
        copying = WorkspaceCopy(self._mirrors.store, prefix(workspace_id), prefix(body.to), limits)
        threads = Threads(self._mirrors.apart.of(principal.id), limits.concurrency)
        async with self._access.change(principal, body.to), asyncio.timeout(limits.attempt_seconds):
            with translated():
                await self._copies.bring_up_to_date(workspace_id)
                plan = await self._mirrors.run_durable(
                    principal.id, lambda: copying.plan(body.paths, body.to_path, overwrite=body.overwrite)
                )
                if not body.dry_run:
                    await copying.carry_out(plan, threads)
            return await self._mirrors.run_durable(principal.id, lambda: _copy_files(plan, dry_run=body.dry_run))


def _copy_files(plan: CopyPlan, *, dry_run: bool) -> Copied:
    paths = plan.paths
    return Copied(
        dry_run=dry_run,
        file_count=len(plan.files),
        size_bytes=plan.size_bytes,
        overwritten=plan.overwritten,
        unchanged=plan.unchanged,
        paths=paths[:MOST_NAMED],
        omitted=max(0, len(paths) - MOST_NAMED),
    )
