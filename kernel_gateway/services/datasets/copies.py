"""A dataset passed to another workspace by its name: the file by a copy inside the store, and what is known of it."""

from __future__ import annotations

import uuid
from dataclasses import replace

from kernel_gateway.errors import Conflict, InvalidRequest
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.datasets.datasets import Datasets
from kernel_gateway.services.workspaces.file_copies import FileCopies
from sandcell.models.datasets import CopyDataset, Dataset
from sandcell.models.workspaces import CopyFiles


class DatasetCopies:
    """Both workspaces are the principal's own; no session lives on the one that the dataset goes to."""

    def __init__(self, clock: Clock, datasets: Datasets, files: FileCopies) -> None:
        self._clock = clock
        self._datasets = datasets
        self._files = files

    async def copy(
        self, principal: Principal, workspace_id: str, name: str, body: CopyDataset, *, was_flushed: bool = False
    ) -> Dataset:
        """Copy it; raises NotFound, Conflict (changed, a name or a file in the way), WorkspaceInUse, QuotaReached.

        `was_flushed`: where a live session of another gateway has the source, that one has flushed it.
        """
        row = await self._datasets.row(principal, workspace_id, name)
        if body.to == workspace_id:
            raise InvalidRequest("the dataset is in this workspace: say another one", field="to")
        now = self._clock.now()
        made = replace(
            row,
            id=str(uuid.uuid4()),
            workspace_id=body.to,
            name=body.name or name,
            path=f"{body.to_path}/{row.path}" if body.to_path else row.path,
            created=now,
            updated=now,
        )
        await self._datasets.require_free(principal, made)
        await self._datasets.bring_up_to_date(principal, workspace_id, was_flushed=was_flushed)
        if await self._datasets.is_stale(principal, row):
            raise Conflict("the file has changed since it was looked at: register it again first", reason="stale")
        await self._files.copy(principal, workspace_id, CopyFiles(body.to, [row.path], body.to_path, body.overwrite))
        if await self._datasets.is_stale(principal, made):
            raise Conflict("the file changed while it was copied: register it again first", reason="stale")
        return await self._datasets.keep(principal, made)
