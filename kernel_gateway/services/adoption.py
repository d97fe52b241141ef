"""What the start of the service takes up of an earlier process: sessions, their sandboxes, their executions.

A READY session whose sandbox runs goes on with the same kernel; one whose sandbox is gone gets a new one when it is
next used. What was queued runs. What was running goes on: the guest has kept what its kernel said since, and the event
log, the outputs and the outcome become what they would have been.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.executions.commands import Commands
from kernel_gateway.services.executions.program_streams import ProgramStreams
from kernel_gateway.services.records.record import Record
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.results.outcomes import UNSURE, death_outcome
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.builder import SessionBuilder
from kernel_gateway.services.sessions.hibernating.waking import HIBERNATED
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.subscribers import Subscribers
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions, hibernations, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome
from kernel_gateway.storage.hibernations import HibernationRow
from kernel_gateway.storage.sessions import SessionRow
from kernel_gateway.storage.states import checkpoints, gateways
from kernels.errors import DeadlineExceeded, Death, KernelDied, KernelsError, SandboxGone
from kernels.languages import PYTHON
from kernels.sandbox import SandboxInfo, SandboxRuntime

log = structlog.get_logger(__name__)
Work: TypeAlias = Callable[[], Awaitable[None]]
ATTACHED_FACE = "jupyter"
TAKE_PAUSES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 1.0)
"""In leases, after each attempt to take a sandbox over before the last: what fails may only be passing."""
ATTEMPT_SECONDS = (4.0, 16.0, 40.0)
"""How long the first attempts at a sandbox may take, and those after them.

