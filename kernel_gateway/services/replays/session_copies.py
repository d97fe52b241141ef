"""A session a second time, as it is now: what it has is written down and copied, and no code runs again.

The copy is a hibernated session with variables and files of its own; its first use wakes it, unless it is a snapshot,
which stays as it is for others to begin as. The session that is copied goes on in the sandbox that it has. In this
order, each step durable before the next: a row that names the variables, the variables, the files, then the copy's
rows. What fails or is killed before these leaves no session.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError, NotFound, SessionBusy, SessionTerminated, Unauthorized, translated
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.environments.agents import Agents, Chosen
from kernel_gateway.services.sessions.builder import SessionBuilder
from kernel_gateway.services.sessions.hibernating.hibernation import (
    Hibernation,
    build_report,
    find_most_bytes,
    list_lost,
    require_idle,
    write_down,
)
from kernel_gateway.services.sessions.hibernating.live_quota import require_hibernated_place
from kernel_gateway.services.sessions.hibernating.waking import HIBERNATED, Waking
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sessions import Sessions
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.services.workspaces.workspace_copies import WorkspaceCopies
from kernel_gateway.storage import executions, hibernations, principals, sessions
from kernel_gateway.storage.hibernations import HibernationRow
from kernel_gateway.storage.sessions import Record as StoredRecord
from kernel_gateway.storage.sessions import SessionRow, Surroundings
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.sessions import Session, StartSession
from workspace_sync import Mirror

log = structlog.get_logger(__name__)
DISCARD_SECONDS = 60.0
"""How long a copy that failed waits until its files are gone."""


@dataclass(frozen=True)
class Wanted:
    """The copy: its id, a UUID that no session has; how long it may sleep, and how long it lives once it is woken.

    `snapshot`: it is never woken. Labels and surroundings that are None are the original's.
    """

    session_id: str
    name: str
    kept_seconds: float
    lifetime_seconds: int
    snapshot: bool = False
    labels: Mapping[str, str] | None = None
    surroundings: Surroundings | None = None


class SessionCopies:
    """`copy`, and what is made of copies: `start`, `fork`, snapshots. Another principal's session is not found."""

    def __init__(
        self,
        waking: Waking,
        hibernation: Hibernation,
        *,
        agents: Agents,
        copies: WorkspaceCopies,
        registry: Registry,
        builder: SessionBuilder,
        lifecycle: Lifecycle,
        sessions: Sessions,
        removals: WorkspaceRemovals,
    ) -> None:
        self._settings, self._clock, self._database = waking.settings, waking.clock, waking.database
        self._snapshots, self._record, self._background = waking.snapshots, waking.record, waking.background
        self._hibernation, self._carried = hibernation, waking.carried
        self._agents = agents
        self._copies = copies
        self._registry = registry
        self._builder = builder
        self._lifecycle = lifecycle
        self._sessions = sessions
        self._removals = removals

    def find_snapshot(self, principal: Principal, name: str) -> LiveSession | None:
        """The principal's snapshot of this id, or the newest of this name."""
        found = [
            live
            for live in self._registry
            if live.is_snapshot
            and live.row.principal_id == principal.id
            and name in (live.id, live.row.name)
            and live.stored
            and live.ending is None
        ]
        return found[-1] if found else None  # the registry has them in their order

    async def start(self, principal: Principal, session_id: str, wanted: Wanted) -> Session:
        """A session that runs, as this one is now; one that cannot be woken leaves nothing. Raises as `copy`, too."""
        return await self._wake(principal, await self.copy(principal, session_id, wanted))

    async def fork(
        self, principal: Principal, session_id: str, wanted: Sequence[Wanted]
    ) -> list[Session | GatewayError]:
        """Sessions that run, each as this one is now, which is written down once. Raises as `copy` before there is any.

        What keeps one of them from running keeps no other.
        """
        first, *others = wanted
        copied: list[Session | GatewayError] = [await self.copy(principal, session_id, first)]
        try:
            for each in others:
                try:
                    copied.append(await self.copy(principal, first.session_id, each))
                except GatewayError as error:
                    copied.append(error)
        except BaseException:
            for made in copied:
                if isinstance(made, Session):
                    self._background.spawn(self.remove(principal, made.id), f"end of the copy {made.id}")
            raise
        async with asyncio.TaskGroup() as group:
            waking = [group.create_task(self._try_wake(principal, each)) for each in copied]
        return [each.result() for each in waking]

    async def _try_wake(self, principal: Principal, copied: Session | GatewayError) -> Session | GatewayError:
        try:
            return copied if isinstance(copied, GatewayError) else await self._wake(principal, copied)
        except GatewayError as error:
            return error

    async def _wake(self, principal: Principal, copied: Session) -> Session:
        try:
            return await self._hibernation.resume(principal, copied.id)
        except BaseException:
            await self.remove(principal, copied.id)
            raise

    async def remove(self, principal: Principal, session_id: str) -> None:
        """End a copy, and have its files go as well."""
        await self._sessions.stop(principal, session_id)
        with contextlib.suppress(NotFound):
            await self._removals.remove(principal, session_id)

    async def copy(self, principal: Principal, session_id: str, wanted: Wanted) -> Session:
        """A hibernated session with what this one has now; its `hibernated` says which variables are in it.

        Raises NotFound, SessionTerminated, SessionBusy while anything is under way in it, QuotaReached,
        AgentDetached, EnvironmentUnavailable, SandboxUnavailable, StoreUnavailable, NoSpace, InvalidRequest: then there
        is no copy.
        """
        asked = StartSession(
            name=wanted.name, timeout_seconds=wanted.lifetime_seconds, labels=dict(wanted.labels or {})
        )
        self._sessions.check(principal, asked)
        # A caller who goes away stops nothing: the rows of the copy may be there by then.
        work = self._copy(principal, session_id, wanted)
        return await self._background.carry_out(work, f"copy of {session_id}")

    async def _copy(self, principal: Principal, session_id: str, wanted: Wanted) -> Session:
        live = await self._registry.require(principal, session_id)
        chosen = await self._agents.choose(principal, live.row.environment, live.row.agent)
        begun = HibernationRow(str(uuid.uuid4()), live.id, "begun", self._clock.now(), executions=live.executions)
        await self._database.run(lambda c: hibernations.put(c, begun))
        try:
            if live.hibernated:
                kept = await self._take_from_store(principal, live, begun, wanted)
            else:
                kept = await self._take_from_sandbox(principal, live, chosen, begun, wanted)
            return await self._add(live, chosen, kept, wanted)
        except BaseException:
            self._hibernation.give_up(begun)
            # Waited for: who tries again with the same id is not to lose files of the next copy by it.
            discard = self._background.spawn(self._discard(wanted.session_id), f"discard {wanted.session_id}")
            await asyncio.wait({discard}, timeout=DISCARD_SECONDS)
            raise

    async def _discard(self, session_id: str) -> None:
        """Remove the files of a copy that there is not."""
        if await self._database.run(lambda c: sessions.find(c, session_id)) is None:
            await self._copies.discard(session_id)

    async def _take_from_sandbox(
        self, principal: Principal, live: LiveSession, chosen: Chosen, begun: HibernationRow, wanted: Wanted
    ) -> HibernationRow:
        """Variables and files of one moment: while they are taken, who asks for the kernel waits."""
        require_idle(live)
        await live.sandbox.ready()  # one that lost its sandbox gets its files and variables first
        taken: list[HibernationRow] = []

        async def take(kernel: SandboxedKernel, _mirror: Mirror) -> None:
            most, at = find_most_bytes(live, chosen.environment), self._clock.now()
            kept = await write_down(live, kernel, most)
            put = await self._snapshots.put(kernel.guest, begun.name, most)
            await self._copies.copy(principal, live.row.workspace_id, wanted.session_id)
            lost = list_lost(live, chosen.environment, put)
            report = build_report(at, at + wanted.kept_seconds, put.size, kept, lost)
            live.require_live()
            taken.append(replace(begun, since=at, size_bytes=put.size, executions=live.executions, report=report))

        with translated():
            await live.sandbox.hold(take)
        return taken[0]

    async def _take_from_store(
        self, principal: Principal, live: LiveSession, begun: HibernationRow, wanted: Wanted
    ) -> HibernationRow:
        """What the store has of one that is hibernated, unless it is woken meanwhile: then that is not all of it."""
        snapshot = live.snapshot
        woken = SessionBusy("the session is being woken: try again", session_id=live.id, retry_after_seconds=1.0)
        if snapshot is None:
            raise woken
        try:
            await self._snapshots.copy(snapshot.name, begun.name)
        except NotFound:
            raise woken from None
        await self._copies.copy(principal, live.row.workspace_id, wanted.session_id)
        if not live.hibernated or live.snapshot is not snapshot:
            raise woken
        report = msgspec.structs.replace(snapshot.report, kept_as="variables", image_bytes=0)
        return replace(snapshot, id=begun.id, size_bytes=report.size_bytes, report=report)

    async def _add(self, live: LiveSession, chosen: Chosen, kept: HibernationRow, wanted: Wanted) -> Session:
        """From here on there is a copy, whatever becomes of this process."""
        row, now = self._build_row(live, wanted), self._clock.now()
        report = msgspec.structs.replace(kept.report, until=rfc3339(row.expires))
        left = float(wanted.lifetime_seconds)
        kept = replace(kept, session_id=row.id, state="kept", left_seconds=left, report=report)
        copied = self._builder.build(row)
        copied.stored, copied.snapshot = False, kept
        copied.sandbox.require_new(HIBERNATED)
        text = f"**This session began as a copy of `{live.id}`**, as it was at {rfc3339(kept.since)}."

        def store(connection: Connection) -> None:
            # First, as its end does: from here on the sweep cannot remove what was begun. It may have done so before.
            original = sessions.find(connection, live.id, lock=True)
            if original is None or original.status == "TERMINATED":
                raise SessionTerminated("the session has ended", session_id=live.id)
            chosen.require(connection)
            if principals.standing(connection, row.principal_id)[0]:  # disabled since this call was let in
                raise Unauthorized
            require_hibernated_place(connection, self._settings, self._carried, row.principal_id, kept.size_bytes)
            sessions.add_workspace(connection, row.id, row.principal_id, now)
            sessions.add(connection, row)
            hibernations.put(connection, kept)
            executions.add_note(connection, copied.note("forked", text))

        try:
            await self._database.run(store)
        except BaseException:
            self._registry.remove(copied)
            raise
        copied.stored = copied.notebook_stale = True
        self._record.request(copied.id)
        self._lifecycle.open(copied)
        log.info("session_copied", session=live.id, copy=copied.id, principal=row.principal_id)
        return copied.describe()

    def _build_row(self, live: LiveSession, wanted: Wanted) -> SessionRow:
        """Executions and generations are counted on from where the original's were: its variables tell of them."""
        now, was = self._clock.now(), live.row.record
        surroundings = live.surroundings if wanted.surroundings is None else wanted.surroundings
        return replace(
            live.row,
            id=wanted.session_id,
            workspace_id=wanted.session_id,
            name=wanted.name,
            status="HIBERNATED",
            generation=live.sandbox.generation,
            created=now,
            last_activity=now,
            expires=now + wanted.kept_seconds,
            timeout_seconds=wanted.lifetime_seconds,
            idle_timeout_seconds=self._settings.session_timeout_max_seconds,  # idleness ends none
            labels=live.row.labels if wanted.labels is None else dict(wanted.labels),
            executions=live.executions,
            record=StoredRecord(
                keep_variables=was.keep_variables,
                keep_variables_mb=was.keep_variables_mb,
                surroundings=surroundings,
                snapshot_of=live.id if wanted.snapshot else "",
                copy_of=live.id,
            ),
        )
