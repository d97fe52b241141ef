"""Sessions as callers see them: start, show, list, stop, interrupt, restart."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Literal, cast
from weakref import WeakValueDictionary

import msgspec
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway import metrics
from kernel_gateway.errors import (
    Conflict,
    DatabaseUnavailable,
    DeadlinePassed,
    GatewayError,
    IdempotencyConflict,
    InvalidRequest,
    NoSpace,
    NotFound,
    SessionElsewhere,
    SessionTerminated,
    WorkspaceInUse,
    translated,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.admission.dead_sandboxes import DeadSandboxes
from kernel_gateway.services.admission.disk_room import DiskRoom
from kernel_gateway.services.admission.memory_room import MemoryRoom
from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.environments.agents import Agents, Chosen
from kernel_gateway.services.mirroring.durable_changes import DurableChanges
from kernel_gateway.services.pools.pools import Pools
from kernel_gateway.services.pools.spare_sandbox import SpareSandbox
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.sessions.builder import SessionBuilder
from kernel_gateway.services.sessions.hibernating.live_quota import require_place, wait_for_place
from kernel_gateway.services.sessions.interrupts import interrupt_code
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession, describe_session
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.start_keys import START_FAILED, StartKey, find_started, keep_started
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import Record as StoredRecord
from kernel_gateway.storage.sessions import SessionRow, Surroundings
from sandcell.models.constraints import MOST_BETWEEN, MOST_KEPT_MB
from sandcell.models.executions import Event
from sandcell.models.model import Page
from sandcell.models.sessions import Session, SessionStatus, StartSession
from sandcell.models.sync import SyncMode

log = structlog.get_logger(__name__)
END_SECONDS = 180.0
"""How long a stop waits past the flush deadline before it says that the end goes on without it."""
LONGEST_NAME = 200
MOST_LABELS = 50


class Sessions:
    """The verbs on sessions; another principal's session is not found."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        agents: Agents,
        pools: Pools,
        durable_changes: DurableChanges,
        record: Record,
        readiness: Readiness,
        disk_room: DiskRoom,
        memory_room: MemoryRoom,
        dead_sandboxes: DeadSandboxes,
        background: Background,
        registry: Registry,
        builder: SessionBuilder,
        lifecycle: Lifecycle,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._agents = agents
        self._pools = pools
        self._durable_changes = durable_changes
        self._record = record
        self._readiness = readiness
        self._disk_room = disk_room
        self._memory_room = memory_room
        self._dead_sandboxes = dead_sandboxes
        self._background = background
        self._registry = registry
        self._builder = builder
        self._lifecycle = lifecycle
        self._starts: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(
        self,
        principal: Principal,
        body: StartSession,
        session_id: str | None = None,
        *,
        surroundings: Surroundings | None = None,
        has_files: bool = False,
        key: StartKey | None = None,
    ) -> Session:
        """Start a session and return when its kernel takes code; its id is a new one unless given, a UUID.

        `has_files` says that files were put before into the workspace that is named after the given id. With the `key`
        of an earlier start it is the session that was started then, whatever has become of it since.

        Raises UnknownEnvironment, EnvironmentUnavailable, AgentDetached, InvalidRequest, SessionLimit, NotFound
        (workspace), WorkspaceInUse, NoSpace, NoMemory, SandboxUnavailable, StoreUnavailable, ShuttingDown,
        DeadlinePassed, IdempotencyConflict. A start that fails leaves nothing but its row, which says why.
        """
        self._readiness.require_accepting()
        if key is not None and (before := await self._find_started(principal, key)) is not None:
            return before
        chosen = await self._agents.choose(principal, body.environment, body.agent)
        self.check(principal, body)  # what is wrong with it is said at once
        await self._disk_room.wait()
        try:
            return await wait_for_place(
                lambda: self._start_in_place(
                    principal, body, chosen, session_id, surroundings=surroundings, has_files=has_files, key=key
                ),
                self._dead_sandboxes,
                self._settings.start_deadline_seconds,
            )
        except (IdempotencyConflict, WorkspaceInUse):
            # Who came with the same key at the same time, here or at another gateway, was faster; or it is meant so.
            before = None if key is None else await self._find_started(principal, key)
            if before is None:
                raise
            return before

    async def _find_started(self, principal: Principal, key: StartKey) -> Session | None:
        """The session that was started with this key, once it is started; raises what its start raises."""
        session_id = await self._database.run(lambda c: find_started(c, key, self._clock.now()))
        if session_id is None:
            return None
        live = self._registry.find(principal, session_id)
        if live is not None and live.start_task is not None:
            await _wait_started(live, live.start_task)
        return await self.get(principal, session_id)

    async def _start_in_place(
        self,
        principal: Principal,
        body: StartSession,
        chosen: Chosen,
        session_id: str | None,
        *,
        surroundings: Surroundings | None,
        has_files: bool,
        key: StartKey | None,
    ) -> Session:
        """Start it if there is a place; one that is refused holds neither a spare sandbox nor memory."""
        self._readiness.require_accepting()
        has_files = has_files or body.workspace_id is not None
        async with self._pools.turn(principal.id, chosen.environment, has_files=has_files) as spare:
            # One id for both is easier to look for on the host.
            own_id = session_id or (str(uuid.uuid4()) if spare is None else spare.id)
            row = self._row(principal, body, chosen.environment.name, own_id)
            live = self._build(row, surroundings, spare)
            live.sandbox.egress_gateway.expect(chosen.environment)
            work = self._start(live, body.workspace_id, chosen, key)
            live.start_task = started = self._background.spawn(work, f"start {row.id}")
            await _wait_started(live, started)
        # The claim of a pool's sandbox has said a moment ago what it uses.
        return live.describe() if live.sandbox.meter.has_measured else await _describe_now(live)

    def _build(self, row: SessionRow, surroundings: Surroundings | None, spare: SpareSandbox | None) -> LiveSession:
        """Raises Conflict when a session of this id lives, ShuttingDown."""
        sandbox_id = "" if spare is None or spare.id == row.id else spare.id
        record = msgspec.structs.replace(row.record, surroundings=surroundings, sandbox_id=sandbox_id)
        try:
            self._readiness.require_accepting()  # asked again: its turn at the pool may have been waited for
            live = self._builder.build(replace(row, record=record))
        except BaseException:
            if spare is not None:
                self._pools.put_back(spare)
            raise
        live.sandbox.spare, live.stored = spare, False
        return live

    async def start_once(
        self, principal: Principal, body: StartSession, session_id: str, *, surroundings: Surroundings | None = None
    ) -> Session:
        """The session of this id, which the first of those who ask starts; raises SessionTerminated once it has ended.

        Otherwise as `start`.
        """
        return await self.once(
            principal, session_id, lambda: self.start(principal, body, session_id, surroundings=surroundings)
        )

    async def once(self, principal: Principal, session_id: str, begin: Callable[[], Awaitable[Session]]) -> Session:
        """The session of this id, which the first of those who ask has `begin`; raises SessionTerminated as above."""
        async with self._starts.setdefault(session_id, asyncio.Lock()):
            try:
                return await _describe_now(await self._registry.require(principal, session_id))
            except SessionElsewhere:
                return await self.get(principal, session_id)
            except NotFound:
                pass
            try:
                return await begin()
            except WorkspaceInUse:  # another gateway has begun it meanwhile
                return await self.get(principal, session_id)

    def check(self, principal: Principal, body: StartSession) -> None:
        """Raises InvalidRequest for what no session can have."""
        self._row(principal, body, "", "")

    async def get(self, principal: Principal, session_id: str) -> Session:
        live = self._registry.find(principal, session_id)
        if live is not None:
            return await _describe_now(live)
        return describe_session(await self._registry.row(principal, session_id))

    async def events(self, principal: Principal, session_id: str, after: int | None) -> AsyncIterator[Event]:
        """What happens in it, from now on or `after` an event, ending with `ended`. Await it for the checks."""
        live = self._registry.find(principal, session_id)
        if live is not None:
            return live.news.follow(live.news.last_sequence if after is None else after)
        row = await self._registry.row(principal, session_id)
        return _end_of(row)

    async def list(
        self,
        principal: Principal,
        limit: int = 100,
        cursor: str | None = None,
        status: SessionStatus | Literal["LIVE"] | None = None,
        *,
        environment: str | None = None,
        newest_first: bool = True,
    ) -> Page[Session]:
        """The principal's sessions, of one status and environment or of any; usage as last asked for.

        LIVE are those that have not ended.
        """
        rows, following = await self._database.run(
            lambda connection: sessions.list_of(
                connection, principal.id, limit, cursor, status, environment=environment, newest_first=newest_first
            )
        )
        return Page([self._describe(principal, row) for row in rows], following)

    async def stop(self, principal: Principal, session_id: str, why: str = "it was stopped on request") -> Session:
        """End a session, waiting for its last flush; ending an ended one answers with how it ended."""
        live = self._registry.find(principal, session_id)
        if live is None:
            return describe_session(await self._registry.ended_row(principal, session_id))
        ending = self._lifecycle.end(live, "stopped", why)
        try:
            async with asyncio.timeout(self._settings.flush_deadline_seconds + END_SECONDS):
                return describe_session(await asyncio.shield(ending))
        except TimeoutError:
            raise DeadlinePassed("the session is still ending; ask for it again later") from None

    async def set_lifetime(
        self, principal: Principal, session_id: str, seconds: int, *, only_later: bool = False
    ) -> Session:
        """Have a live session end so many seconds from now; with `only_later` never sooner than it would have.

        Counted from its start it lives no longer than any session may.
        """
        live = await self._registry.require(principal, session_id)
        live.follow_clock()
        now, most = self._clock.now(), self._settings.session_timeout_max_seconds
        if live.hibernated:
            raise Conflict("the session is hibernated: resume it first", session_id=session_id)
        expires = now + _within("timeout", seconds, 0, most)
        lived_from = live.row.created + live.row.record.slept_seconds
        if expires - lived_from > most:
            raise InvalidRequest(f"timeout: a session lives for at most {most:,} seconds from its start")
        if not (only_later and expires <= live.row.expires):
            lifetime, record = math.ceil(expires - lived_from), live.build_record()

            def store(connection: Connection) -> None:
                sessions.set_expiry(connection, session_id, expires, lifetime)
                sessions.set_record(connection, session_id, record)  # a set clock is part of the sum

            await self._database.run(store)
            live.row = replace(live.row, expires=expires, timeout_seconds=lifetime)
            live.time_changed()
        return live.describe()

    async def interrupt(self, principal: Principal, session_id: str) -> None:
        """Interrupt what runs, what an attached client's widget or a completion called as well; nothing is fine too."""
        live = await self._registry.require(principal, session_id)
        live.touch()
        running = live.interrupt_running()
        # Not without a reason: the signal also goes to processes that earlier cells have left running.
        if live.sandbox.kernel is not None and (running or live.audience is not None or live.looking):
            live.looks.discard("look")  # it may have no answer now; a move says that it has ended
            await interrupt_code(live, self._background, self._settings.interrupt_grace_seconds)

    async def restart(self, principal: Principal, session_id: str, *, author: str | None = None) -> Session:
        """A blank kernel of the next generation in the same sandbox; what ran ends as `died`.

        The record says who asked for it: `author`, or else the principal.
        """
        self._readiness.require_accepting()
        live = await self._registry.require(principal, session_id)
        with translated(), live.in_use():
            before = live.sandbox.kernel
            kernel = await live.sandbox.ensure_started()
            who = (author or principal.name).replace("`", "'")
            await self._record.note(live, "restart", f"**Restart** of the kernel, asked for by `{who}`.")
            if kernel is before:
                await kernel.restart()
            else:
                live.variables.forget()
        return await _describe_now(live)

    def _row(self, principal: Principal, body: StartSession, environment: str, session_id: str) -> SessionRow:
        settings, now = self._settings, self._clock.now()
        if len(body.name) > LONGEST_NAME or len(body.labels) > MOST_LABELS:
            raise InvalidRequest(f"a name has at most {LONGEST_NAME} characters, a session {MOST_LABELS} labels")
        if body.agent is not None and len(body.agent) > LONGEST_NAME:
            raise InvalidRequest(f"an agent's name has at most {LONGEST_NAME} characters")
        if any(len(each) > LONGEST_NAME for label in body.labels.items() for each in label):
            raise InvalidRequest(f"a label has at most {LONGEST_NAME} characters")
        _refuse_nul(body)
        if body.keep_variables_mb is not None and not 1 <= body.keep_variables_mb <= MOST_KEPT_MB:
            raise InvalidRequest(f"keep_variables_mb must be between 1 and {MOST_KEPT_MB:,}", field="keep_variables_mb")
        if body.checkpoint_every is not None and not 0 <= body.checkpoint_every <= MOST_BETWEEN:
            raise InvalidRequest(f"checkpoint_every must be between 0 and {MOST_BETWEEN:,}", field="checkpoint_every")
        most = settings.session_timeout_max_seconds
        timeout = _within("timeout_seconds", body.timeout_seconds, settings.session_timeout_seconds, most)
        idle = _within("idle_timeout_seconds", body.idle_timeout_seconds, settings.idle_timeout_seconds, most)
        return SessionRow(
            id=session_id,
            principal_id=principal.id,
            workspace_id=body.workspace_id or session_id,
            name=body.name or f"session-{session_id[:8]}",
            environment=environment,
            generation=1,
            created=now,
            last_activity=now,
            expires=now + timeout,
            timeout_seconds=timeout,
            idle_timeout_seconds=idle,
            agent=body.agent,
            labels=body.labels,
            sync=body.sync or cast("SyncMode", settings.sync),
            record=StoredRecord(
                keep_awake=body.keep_awake,
                keep_variables=body.keep_variables,
                keep_variables_mb=body.keep_variables_mb,
                checkpoint_every=body.checkpoint_every,
            ),
        )

    async def _start(self, live: LiveSession, workspace_id: str | None, chosen: Chosen, key: StartKey | None) -> None:
        """The host's memory and the row first, then the sandbox; what was let in stays so when the caller has left."""
        began = time.monotonic()
        async with contextlib.AsyncExitStack() as promise:
            try:
                if live.sandbox.spare is None:
                    await promise.enter_async_context(self._memory_room.start())
                    live.sandbox.promised = True
                await self._database.run(lambda connection: self._reserve(connection, live, workspace_id, chosen, key))
                live.stored = True
            except BaseException as error:
                spare, live.sandbox.spare = live.sandbox.spare, None
                metrics.count_start("refused")
                await self._release(spare, error)
                self._registry.remove(live)
                if isinstance(error, IntegrityError):
                    raise _in_use_error(live.row.workspace_id) from None
                raise
            await self._start_sandbox(live)
        metrics.count_start("started")
        metrics.note_phase("session", began)
        live.touch()
        self._lifecycle.open(live, new=True)
        row = live.row
        log.info(
            "session_started",
            session=live.id,
            sandbox=live.sandbox.id,
            principal=row.principal_id,
            environment=row.environment,
        )

    async def _start_sandbox(self, live: LiveSession) -> None:
        """What cannot be started is ended before the error goes out."""
        try:
            settings = self._settings
            await self._durable_changes.wait_settled(live.row.workspace_id, settings.restore_deadline_seconds)
            await live.sandbox.ensure_started()
        except GatewayError as error:
            live.start_task = None
            metrics.count_start("failed")
            await asyncio.shield(self._lifecycle.end(live, START_FAILED, error.message))
            raise

    async def _release(self, spare: SpareSandbox | None, error: BaseException) -> None:
        """The start is refused. A row that may have been written all the same names the sandbox: then it goes."""
        if spare is None:
            return
        if isinstance(error, GatewayError | IntegrityError) and not isinstance(error, DatabaseUnavailable | NoSpace):
            self._pools.put_back(spare)
        else:
            await asyncio.shield(spare.discard())

    def _reserve(
        self,
        connection: Connection,
        live: LiveSession,
        workspace_id: str | None,
        chosen: Chosen,
        key: StartKey | None,
    ) -> None:
        """Take one of the live sessions, the workspace and the key, and hold the environment, in one transaction."""
        row = live.row
        if key is not None:
            keep_started(connection, key, row.id, row.created)
        chosen.require(connection)
        require_place(connection, self._settings, row.principal_id, self._dead_sandboxes)
        if workspace_id is None:
            sessions.add_workspace(connection, row.id, row.principal_id, row.created)
        else:
            workspace = sessions.claim_workspace(connection, workspace_id, row.principal_id)
            if workspace is None:
                raise NotFound("there is no such workspace")
            if workspace.live:
                raise _in_use_error(workspace_id, workspace.session_id)
        sessions.add(connection, replace(row, record=live.build_record()))
        executions.add_note(connection, live.note("started", f"**Session started** in `{row.environment}`."))

    def _describe(self, principal: Principal, row: SessionRow) -> Session:
        live = self._registry.find(principal, row.id)
        return describe_session(row) if live is None else live.describe()


