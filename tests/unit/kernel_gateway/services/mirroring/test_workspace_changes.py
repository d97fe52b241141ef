"""Workspaces changed, used and removed at once: what is under way counts until it has ended."""

from __future__ import annotations

import asyncio
import io
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection

from kernel_gateway.errors import DeadlinePassed, LimitReached, NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.mirroring import mirrors
from kernel_gateway.services.mirroring.deliveries import Deliveries
from kernel_gateway.services.mirroring.durable_changes import DurableChanges
from kernel_gateway.services.mirroring.mirrors import Mirrors, prefix
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.mirroring.workspace_ledger import WorkspaceLedger
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.access import WorkspaceAccess
from kernel_gateway.services.workspaces.file_copies import FileCopies
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.services.workspaces.workspaces import MOST_ARCHIVES, Workspaces
from kernel_gateway.settings import Settings
from kernel_gateway.storage import sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import Record, SessionRow
from kernel_gateway.storage.tables import principals
from sandcell.models.sessions import Usage
from sandcell.models.sync import DurableExecution, Sync
from sandcell.models.workspaces import CopyFiles
from tests.doubles.turned_clock import TurnedClock
from workspace_sync import AsOf, open_store

SECONDS = 120.0
WORKSPACE = "one"
NAMES = ("waits", "failed", "starts")
ANN = Principal("ann", "ann", admin=False)


async def opened(_sandbox_id: str, _path: bytes) -> int:
    raise OSError


class Place:
    """The services of durable workspaces, without sandboxes."""

    def __init__(self, directory: Path) -> None:
        self.settings = Settings(data_dir=str(directory))
        self.clock = TurnedClock()
        self.database = Database(f"sqlite:///{directory / 'database'}")
        self.mirrors = Mirrors(open_store(f"file://{directory / 'store'}"), 2, opened)
        self.spool = Spool(self.settings.state_path / "spool", self.mirrors)
        self.ledger = WorkspaceLedger(self.database, self.clock)
        self.changes = DurableChanges()
        self._readiness = Readiness(self.database, lambda: None)
        self._background = Background()
        self.access = WorkspaceAccess(
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            spool=self.spool,
            ledger=self.ledger,
            durable_changes=self.changes,
            readiness=self._readiness,
        )
        self.removals = WorkspaceRemovals(
            settings=self.settings,
            clock=self.clock,
            database=self.database,
            mirrors=self.mirrors,
            spool=self.spool,
            ledger=self.ledger,
            durable_changes=self.changes,
            readiness=self._readiness,
            background=self._background,
            access=self.access,
        )

    def copies(self) -> WorkspaceCopies:
        return WorkspaceCopies(
            settings=self.settings,
            mirrors=self.mirrors,
            spool=self.spool,
            ledger=self.ledger,
            background=self._background,
            access=self.access,
            registry=Registry(self.database),
        )

    def file_copies(self, copies: WorkspaceCopies) -> FileCopies:
        return FileCopies(self.mirrors, self._background, self.access, copies)

    def workspaces(self) -> Workspaces:
        return Workspaces(
            settings=self.settings,
            database=self.database,
            mirrors=self.mirrors,
            ledger=self.ledger,
            readiness=self._readiness,
            disk_room=DiskRoom(self.settings.data_dir, 0),
            access=self.access,
        )


@asynccontextmanager
async def place_in(directory: Path) -> AsyncIterator[Place]:
    """One old workspace is there."""
    place = Place(directory)
    await place.database.open()
    await place.database.run(
        lambda c: c.execute(principals.insert().values(id=ANN.id, name=ANN.name, admin=False, created=0)).rowcount
    )
    await place.database.run(lambda c: sessions.add_workspace(c, WORKSPACE, ANN.id, 0.0))
    try:
        yield place
    finally:
        place.mirrors.close()
        await place.database.aclose()
        place.mirrors.store.close()


