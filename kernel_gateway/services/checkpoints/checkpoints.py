"""Checkpoints: a session's variables and files as they were, in the store, for forks and `undo` to begin from.

Variables are what kernels write down, as for sessions that are hibernated; files are copies inside the store, which a
local one makes without any bytes. Nothing of a session's queue begins meanwhile, so both are of one moment. A row is
written first, and says in the end that all is there. The checkpoints of a session go when it ends.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import (
    Conflict,
    DeadlinePassed,
    GatewayError,
    NotFound,
    QuotaReached,
    SandboxUnavailable,
    SessionBusy,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.snapshots import Snapshots
from kernel_gateway.services.sessions.hibernating.hibernation import find_most_bytes, list_lost, list_told
from kernel_gateway.services.sessions.hibernating.live_quota import MEGABYTE
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.services.workspaces.workspaces import Bounds, Reading, read_part
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.sessions import Undoing
from kernel_gateway.storage.states import checkpoints
from kernel_gateway.storage.states.checkpoints import CheckpointRow, Kind, Report
from kernels.environment import Environment
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.model import Page
from sandcell.models.sessions import Checkpoint
from workspace_sync import DurableWorkspace

log = structlog.get_logger(__name__)
TURN_SECONDS: Final = 300.0
"""How long one checkpoint of a session waits for others of it, each of which has deadlines of its own."""
MOST_NAMED: Final = 5
"""Checkpoints that an error names because they can be removed."""


class Checkpoints:
    """`create`, `list`, `get` and `remove` for callers, whose sessions they are; the rest for other services."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        mirrors: Mirrors,
        snapshots: Snapshots,
        copies: WorkspaceCopies,
        environments: Environments,
        readiness: Readiness,
        background: Background,
        registry: Registry,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._mirrors = mirrors
        self._snapshots = snapshots
        self._copies = copies
        self._environments = environments
        self._readiness = readiness
        self._background = background
        self._registry = registry
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create(self, principal: Principal, session_id: str) -> Checkpoint:
        """Keep a session as it is now; what the answer names can be gone back to.

        Raises NotFound, SessionTerminated, SessionBusy while something runs in it, QuotaReached, SandboxUnavailable,
        StoreUnavailable, NoSpace, DeadlinePassed.
        """
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        return _describe(await self.take(live, "asked"))

    async def list(
        self, principal: Principal, session_id: str, limit: int = 100, cursor: str | None = None
    ) -> Page[Checkpoint]:
        """Those of a session, oldest first; one that has ended has none."""
        await self._registry.row(principal, session_id)
        rows, following = await self._database.run(lambda c: checkpoints.list_of(c, session_id, limit, cursor))
        return Page([_describe(each) for each in rows], following)

    async def get(self, principal: Principal, session_id: str, checkpoint_id: str) -> Checkpoint:
        return _describe(await self._find(principal, session_id, checkpoint_id))

    async def read_part(
        self, principal: Principal, session_id: str, checkpoint_id: str, path: str, bounds: Bounds
    ) -> Reading:
        """A file as it was then, and some of its bytes; raises what `bounds` raises, and NotFound."""
        files = self.files(await self._find(principal, session_id, checkpoint_id))
        return await read_part(self._mirrors, principal.id, files, path, bounds)

    async def remove(self, principal: Principal, session_id: str, checkpoint_id: str) -> None:
        """From now on nothing begins from it; raises NotFound."""
        await self.spend(await self._find(principal, session_id, checkpoint_id))

    async def _find(self, principal: Principal, session_id: str, checkpoint_id: str) -> CheckpointRow:
        await self._registry.row(principal, session_id)
        row = await self._database.run(lambda c: checkpoints.find(c, session_id, checkpoint_id))
        if row is None:
            raise NotFound("the session has no such checkpoint")
        return row

    async def take(self, live: LiveSession, kind: Kind, *, owner: str = "") -> CheckpointRow:
        """Keep a session as it is once nothing runs in it; of several at once each has its turn. Raises as `create`.

        With an `owner` it is another session's, and stays when this one ends.
        """
        turn = self._turns.setdefault(live.id, asyncio.Lock())
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await turn.acquire()
        except TimeoutError:
            raise DeadlinePassed("other checkpoints of this session take too long") from None
        try:
            with translated():
                return await self._take(live, kind, owner or live.id)
        finally:
            turn.release()

    async def _take(self, live: LiveSession, kind: Kind, owner: str) -> CheckpointRow:
        environment = await self._environments.of_session(live.row.environment)
        with live.at_rest() as require:
            kernel = await live.sandbox.ready()  # inside: from here on nothing takes it away, no hibernation either
            await kernel.ready()
            row = CheckpointRow(str(uuid.uuid4()), owner, kind, self._clock.now(), kernel.generation, live.executions)
            row = await self._database.run(lambda c: self._begin(c, live, row))
            try:
                row = await self._fill(live, kernel, environment, row)
                require()
                if kernel.generation != row.generation or live.sandbox.kernel is not kernel:
                    raise SandboxUnavailable("the kernel was replaced meanwhile: try again")
                await self._database.run(lambda c: self._keep(c, live, row))
            except BaseException:
                # Only marked: what still copies for it ends before the next round of removals.
                self._background.spawn(self.spend(row), f"end of checkpoint {row.name}")
                raise
        log.info("checkpoint_kept", session=live.id, checkpoint=row.id, kind=kind)
        return row

    async def copy_hibernated(self, live: LiveSession) -> CheckpointRow:
        """Keep a session that is hibernated, for one fork: a copy of what the store has, which wakes nothing.

        Raises SessionBusy once it is being woken, as that is not all of it then; StoreUnavailable, DeadlinePassed.
        """
        snapshot = live.snapshot
        woken = SessionBusy("the session is being woken: try again", session_id=live.id, retry_after_seconds=1.0)
        if snapshot is None:
            raise woken
        since, generation = snapshot.since, live.sandbox.generation
        row = CheckpointRow(str(uuid.uuid4()), live.id, "passing", since, generation, live.executions)
        row = await self._database.run(lambda c: self._begin(c, live, row))
        try:
            with translated():
                await self._snapshots.copy(snapshot.name, row.name)
                files = await self._copy_files(self._mirrors.durable(live.row.workspace_id), row)
            if not live.hibernated or live.snapshot is not snapshot:
                raise woken
            told = snapshot.report
            report = Report(told.variables, told.omitted, told.lost)
            kept = replace(row, size_bytes=told.size_bytes, file_count=files[0], file_bytes=files[1], report=report)
            await self._database.run(lambda c: self._keep(c, live, kept))
        except BaseException as error:
            self._background.spawn(self.spend(row), f"end of checkpoint {row.name}")
            if isinstance(error, NotFound):  # what it had in the store was let go of as it was woken
                raise woken from None
            raise
        return kept

    def _begin(self, connection: Connection, live: LiveSession, row: CheckpointRow) -> CheckpointRow:
        self._make_room(connection, live, row)  # what has no place is said before anything is copied
        last = executions.last_ended(connection, live.id)
        row = replace(row, execution_id=None if last is None else last[0])
        checkpoints.begin(connection, row)
        return row

    def _keep(self, connection: Connection, live: LiveSession, row: CheckpointRow) -> None:
        for each in self._make_room(connection, live, row):
            checkpoints.spend(connection, each.id)
        checkpoints.keep(connection, row)

    def _make_room(
        self, connection: Connection, live: LiveSession, row: CheckpointRow, *, most_bytes: int | None = None
    ) -> Sequence[CheckpointRow]:
        """The automatic ones that are to go for it, the oldest first; raises QuotaReached.

        One that is used once takes no room: the replays that a principal may have at once bound how many there are.
        """
        settings, going = self._settings, list[CheckpointRow]()
        if row.kind == "passing":
            return going
        hold(connection, "checkpoints", live.row.principal_id)
        kept = checkpoints.list_all_of(connection, live.id)
        count, automatic = len(kept) + 1, [each for each in kept if each.kind == "automatic"]
        taken = checkpoints.sum_bytes(connection, live.row.principal_id)
        size = taken + row.taken_bytes
        most_bytes = settings.checkpoints_mb * MEGABYTE if most_bytes is None else most_bytes
        while count > settings.checkpoints_per_session or size > most_bytes:
            if not automatic:
                if count > settings.checkpoints_per_session:
                    raise _too_many(settings, kept)
                without = {each.id for each in going}
                largest = checkpoints.list_largest(connection, live.row.principal_id, MOST_NAMED, without=without)
                raise _no_room(settings, taken, row, largest)
            going.append(automatic.pop(0))
            count, size = count - 1, size - going[-1].taken_bytes
        return going

    async def _fill(
        self, live: LiveSession, kernel: SandboxedKernel, environment: Environment, row: CheckpointRow
    ) -> CheckpointRow:
        """Put all of it into the store; the row with what there is to say of it."""
        most = find_most_bytes(live, environment)
        await kernel.residence.awake()
        kept = await live.variables.keep_now(kernel, most)
        put = await self._snapshots.put(kernel.guest, row.name, most, home=False)
        await self._copies.bring_up_to_date(live.row.workspace_id)
        files = await self._copy_files(self._mirrors.durable(live.row.workspace_id), row)
        report = Report(*list_told(kept), list_lost(live, environment, put))
        return replace(row, size_bytes=put.size, file_count=files[0], file_bytes=files[1], report=report)

    async def _copy_files(self, files: DurableWorkspace, row: CheckpointRow) -> tuple[int, int]:
        """How many there are, and their bytes."""
        given_up = threading.Event()

        def copy() -> tuple[int, int]:
            files.copy_to(_prefix(row), lambda: not given_up.is_set())
            summary = self.files(row).summary()
            return summary.file_count, summary.size_bytes

        try:
            return await self._mirrors.run(copy)
        except BaseException:
            given_up.set()
            raise

    def files(self, row: CheckpointRow) -> DurableWorkspace:
        """Its files in the store; blocking."""
        return DurableWorkspace(self._mirrors.store, _prefix(row))

    async def keep_due(self, live: LiveSession) -> None:
        """Called between two executions: keep the session after each so many of them, where that is asked for.

        Where it cannot be now, because a command runs or the store is away, the next one is due as if it had been.
        """
        if live.checkpoint_every is None:
            own = live.row.record.checkpoint_every
            if own is None:
                own = (await self._environments.of_session(live.row.environment)).checkpoint_every
            live.checkpoint_every = own
        if not live.checkpoint_every or live.executions - live.checkpoint_at < live.checkpoint_every:
            return
        live.checkpoint_at = live.executions
        try:
            await self.take(live, "automatic")
        except GatewayError as error:
            log.warning("checkpoint_not_kept", session=live.id, error=error.code, why=error.message)

    async def find_nearest(
        self, session_id: str, cells: Sequence[str], stands_after: Callable[[int], bool]
    ) -> tuple[CheckpointRow, int] | None:
        """The last checkpoint that stands after one of these executions, or before all, and how many of them it has.

        Of several at one place the first: the others may have what came later than the cell. After the last of them
        it is one whose kernel, by its generation, `stands_after` it: another was blank by then.
        """
        places = {cell: number for number, cell in enumerate(cells, 1)}
        rows = await self._database.run(lambda c: checkpoints.list_all_of(c, session_id))
        found = [(each, 0 if each.execution_id is None else places.get(each.execution_id, -1)) for each in rows]
        found = [each for each in found if each[1] < len(cells) or stands_after(each[0].generation)]
        return max((each for each in found if each[1] >= 0), key=lambda each: (each[1], -each[0].created), default=None)

    async def fill(self, row: CheckpointRow, session_id: str) -> None:
        """Its files become those that a session of this id will start with; raises StoreUnavailable, DeadlinePassed."""
        await self._copies.copy_durable(self.files(row), session_id)

    async def give(self, row: CheckpointRow, live: LiveSession) -> None:
        """Its variables become those of a session whose kernel is blank; `restored` of the session says how.

        Raises Conflict where that is not possible at all, and otherwise as `create`.
        """
        with translated():
            kernel = await live.sandbox.ready()
            await kernel.ready()
            await live.variables.take_over(kernel, row.created, partial(self._snapshots.lay, kernel.guest, row.name))
        restored = live.variables.restored
        if restored is None or restored.why is not None:
            why = "the kernel was replaced" if restored is None else restored.why
            raise Conflict(f"the variables of the checkpoint cannot be restored: {why}", reason="not_rebuilt", cells=[])

    async def hand_over(self, row: CheckpointRow, live: LiveSession) -> None:
        """What a session has just begun with becomes its own first checkpoint; without room for it, it goes.

        It leaves half of the room to those that somebody asks for: a few forks of a large session would take all of it.
        """
        own = replace(
            row,
            session_id=live.id,
            kind="automatic",
            generation=live.sandbox.generation,
            executions=live.executions,
            execution_id=None,
            report=msgspec.structs.replace(row.report, made_for=row.session_id),
        )

        def store(connection: Connection) -> None:
            self._make_room(connection, live, own, most_bytes=self._settings.checkpoints_mb * MEGABYTE // 2)
            checkpoints.hand_over(connection, own)

        try:
            await self._database.run(store)
        except GatewayError as error:
            log.info("beginning_not_kept", session=live.id, error=error.code)
            await self.spend(row)

    async def find_begun(self, undoing: Undoing) -> tuple[CheckpointRow, Principal]:
        """That of an undo which an earlier process has begun, and whose its session is; raises NotFound."""

        def find(connection: Connection) -> tuple[CheckpointRow, Principal] | None:
            row = checkpoints.find_kept(connection, undoing.checkpoint)
            owner = None if row is None else sessions.owner_of(connection, row.session_id)
            return None if row is None or owner is None else (row, Principal(*owner, admin=False))

        found = await self._database.run(find)
        if found is None:
            raise NotFound("its checkpoint is not there any more")
        return found

    async def spend(self, row: CheckpointRow) -> None:
        """Nobody is to have it any more; the next round of removals removes it. Raises DatabaseUnavailable."""
        await self._database.run(lambda c: checkpoints.spend(c, row.id))

    async def remove_spent(self) -> None:
        """Remove from the store what nobody is to have any more; called again and again."""
        for each in await self._database.run(checkpoints.list_spent):
            try:
                await self._snapshots.remove(each.name)
                with translated():
                    await self._mirrors.run(self.files(each).clear)
                await self._database.run(partial(_forget, each))
            except GatewayError as error:  # its row is still there: the next round tries again
                log.warning("checkpoint_not_removed", session=each.session_id, error=error.code)


def _forget(row: CheckpointRow, connection: Connection) -> None:
    checkpoints.forget(connection, row.id)


def _prefix(row: CheckpointRow) -> str:
    return f"checkpoints/{row.name}"


def _too_many(settings: Settings, kept: Sequence[CheckpointRow]) -> QuotaReached:
    most = settings.checkpoints_per_session
    why = f"the session has {len(kept):,} checkpoints, and may have {most:,} (checkpoints_per_session)"
    return _make_quota_error(why, most, "oldest", kept[:MOST_NAMED])


def _no_room(settings: Settings, taken: int, row: CheckpointRow, largest: Sequence[CheckpointRow]) -> QuotaReached:
    most, more = settings.checkpoints_mb, row.taken_bytes
    beside = f", and this one takes {more:,}" if more else ""  # before it is made that is not known
    why = f"your checkpoints take {taken:,} bytes{beside}; {most:,} MB is the most (checkpoints_mb)"
    return _make_quota_error(why, most, "largest", largest)


def _make_quota_error(why: str, quota: int, which: str, rows: Sequence[CheckpointRow]) -> QuotaReached:
    """It names some that can be removed, which makes room at once."""
    removable = [{"id": each.id, "session_id": each.session_id, "bytes": each.taken_bytes} for each in rows]
    if removable:
        named = "; ".join(
            f"{each['id']} of session {each['session_id']}, {each['bytes']:,} bytes" for each in removable
        )
        why += f". DELETE /v1/sessions/{{session_id}}/checkpoints/{{checkpoint_id}} removes one. The {which}: {named}"
    return QuotaReached(why, quota=quota, removable=removable)


def _describe(row: CheckpointRow) -> Checkpoint:
    return Checkpoint(
        id=row.id,
        session_id=row.session_id,
        created_at=rfc3339(row.created),
        automatic=row.kind == "automatic",
        cell=row.execution_id,
        executions=row.executions,
        generation=row.generation,
        size_bytes=row.size_bytes,
        files=row.file_count,
        file_bytes=row.file_bytes,
        variables=row.report.variables,
        omitted=row.report.omitted,
        lost=row.report.lost,
    )
