"""A copy of a workspace's files for a session that is about to start: it restores them as its own.

What a live session holds is flushed first, and what waits on this host for the store is delivered, so that the copy has
what the workspace has now. The original is never changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import structlog

from kernel_gateway.errors import GatewayError, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.mirroring.mirrors import Mirrors, prefix
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.settings import Settings
from workspace_sync import DurableWorkspace
from workspace_sync.errors import WorkspaceSyncError
from workspace_sync.workspaces.file_info import FileInfo

log = structlog.get_logger(__name__)


def keep_all(_file: FileInfo) -> bool:
    """The choice of who copies a workspace as it is."""
    return True


class WorkspaceCopies:
    """`copy` before the session starts; `discard` when it does not."""

    def __init__(
        self,
        *,
        settings: Settings,
        mirrors: Mirrors,
        spool: Spool,
        ledger: WorkspaceLedger,
        background: Background,
        access: WorkspaceAccess,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._mirrors = mirrors
        self._spool = spool
        self._ledger = ledger
        self._background = background
        self._access = access
        self._registry = registry

    async def require(self, principal: Principal, workspace_id: str) -> None:
        """Raises NotFound unless it is a workspace of the principal's."""
        await self._access.row(principal, workspace_id)

    async def copy(
        self, principal: Principal, workspace_id: str, session_id: str, keep: Callable[[FileInfo], bool] = keep_all
    ) -> list[str]:
        """The files of one of the principal's workspaces become those that the session will start with.

        Those that are not to be kept are left out, and returned. When it is cancelled nothing is left of the copy.
        Raises NotFound, StoreUnavailable, DeadlinePassed.
        """
        await self.require(principal, workspace_id)
        with translated():
            await self.bring_up_to_date(workspace_id)
        return await self.copy_durable(self._mirrors.durable(workspace_id), session_id, keep)

    async def copy_durable(
        self, files: DurableWorkspace, session_id: str, keep: Callable[[FileInfo], bool] = keep_all
    ) -> list[str]:
        """The same of files that are durable, wherever in the store they lie, as the caller may know."""
        given_up = threading.Event()
        with translated():
            try:
                return await self._mirrors.run(
                    partial(files.copy_to, prefix(session_id), lambda: not given_up.is_set(), keep)
                )
            except BaseException:  # cancelled, or too late: its thread goes on until it looks at `given_up`
                given_up.set()
                self._background.spawn(self.discard(session_id), f"discard the copy for {session_id}")
                raise

    async def list_files(self, workspace_id: str) -> list[FileInfo]:
        """The durable files of a workspace, which is the caller's business to have looked at; as of its last flush."""
        with translated():
            found = await self._mirrors.run(self._mirrors.durable(workspace_id).list)
        return [each for each in found if each.kind == "file"]

    async def discard(self, session_id: str) -> None:
        """Remove the copy for a session that did not start; what the store does not do now, it keeps."""
        try:
            with translated():
                await self._mirrors.run(self._mirrors.durable(session_id).clear)
        except GatewayError as error:
            log.warning("copy_not_removed", session=session_id, error=error.code)

    async def bring_up_to_date(self, workspace_id: str) -> None:
        """Have the store hold what the workspace has now, for a reader.

        Raises errors of workspace_sync, TimeoutError.
        """
        self._ledger.touch(workspace_id)
        await self._spool.deliver(workspace_id)
        for live in self._registry:
            mirror = live.sandbox.mirror if live.sandbox.workspace_ready else None  # else the store has all there is
            if live.row.workspace_id == workspace_id and mirror is not None:
                try:
                    await mirror.flush(self._settings.flush_deadline_seconds)
                except (WorkspaceSyncError, TimeoutError):
                    log.warning("copied_without_flush", session=live.id)
                    raise