def test_a_change_counts_until_its_thread_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that nobody waits for any more may still write: no session starts on the workspace meanwhile."""
    monkeypatch.setattr(mirrors, "STORE_SECONDS", 0.05)
    rest = threading.Event()

    async def test() -> None:
        async with place_in(tmp_path) as place:
            access, changes = place.access, place.changes
            with pytest.raises(TimeoutError):
                async with access.change(ANN, WORKSPACE):
                    await access.carry_out(ANN, WORKSPACE, lambda: rest.wait(SECONDS))
            with pytest.raises(DeadlinePassed):
                await changes.wait_settled(WORKSPACE, 0.05)
            rest.set()
            await changes.wait_settled(WORKSPACE, SECONDS)

    try:
        asyncio.run(test())
    finally:
        rest.set()


def test_what_is_used_just_now_does_not_expire(tmp_path: Path) -> None:
    async def test() -> None:
        async with place_in(tmp_path) as place:
            removals, now = place.removals, place.clock.now()
            await place.access.open(ANN, WORKSPACE)
            assert await removals.expire(WORKSPACE, untouched_since=now - 1) is None
            await place.access.row(ANN, WORKSPACE)
            await place.ledger.flush()
            assert await removals.expire(WORKSPACE, untouched_since=now - 1) is None
            assert await removals.expire(WORKSPACE, untouched_since=now + 1) is False
            with pytest.raises(NotFound):
                await place.access.row(ANN, WORKSPACE)

    asyncio.run(test())


def test_a_removal_leaves_nothing_of_a_change_under_way(tmp_path: Path) -> None:
    """What was being written when its workspace was removed is removed with it."""
    writing, rest = threading.Event(), threading.Event()

    async def test() -> None:
        async with place_in(tmp_path) as place:
            access, removals = place.access, place.removals
            durable = place.mirrors.durable(WORKSPACE)

            def write() -> None:
                writing.set()
                rest.wait(SECONDS)
                durable.put("late", io.BytesIO(b"x"), 1)

            async def change() -> None:
                async with access.change(ANN, WORKSPACE):
                    await access.carry_out(ANN, WORKSPACE, write)

            changing = asyncio.create_task(change())
            assert await asyncio.to_thread(writing.wait, SECONDS)
            removing = asyncio.create_task(removals.expire(WORKSPACE))
            until = time.monotonic() + SECONDS
            while not await _is_gone(access) and time.monotonic() < until:
                await asyncio.sleep(0.01)
            rest.set()
            await changing
            assert await removing is False
            assert list(place.mirrors.store.list(prefix(WORKSPACE) + "/")) == []

    try:
        asyncio.run(test())
    finally:
        rest.set()


def test_a_principal_has_few_archives_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with place_in(tmp_path) as place:
            workspaces = place.workspaces()
            place.settings.state_path.mkdir(parents=True, exist_ok=True)
            place.mirrors.durable(WORKSPACE).put("file", io.BytesIO(b"x"), 1)
            made = [await workspaces.archive(ANN, WORKSPACE, "") for _ in range(MOST_ARCHIVES)]
            with pytest.raises(LimitReached):
                await workspaces.archive(ANN, WORKSPACE, "")
            assert b"".join([piece async for piece in made[0]]).startswith(b"PK")
            await made[1].aclose()
            await made[1].aclose()
            for _ in range(2):
                with pytest.raises(NotFound):
                    await workspaces.archive(ANN, WORKSPACE, "absent")
            made += [await workspaces.archive(ANN, WORKSPACE, "") for _ in range(2)]
            with pytest.raises(LimitReached):
                await workspaces.archive(ANN, WORKSPACE, "")
            for each in made:
                await each.aclose()

    asyncio.run(test())


def test_a_workspace_that_is_copied_from_is_in_use(tmp_path: Path) -> None:
    """One that serves as a template is read whenever it is copied."""

    async def test() -> None:
        async with place_in(tmp_path) as place:
            copies, removals = place.copies(), place.removals
            place.mirrors.durable(WORKSPACE).put("file", io.BytesIO(b"x"), 1)
            await copies.copy(ANN, WORKSPACE, "new")
            assert await removals.expire(WORKSPACE, untouched_since=place.clock.now()) is None
            await place.database.run(lambda c: sessions.add_workspace(c, "target", ANN.id, 0.0))
            await place.ledger.flush()
            await place.file_copies(copies).copy(ANN, WORKSPACE, CopyFiles("target"))
            assert place.ledger.waiting(WORKSPACE) is not None
            assert place.mirrors.durable("target").stat("file").size == 1

    asyncio.run(test())


def test_the_session_whose_files_waited_is_told_of_their_delivery(tmp_path: Path) -> None:
    """Not one that failed to start meanwhile, for want of the store, nor the one whose start delivers them."""

    async def test() -> None:
        async with place_in(tmp_path) as place:

            def begin(connection: Connection) -> None:
                for name, sync in (("waits", Sync(pending=True)), ("failed", Sync())):
                    sessions.add(connection, session(name))
                    sessions.end(connection, name, reason="", detail="", now=2.0, record=Record(Usage(), sync))
                sessions.add(connection, session("starts"))

            await place.database.run(begin)
            await Deliveries(place.database, place.clock).record(WORKSPACE, AsOf("last", 7))
            found = [await place.database.run(partial(sessions.find, session_id=name)) for name in NAMES]
            told = {row.id: (row.record.sync.pending, row.record.sync.durable) for row in found if row is not None}
            nothing = (False, None)
            assert told == {"waits": (False, DurableExecution("last", 7)), "failed": nothing, "starts": nothing}

    asyncio.run(test())


def session(name: str) -> SessionRow:
    return SessionRow(
        id=name,
        principal_id=ANN.id,
        workspace_id=WORKSPACE,
        name=name,
        environment="python",
        generation=1,
        created=1.0,
        last_activity=1.0,
        expires=9.0,
        timeout_seconds=8,
        idle_timeout_seconds=8,
        agent=None,
        labels={},
    )


async def _is_gone(access: WorkspaceAccess) -> bool:
    try:
        await access.row(ANN, WORKSPACE)
    except NotFound:
        return True
    return False