A short one first: one that hangs has the place of another meanwhile, and those that are well need milliseconds.
"""
START_SECONDS = 10.0
"""How long the start of one of several gateways waits for its sessions: those that take longer arrive later."""
CUT_SHORT = (
    "the service restarted while this ran in a sandbox that does not keep output meanwhile (one of an older release, or"
    " a program of its own beside the kernel): the output since is lost, while its code may still run"
)
STOPPED = "the service restarted while this ran: what it put out since then is not on record"
LOST = "the service restarted while this ran, and the sandbox is gone with its kernel and /tmp"
CUT_OFF = Death("sandbox", "the service ended while the sandbox was being made; nothing had run in it")
VANISHED = Death("sandbox", "the sandbox was gone when the service started again; its kernel and /tmp went with it")
TAKEN_OVER = Death(
    "sandbox", "the gateway that had the session is gone, and another has it now; its kernel and /tmp are gone"
)


class Adoption:
    """`run` once at start, before any call is served; `take_over` for what was another gateway's.

    Each session is taken up by itself: one whose sandbox does not answer holds up no other.
    """

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        runtime: SandboxRuntime,
        record: Record,
        redaction: Redaction,
        background: Background,
        builder: SessionBuilder,
        lifecycle: Lifecycle,
        commands: Commands,
        program_streams: ProgramStreams,
        finish_undo: Callable[[LiveSession], None],
        let_go: Callable[[], None] = lambda: os._exit(1),
    ) -> None:
        self._commands = commands
        self._program_streams = program_streams
        self._settings = settings
        self._clock = clock
        self._database = database
        self._runtime = runtime
        self._record = record
        self._redaction = redaction
        self._background = background
        self._builder = builder
        self._lifecycle = lifecycle
        self._finish_undo = finish_undo
        self._let_go = let_go
        self._adopting = asyncio.Semaphore(settings.starts_at_once)
        self._arriving: dict[str, asyncio.Task[None]] = {}
        """Sessions that are this gateway's and not served yet, by their workspaces."""
        self._listing = asyncio.Lock()
        self._lists = 0
        """How many lists of sandboxes have begun; `_listed` is the last one."""
        self._listed: dict[str, SandboxInfo] = {}
        self.taking: set[str] = set()
        """Sandboxes that are being taken over: they may be this gateway's already, and have no session here yet."""

    async def run(self) -> tuple[SandboxInfo, ...]:
        """Take up every READY session; gives the sandboxes that were found on the host."""
        rows, snapshots = await self._database.run(_load)
        infos = {info.sandbox_id: info for info in await self._runtime.list()}
        # All are known before the first is taken up: none of their sandboxes may pass for an orphan.
        self.taking.update(row.sandbox_id for row in rows)
        found = [(row, snapshots.get(row.id), infos.get(row.sandbox_id)) for row in rows]
        if self._database.lease is None:
            # An error of the database ends them all, and the start: no session may be served half taken up.
            async with asyncio.TaskGroup() as group:
                for row, snapshot, info in found:
                    group.create_task(self._take_up(row, snapshot, info, VANISHED))
        elif found:
            begun = [self._begin(row, self._choose_work(row, snapshot, info)) for row, snapshot, info in found]
            await asyncio.wait(begun, timeout=START_SECONDS)
        return tuple(infos.values())

    async def take_over(self, session_ids: Sequence[str]) -> None:
        """Begin to take up sessions that were another gateway's a moment ago; `wait_arrived` waits for one.

        A sandbox that is reached from here too, as a pod is, goes on; else it is as if a host was lost.
        """
        rows, snapshots = await self._database.run(lambda c: _load_taken(c, session_ids))
        for row in rows:
            if row.workspace_id not in self._arriving:
                self.taking.add(row.sandbox_id)
                self._begin(row, partial(self._take_over, row, snapshots.get(row.id), TAKEN_OVER))

    def is_arriving(self, workspace_id: str) -> bool:
        """Whether its session is this gateway's and cannot be served yet."""
        return workspace_id in self._arriving

    async def wait_arrived(self, workspace_id: str) -> None:
        """Wait for the session of this workspace, if it is arriving."""
        if (arriving := self._arriving.get(workspace_id)) is not None:
            await asyncio.wait({arriving})

    def _choose_work(self, row: SessionRow, snapshot: HibernationRow | None, info: SandboxInfo | None) -> Work:
        """At a start: the last process may have ended between a takeover in the database and that of the sandbox."""
        if info is None and row.status != "HIBERNATED":  # of which there is none to be asked for
            return partial(self._take_over, row, snapshot, VANISHED)
        return partial(self._take_up, row, snapshot, info, VANISHED)

    def _begin(self, row: SessionRow, work: Work) -> asyncio.Task[None]:
        """Have it taken up apart. One that cannot be served here would be served nowhere: then start again."""

        async def take_up() -> None:
            try:
                await work()
            except Exception as error:
                log.error("session_not_taken_up", session=row.id, exc_info=error)
                self._let_go()
                raise
            finally:
                del self._arriving[row.workspace_id]

        self._arriving[row.workspace_id] = task = self._background.spawn(take_up(), f"arrival of {row.id}")
        return task

    async def _take_over(self, row: SessionRow, snapshot: HibernationRow | None, gone: Death) -> None:
        """One session whose sandbox may have been another gateway's; without it the session gets a new one."""
        info = await self._take(row.sandbox_id)
        if info is None:
            self.taking.discard(row.sandbox_id)
            # The sandbox of that name may still be there, with a launcher that nobody asks any more.
            record = replace(row.record, sandbox_id=str(uuid.uuid4()))
            await self._database.run(lambda c: sessions.set_record(c, row.id, record))
            row = dataclasses.replace(row, record=record)
        await self._take_up(row, snapshot, info, gone)

    async def _take(self, sandbox_id: str) -> SandboxInfo | None:
        """The sandbox, this gateway's from now on, if it runs where it is reached; tried again while it is not said."""
        for number, pause in enumerate(TAKE_PAUSES):
            try:
                async with self._attempt(number):
                    if not await self._runtime.running(sandbox_id):
                        return None
                    await self._require_lease()
                    await self._runtime.reopen(sandbox_id)
                return await self._find_info(sandbox_id)
            except SandboxGone:
                return None  # or on a host that is another gateway's
            except (GatewayError, KernelsError, OSError) as error:
                log.warning("sandbox_not_taken_over_yet", sandbox=sandbox_id, error=str(error) or repr(error))
            await self._clock.sleep(self._settings.gateway_lease_seconds * pause)
        return await self._take_or_abandon(sandbox_id)

    async def _take_or_abandon(self, sandbox_id: str) -> SandboxInfo | None:
        """The last attempt. What is abandoned is the sweep's if it could at least be made this gateway's."""
        try:
            async with self._attempt(len(TAKE_PAUSES)):
                await self._require_lease()
                await self._runtime.reopen(sandbox_id)  # first: this needs less than to know whether it runs
                if not await self._runtime.running(sandbox_id):
                    return None
            return await self._find_info(sandbox_id)
        except SandboxGone:
            return None
        except (GatewayError, KernelsError, OSError) as error:
            log.error("sandbox_abandoned", sandbox=sandbox_id, error=str(error) or repr(error))
            return None

    @contextlib.asynccontextmanager
    async def _attempt(self, number: int) -> AsyncIterator[None]:
        """One of a few at once, with a deadline; those that wait have their turns before the next of the same."""
        async with self._adopting, asyncio.timeout(ATTEMPT_SECONDS[min(number, len(ATTEMPT_SECONDS) - 1)]):
            yield

    async def _require_lease(self) -> None:
        """Before a sandbox is taken from another: a gateway that was held up might take it from who has it by now."""
        await asyncio.to_thread(self._database.require_lease)

    async def _find_info(self, sandbox_id: str) -> SandboxInfo | None:
        """One that has just been taken, by a list that began since: those who ask meanwhile share the next."""
        before = self._lists
        async with self._listing:
            if self._lists == before:
                self._lists += 1
                self._listed = {info.sandbox_id: info for info in await self._runtime.list()}
            return self._listed.get(sandbox_id)

    async def _take_up(
        self, row: SessionRow, snapshot: HibernationRow | None, info: SandboxInfo | None, gone: Death
    ) -> None:
        """One session; what goes wrong with its sandbox costs it the sandbox, never the start of the service."""
        live = self._builder.build(row)
        live.snapshot = snapshot
        live.stored = False  # nobody uses it before what runs and waits in it has been taken up
        self.taking.discard(row.sandbox_id)
        await self._adopt(live, info, gone)

    async def _adopt(self, live: LiveSession, info: SandboxInfo | None, gone: Death) -> None:
        last_ended = await self._database.run(lambda c: executions.last_ended(c, live.id))
        live.sandbox.flushes.take_up(last_ended)
        death = await self._adopt_sandbox(live, info, gone)
        if death is not None:
            live.sandbox.require_new(death)
            if not live.hibernated:
                live.variables.note_lost()
            if info is not None and info.workspace_ready and not live.hibernated:
                # Spawned before this coroutine waits again, so that it gets the sandbox's lock before any caller can
                # ask for a new sandbox: that one would restore the files without those of the dead one.
                self._background.spawn(live.sandbox.recover_files(info), f"recover files of {live.id}")
        # Before `open`, which starts the worker: in the order of their rows, and before anything new is queued.
        await self._take_up_executions(live, adopted=death is None)
        live.sandbox.flushes.request()  # what ended last may have left files that no flush has taken
        live.notebook_stale = True
        self._record.request(live.id)
        live.touch()  # the time without a service is no idleness of the session's
        live.stored = True
        self._lifecycle.open(live)
        self._finish_undo(live)
        if death is CUT_OFF:
            self._background.spawn(_start_again(live), f"restore of {live.id}")
        log.info("session_adopted", session=live.id, sandbox=live.sandbox.id, lives=death is None)

    async def _adopt_sandbox(self, live: LiveSession, info: SandboxInfo | None, gone: Death) -> Death | None:
        """None when the session goes on in its sandbox; else why it needs a new one."""
        if info is None and live.hibernated and _is_kept_as_processes(live):
            live.sandbox.forget_saved("they are not on the disk of this host")
        if info is None:
            return HIBERNATED if live.hibernated else gone
        try:
            for number in range(len(ATTEMPT_SECONDS) - 1):
                try:
                    async with self._attempt(number):
                        return await self._adopt_found(live, info)
                except (DeadlineExceeded, TimeoutError) as error:
                    log.warning("sandbox_not_adopted_yet", session=live.id, error=str(error) or repr(error))
            async with self._attempt(len(ATTEMPT_SECONDS) - 1):
                return await self._adopt_found(live, info)
        except (KernelsError, OSError) as error:
            log.warning("sandbox_not_adopted", session=live.id, error=str(error) or repr(error))
            if live.hibernated:
                live.sandbox.leave_behind()
            cause = error.death.cause if isinstance(error, KernelDied) else "sandbox"
            why = str(error) or "it did not answer in time"
            return Death(cause, f"the service started again and could not take up the sandbox: {why}")

    async def _adopt_found(self, live: LiveSession, info: SandboxInfo) -> Death | None:
        """One attempt, which may be cut off: then nothing of the sandbox has been taken on."""
        if live.hibernated:
            return await self._adopt_hibernated(live, info)
        if not info.workspace_ready:
            # The store has the whole workspace and this sandbox a part of it: nothing of it may be saved.
            await self._runtime.destroy(info.sandbox_id)
            return CUT_OFF
        if not await self._runtime.running(live.sandbox.id):
            return VANISHED
        heard = await self._database.run(lambda c: executions.list_heard(c, live.id))
        await live.sandbox.adopt(info, heard)
        if live.snapshot is not None and live.snapshot.state == "saving":
            live.variables.forget()  # its kernel has its own, which may be newer
        if live.sandbox.kernel is not None:
            live.variables.take_up(live.sandbox.kernel)
        return None

    async def _adopt_hibernated(self, live: LiveSession, info: SandboxInfo) -> Death | None:
        """All of it was in the store before its row said so; its processes may wait on its disk besides."""
        if _is_kept_as_processes(live):
            if await self._runtime.put_away(info.sandbox_id):
                live.sandbox.saved = info
                return None
            live.sandbox.forget_saved("they are not on the disk of this host any more")
        await self._runtime.destroy(info.sandbox_id)
        return HIBERNATED

    async def _take_up_executions(self, live: LiveSession, *, adopted: bool) -> None:
        kernel = live.sandbox.kernel if adopted else None
        running = False
        for row in await self._database.run(lambda c: executions.list_open(c, live.id)):
            job = Job(row, EventLog(self._settings.event_log_bytes))
            if row.status == "queued":
                self._readmit(live, job)
            elif kernel is not None and row.kind == "command" and row.under_way is not None:
                self._commands.take_up(live, kernel, row)
                self._program_streams.take_up(live, row)
            elif kernel is None or row.kind != "code" or not kernel.remembers_runs or row.runtime == "nodejs":
                await self._record_end(row, live, adopted=adopted)
            else:
                # The guest knows what was sent to a kernel: nothing is run twice, and what never was runs now.
                job.taken_up = job.log.is_rebuilt = kernel.find_taken(row.id) is not None
                running = running or (job.taken_up and row.runtime == PYTHON)
                if job.taken_up:
                    job.tell_again(() if row.under_way is None else row.under_way.told)
                    self._await_client(live, row)
                else:
                    job.row = replace(row, status="queued", started=None)
                self._readmit(live, job)
        if kernel is not None and not running:
            kernel.go_on()

    def _await_client(self, live: LiveSession, row: ExecutionRow) -> None:
        """Keep for the attached client whose cell goes on what it is sent before it has come back."""
        kernel = live.sandbox.kernel
        taken = None if kernel is None else kernel.find_taken(row.id)
        if row.face != ATTACHED_FACE or row.runtime != PYTHON or kernel is None or kernel.hub is None or taken is None:
            return
        if live.audience is None:
            live.audience = Subscribers(self._settings.attach_replay_bytes)
            live.audience.connect(kernel.hub)
        live.audience.expect_back(row.author, taken.session, self._clock.now())

    def _readmit(self, live: LiveSession, job: Job) -> None:
        job.mark_stored(stored=True)
        live.readmit(job)

    async def _record_end(self, row: ExecutionRow, live: LiveSession, *, adopted: bool) -> None:
        """It was running when the earlier process ended, and cannot be taken up: it is not run again."""
        if adopted:
            status, why = "interrupted", CUT_SHORT if row.kind == "code" else STOPPED
            outcome = StoredOutcome(why=why)
        else:
            # What its kernel had said of it is not on record before it has ended.
            status, why = "died", f"{LOST}{UNSURE if row.kind == 'code' else ''}"
            outcome = death_outcome("sandbox", why)
        ended = self._redaction.row(replace(row, status=status, outcome=outcome, ended=self._clock.now()))
        what = "Execution" if row.kind == "code" else "Command"
        note = live.note("restart", f"**The service restarted.** {what} `{row.id}`: {why}")

        def store(connection: Connection) -> None:  # in one: killed between the two, a start would leave no note
            executions.finish(connection, ended)
            executions.add_note(connection, note)

        await self._database.run(store)


