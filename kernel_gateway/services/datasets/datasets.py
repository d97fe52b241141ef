"""Datasets: files of a workspace under names, with what they hold, so that no caller has to read megabytes to know.

A dataset is a handle. Its file is found by its path, described once in a sandbox, and known by its SHA-256: when the
durable file is another one, the dataset is stale until it is registered again.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway.errors import Conflict, InvalidRequest, NotFound, QuotaReached, WorkspaceInUse, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.datasets.sandbox import DatasetSandbox, Wanted
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.settings import Settings
from kernel_gateway.storage import datasets
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.datasets import DatasetRow
from sandcell.models.datasets import Dataset, RegisterDataset, load_expression
from sandcell.models.model import Page
from workspace_sync import DurableWorkspace, FileInfo

INSTEAD = {
    "directory": "register one file in it",
    "link": "register the file that it leads to",
}


class Datasets:
    """Of the principal's own workspaces; another's is not found."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        mirrors: Mirrors,
        ledger: WorkspaceLedger,
        readiness: Readiness,
        access: WorkspaceAccess,
        copies: WorkspaceCopies,
        sandbox: DatasetSandbox,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._mirrors = mirrors
        self._ledger = ledger
        self._readiness = readiness
        self._access = access
        self._copies = copies
        self._registry = registry
        self._sandbox = sandbox

    async def register(self, principal: Principal, workspace_id: str, body: RegisterDataset) -> Dataset:
        """Look at a file and give it a name; a live session's files are flushed first.

        Raises NotFound, Conflict, QuotaReached, WorkspaceInUse, UnreadableFile, StoreUnavailable, SandboxUnavailable.
        """
        self._readiness.require_accepting()
        _require_text(body.path)
        await self._access.row(principal, workspace_id)
        known = await self._find_dataset(workspace_id, body.name)
        if known is None:
            await self._require_room(workspace_id)
        elif known.path != body.path:
            raise _make_taken_error(known)
        await self.bring_up_to_date(principal, workspace_id)
        durable = self._access.durable(workspace_id)
        info = await self._file(principal, durable, body.path)
        if known is not None and info.sha256 == known.sha256 and _read_as(known, body):
            return self._dataset(known, stale=False)
        wanted = Wanted(principal.id, durable, body.path, info.size, body.format, body.encoding)
        profiled = await self._sandbox.describe(wanted)
        now = self._clock.now()
        made = DatasetRow(
            id=known.id if known else str(uuid.uuid4()),
            workspace_id=workspace_id,
            name=body.name,
            path=body.path,
            sha256=profiled.sha256,
            size_bytes=profiled.size,
            profile=profiled.profile,
            created=known.created if known else now,
            updated=now,
        )
        await self._store(principal, made, new=known is None)
        return self._dataset(made, stale=False)

    async def list(
        self, principal: Principal, workspace_id: str, limit: int = 100, cursor: str | None = None
    ) -> Page[Dataset]:
        """A workspace's datasets without their profiles, oldest first."""
        await self._access.row(principal, workspace_id)
        rows, following = await self._database.run(lambda c: datasets.list_of(c, workspace_id, limit, cursor))
        return Page([self._dataset(row, profile=False) for row in rows], following)

    async def get(self, principal: Principal, workspace_id: str, name: str) -> Dataset:
        """A dataset with its profile, and whether its durable file is still the one that was looked at."""
        row = await self.row(principal, workspace_id, name)
        self._ledger.touch(workspace_id)
        return self._dataset(row, stale=await self.is_stale(principal, row))

    async def remove(self, principal: Principal, workspace_id: str, name: str) -> None:
        """Forget a dataset; its file stays."""
        await self._access.row(principal, workspace_id)
        if not await self._database.run(lambda c: datasets.remove(c, workspace_id, name)):
            raise _make_absent_error()

    async def row(self, principal: Principal, workspace_id: str, name: str) -> DatasetRow:
        """The stored dataset; raises NotFound."""
        await self._access.row(principal, workspace_id)
        found = await self._find_dataset(workspace_id, name)
        if found is None:
            raise _make_absent_error()
        return found

    async def is_stale(self, principal: Principal, row: DatasetRow) -> bool | None:
        """Whether the durable file is another one by now, or gone; None when its SHA-256 is not known."""
        try:
            with translated():
                info = await self._mirrors.run_durable(
                    principal.id, lambda: self._access.durable(row.workspace_id).stat(row.path)
                )
        except NotFound:
            return True
        if info.kind != "file" or info.size != row.size_bytes:
            return True
        return info.sha256 != row.sha256 if info.sha256 else None

    async def require_free(self, principal: Principal, row: DatasetRow) -> DatasetRow | None:
        """The dataset that a row would take the place of, of the same name and path; raises Conflict, QuotaReached."""
        await self._access.row(principal, row.workspace_id)
        known = await self._find_dataset(row.workspace_id, row.name)
        if known is None:
            await self._require_room(row.workspace_id)
        elif known.path != row.path:
            raise _make_taken_error(known)
        return known

    async def keep(self, principal: Principal, row: DatasetRow) -> Dataset:
        """Store a dataset whose file is known to be there, in place of one of its name and path."""
        known = await self.require_free(principal, row)
        if known is not None:
            row = replace(row, id=known.id, created=known.created)
        await self._store(principal, row, new=known is None)
        return self._dataset(row, stale=False)

    async def bring_up_to_date(self, principal: Principal, workspace_id: str, *, was_flushed: bool = False) -> None:
        """Have the store hold what the workspace has now; raises WorkspaceInUse where another gateway has to."""
        row = await self._access.row(principal, workspace_id)
        if row.live and (row.session_id is None or row.session_id not in self._registry):
            if was_flushed:
                return
            raise WorkspaceInUse(
                "a live session of another gateway holds this workspace: ask there, or when it has ended",
                workspace_id=workspace_id,
                session_id=row.session_id,
            )
        with translated():
            await self._copies.bring_up_to_date(workspace_id)

    async def _find_dataset(self, workspace_id: str, name: str) -> DatasetRow | None:
        return await self._database.run(lambda c: datasets.find(c, workspace_id, name))

    async def _require_room(self, workspace_id: str) -> None:
        most = self._settings.datasets_per_workspace
        if await self._database.run(lambda c: datasets.count(c, workspace_id)) >= most:
            raise QuotaReached(f"the workspace has {most:,} datasets, and not more: remove one", quota=most)

    async def _file(self, principal: Principal, durable: DurableWorkspace, path: str) -> FileInfo:
        try:
            with translated():
                info = await self._mirrors.run_durable(principal.id, lambda: durable.stat(path))
        except NotFound:
            raise NotFound(f"the workspace has no file {path!r}: write or upload it first") from None
        if info.kind != "file":
            raise Conflict(f"{path!r} is a {info.kind}, not a file: {INSTEAD[info.kind]}", reason="not_a_file")
        return info

    async def _store(self, principal: Principal, row: DatasetRow, *, new: bool) -> None:
        """Raises NotFound when the workspace or the dataset has been removed meanwhile, Conflict for a taken name."""
        await self._access.row(principal, row.workspace_id)

        def store(connection: Connection) -> bool:
            if not new:
                return datasets.replace(connection, row)
            datasets.add(connection, row)
            return True

        try:
            stored = await self._database.run(store)
        except IntegrityError:
            raise Conflict(f"somebody registered the name {row.name} meanwhile", reason="name_taken") from None
        if not stored:
            raise NotFound("the dataset was removed while its file was looked at")

    @staticmethod
    def _dataset(row: DatasetRow, *, stale: bool | None = None, profile: bool = True) -> Dataset:
        location = f"/workspace/{row.path}"
        return Dataset(
            id=row.id,
            workspace_id=row.workspace_id,
            name=row.name,
            path=row.path,
            location=location,
            format=row.profile.format,
            size_bytes=row.size_bytes,
            sha256=row.sha256,
            rows=row.profile.rows,
            rows_exact=row.profile.rows_exact,
            column_count=row.profile.column_count,
            load=load_expression(location, row.profile),
            created_at=rfc3339(row.created),
            updated_at=rfc3339(row.updated),
            stale=stale,
            profile=row.profile if profile else None,
        )


def _read_as(row: DatasetRow, body: RegisterDataset) -> bool:
    """Whether it was read as the body wants it."""
    return body.format in (None, row.profile.format) and body.encoding in (None, row.profile.encoding)


def _require_text(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("the path is not UTF-8: rename the file", field="path") from None


def _make_taken_error(known: DatasetRow) -> Conflict:
    return Conflict(
        f"the name {known.name} is that of {known.path!r}: remove that dataset first, or choose another name",
        reason="name_taken",
    )


def _make_absent_error() -> NotFound:
    return NotFound("the workspace has no such dataset")