async def _wait_started(live: LiveSession, started: asyncio.Task[None]) -> None:
    """A caller who leaves ends nothing."""
    try:
        await asyncio.shield(started)
    except asyncio.CancelledError:
        if started.cancelled():
            raise SessionTerminated("the session was ended while it started", session_id=live.id) from None
        raise


async def _describe_now(live: LiveSession) -> Session:
    """A live session with what its sandbox uses now."""
    await live.sandbox.meter.measure()
    return live.describe()


def _refuse_nul(body: StartSession) -> None:
    """Raises InvalidRequest where a text has U+0000: many programs that read it later take that for its end."""
    labels = "".join(part for label in body.labels.items() for part in label)
    for field, text in (("name", body.name), ("agent", body.agent or ""), ("labels", labels)):
        if "\0" in text:
            raise InvalidRequest(f"{field}: must not contain the character U+0000", field=field)


def _within(name: str, asked: int | None, default: int, most: int) -> int:
    if asked is None:
        return default
    if not 1 <= asked <= most:
        raise InvalidRequest(f"{name} must be between 1 and {most:,}")
    return asked


def _in_use_error(workspace_id: str, session_id: str | None = None) -> WorkspaceInUse:
    return WorkspaceInUse(
        "a live session holds this workspace: stop it first, or use its files",
        workspace_id=workspace_id,
        session_id=session_id,
    )


async def _end_of(row: SessionRow) -> AsyncIterator[Event]:
    """All that still happens in a session that has ended."""
    yield Event(1, "ended", {"reason": row.ended_reason or "", "detail": row.ended_detail or ""})