def _is_kept_as_processes(live: LiveSession) -> bool:
    return live.snapshot is not None and live.snapshot.report.kept_as == "processes"


def _load(connection: Connection) -> tuple[list[SessionRow], dict[str, HibernationRow]]:
    """The sessions that have not ended, and what the store has of their variables."""
    gateways.take_unowned(connection)
    hibernations.spend_begun(connection)
    rows = sessions.list_live(connection)
    checkpoints.spend_unfinished(connection, _find_undone_by(rows))
    return rows, hibernations.list_kept(connection)


def _load_taken(
    connection: Connection, session_ids: Sequence[str]
) -> tuple[list[SessionRow], dict[str, HibernationRow]]:
    """The same of sessions that were another gateway's."""
    hibernations.spend_begun(connection, session_ids)
    rows = sessions.list_some(connection, session_ids)
    checkpoints.spend_unfinished(connection, _find_undone_by(rows), session_ids)
    return rows, hibernations.list_kept(connection)


def _find_undone_by(rows: Sequence[SessionRow]) -> list[str]:
    """The checkpoints that their sessions are being taken back to."""
    return [each.record.undoing.checkpoint for each in rows if each.record.undoing]


async def _start_again(live: LiveSession) -> None:
    """Its workspace was being restored when the service ended; the session's next user hears of a failure."""
    try:
        await live.sandbox.ensure_started()
    except GatewayError as error:
        log.warning("restore_not_begun_again", session=live.id, error=error.code)
