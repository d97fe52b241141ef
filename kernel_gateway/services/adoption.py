"""What the start of the service takes up of an earlier process: sessions, their sandboxes, their executions.

A READY session whose sandbox runs goes on with the same kernel; one whose sandbox is gone gets a new one when it is
next used. What was queued runs. What was running goes on: the guest has kept what its kernel said since, and the event
log, the outputs and the outcome become what they would have been.
"""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Mapping, Sequence

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
from kernel_gateway.services.results.outcomes import death_outcome
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
from kernels.errors import Death, KernelDied, KernelsError, SandboxGone
from kernels.languages import PYTHON
from kernels.sandbox import SandboxInfo, SandboxRuntime

log = structlog.get_logger(__name__)
ATTACHED_FACE = "jupyter"
TAKE_PAUSES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 1.0)
"""In leases, after each attempt to take a sandbox over before the last: what fails may only be passing.

Short ones first: until all that were taken at once are had or given up, none of them answers.
"""
CUT_SHORT = (
    "the service restarted while this ran in a sandbox that does not keep output meanwhile (one of an older release, or"
    " a program of its own beside the kernel): the output since is lost, while its code may still run"
)
STOPPED = "the service restarted while this ran: what it put out since then is not on record"
LOST = "the service restarted while this ran, and the sandbox with the kernel and its globals is gone"
CUT_OFF = Death("sandbox", "the service ended while the sandbox was being made; nothing had run in it")
VANISHED = Death("sandbox", "the sandbox was gone when the service started again; every global and /tmp went with it")
TAKEN_OVER = Death(
    "sandbox", "the gateway that had the session is gone, and another has it now; every global and /tmp went with it"
)


class Adoption:
    """`run` once at start, before any call is served."""

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
        self._adopting = asyncio.Semaphore(settings.starts_at_once)
        self.taking: set[str] = set()
        """Sandboxes that are being taken over: they may be this gateway's already, and have no session here yet."""

    async def run(self) -> tuple[SandboxInfo, ...]:
        """Take up every READY session; gives the sandboxes that were found on the host."""
        rows, snapshots = await self._database.run(_load)
        infos = {info.sandbox_id: info for info in await self._runtime.list()}
        try:
            if self._database.lease is not None:
                # The last process may have ended between a takeover in the database and that of the sandboxes.
                awake = [
                    row for row in rows if row.status != "HIBERNATED"
                ]  # of the others there is none to be asked for
                infos |= await self._take_sandboxes([row.id for row in awake if row.sandbox_id not in infos])
            await self._adopt_all(rows, snapshots, infos, gone=VANISHED)
        finally:
            self.taking.clear()
        return tuple(infos.values())

    async def take_over(self, session_ids: Sequence[str]) -> None:
        """Take up sessions that were another gateway's a moment ago.

        A sandbox that is reached from here too, as a pod is, goes on; else it is as if a host was lost.
        """
        try:
            infos = await self._take_sandboxes(session_ids)
            rows, snapshots = await self._database.run(lambda c: _load_taken(c, session_ids, infos))
            await self._adopt_all(rows, snapshots, infos, gone=TAKEN_OVER)
        finally:
            self.taking.clear()

    async def _take_sandboxes(self, session_ids: Sequence[str]) -> dict[str, SandboxInfo]:
        """Make their sandboxes this gateway's that run where it reaches them, by id."""
        rows = await self._database.run(lambda c: sessions.list_some(c, session_ids))
        self.taking.update(row.sandbox_id for row in rows)
        found = await asyncio.gather(*(self._take(row.sandbox_id) for row in rows))
        taken = {row.sandbox_id for row, is_taken in zip(rows, found, strict=True) if is_taken}
        infos = await self._runtime.list() if taken else ()
        return {info.sandbox_id: info for info in infos if info.sandbox_id in taken}

    async def _take(self, sandbox_id: str) -> bool:
        """Whether it runs and is this gateway's now; tried again while it cannot be said."""
        for pause in TAKE_PAUSES:
            try:
                async with self._adopting:
                    if not await self._runtime.running(sandbox_id):
                        return False
                    await self._runtime.reopen(sandbox_id)
                    return True
            except SandboxGone:
                return False  # or on a host that is another gateway's
            except (KernelsError, OSError) as error:
                log.warning("sandbox_not_taken_over_yet", sandbox=sandbox_id, error=str(error))
            await self._clock.sleep(self._settings.gateway_lease_seconds * pause)
        return await self._take_or_abandon(sandbox_id)

    async def _take_or_abandon(self, sandbox_id: str) -> bool:
        """The last attempt. What is abandoned is the sweep's if it could at least be made this gateway's."""
        try:
            async with self._adopting:
                await self._runtime.reopen(sandbox_id)  # first: this needs less than to know whether it runs
                return await self._runtime.running(sandbox_id)
        except SandboxGone:
            return False
        except (KernelsError, OSError) as error:
            log.error("sandbox_abandoned", sandbox=sandbox_id, error=str(error))
            return False

    async def _adopt_all(
        self,
        rows: Sequence[SessionRow],
        snapshots: Mapping[str, HibernationRow],
        infos: Mapping[str, SandboxInfo],
        *,
        gone: Death,
    ) -> None:
        # All are registered before the first is adopted: none of their sandboxes may pass for an orphan.
        built = [(self._builder.build(row), infos.get(row.sandbox_id)) for row in rows]
        for live, _ in built:
            live.snapshot = snapshots.get(live.id)
        # An error of the database ends them all, and the start: no session may be served half taken up.
        async with asyncio.TaskGroup() as group:
            for live, info in built:
                group.create_task(self._adopt(live, info, gone))

    async def _adopt(self, live: LiveSession, info: SandboxInfo | None, gone: Death) -> None:
        """One session; what goes wrong with its sandbox costs it the sandbox, never the start of the service."""
        last_ended = await self._database.run(lambda c: executions.last_ended(c, live.id))
        live.sandbox.flushes.take_up(last_ended)
        death = await self._adopt_sandbox(live, info, gone)
        if death is not None:
            live.sandbox.require_new(death)
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
        self._lifecycle.open(live)
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
            async with self._adopting:
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
        except (KernelsError, OSError) as error:
            log.warning("sandbox_not_adopted", session=live.id, error=str(error))
            if live.hibernated:
                live.sandbox.leave_behind()
            cause = error.death.cause if isinstance(error, KernelDied) else "sandbox"
            return Death(cause, f"the service started again and could not take up the sandbox: {error}")

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
            status, why = "died", LOST
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
    connection: Connection, session_ids: Sequence[str], infos: Mapping[str, SandboxInfo]
) -> tuple[list[SessionRow], dict[str, HibernationRow]]:
    """The sessions that were another gateway's; those whose sandbox is not in `infos` get the name of a new one."""
    hibernations.spend_begun(connection, session_ids)
    found, rows = sessions.list_some(connection, session_ids), []
    checkpoints.spend_unfinished(connection, _find_undone_by(found), session_ids)
    for row in found:
        if row.sandbox_id in infos:
            rows.append(row)
            continue
        # The sandbox of that name may still be there, with a launcher that nobody asks any more.
        record = replace(row.record, sandbox_id=str(uuid.uuid4()))
        sessions.set_record(connection, row.id, record)
        rows.append(dataclasses.replace(row, record=record))
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
