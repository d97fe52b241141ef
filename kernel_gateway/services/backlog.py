"""What waits on this host for the store, and what there is to be removed: brought on again and again, until it is done.

It may take as long as the store does, so nothing waits for it: neither calls nor the sweep that compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog
from sqlalchemy import Connection

from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.results.kept_outputs import KeptOutputs
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.services.workspaces.retention import Retention
from kernel_gateway.services.workspaces.staged_uploads import StagedUploads
from kernel_gateway.services.workspaces.uploads import Uploads
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.states import gateways
from kernel_gateway.storage.workspace_usage import is_deleted

log = structlog.get_logger(__name__)


class Backlog:
    """`take_up` once at start, then `work_off` at every sweep.

    `service_id` is that of the data directory; `remove_spent` remove states of sessions that nobody is to have any more
    from the store.
    """

    def __init__(
        self,
        *,
        database: Database,
        service_id: str,
        kept_outputs: KeptOutputs,
        spool: Spool,
        notebooks: Notebooks,
        removals: WorkspaceRemovals,
        retention: Retention,
        staged_uploads: StagedUploads,
        uploads: Uploads,
        registry: Registry,
        remove_spent: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self._database = database
        self._service_id = service_id
        self._kept_outputs = kept_outputs
        self._spool = spool
        self._notebooks = notebooks
        self._removals = removals
        self._retention = retention
        self._staged_uploads = staged_uploads
        self._uploads = uploads
        self._registry = registry
        self._remove_spent = remove_spent

    def take_up(self) -> None:
        """Finish what an earlier process left half done, and learn what waits."""
        self._spool.clear()
        self._kept_outputs.clear()
        self._notebooks.take_up()
        self._staged_uploads.load()

    async def set_aside_moved(self) -> None:
        """Called once at start: another gateway may have had a workspace since, and changed its files."""
        waiting = self._spool.waiting()

        def find(connection: Connection) -> tuple[list[str], set[str]]:
            moved = gateways.list_moved(connection, waiting, self._service_id)
            return moved, {each for each in moved if is_deleted(connection, each)}

        moved, deleted = await self._database.run(find)
        for each in moved:
            if each in deleted:
                await self._spool.discard(each)
            else:
                await asyncio.to_thread(self._spool.set_aside, each)
        await self._database.run(lambda c: gateways.take_all(c, self._service_id))

    async def work_off(self) -> None:
        """What needs no store, then what is to be kept, then what is to go. None that fails keeps another back."""
        for each in (
            self._uploads.sweep,
            self._kept_outputs.deliver_all,
            self._deliver_spooled,
            self._notebooks.save_stale,
            self._removals.finish_all,
            *self._remove_spent,
            self._retention.sweep,
        ):
            try:
                await each()
            except Exception as error:
                log.error("sweep_failed", exc_info=error)

    async def _deliver_spooled(self) -> None:
        # Asked for each workspace when its turn comes: a session that has begun meanwhile delivers its own copy.
        await self._spool.deliver_all(
            lambda workspace_id: any(live.row.workspace_id == workspace_id for live in self._registry)
        )
