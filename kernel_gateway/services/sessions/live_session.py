"""One live session in memory: who may still use it, what waits in it, what runs, and when it last did something."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec

from kernel_gateway.errors import NotFound, QueueFull, SessionBusy, SessionTerminated
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.results.displays import Displays
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.results.running_command import RunningCommand
from kernel_gateway.services.sessions.session_sandbox import SessionSandbox
from kernel_gateway.services.sessions.subscribers import Ended, Subscribers
from kernel_gateway.storage.executions import ExecutionRow, NoteRow
from kernel_gateway.storage.hibernations import HibernationRow
from kernel_gateway.storage.sessions import Record, SessionRow
from kernels.execution.contexts import RunContext
from kernels.execution.hub import Hub
from kernels.guest_client.client import CommandResult
from kernels.languages import PYTHON
from kernels.sandbox import SandboxInfo
from kernels.sandboxed.sandboxed_kernel import SandboxedKernel
from sandcell.models.leases import Lease
from sandcell.models.sessions import Ended as SessionEnded
from sandcell.models.sessions import Memory, Session

if TYPE_CHECKING:
    from kernel_gateway.services.results.memory_guard import SessionMemory
    from kernel_gateway.services.sessions.late_outputs import LateOutputs
    from kernel_gateway.services.sessions.session_variables import SessionVariables
    from kernel_gateway.services.sessions.worker import Worker

MOST_TASKS = 1_000
CLOCK_STEP_SECONDS = 5.0
"""What the host's clock has to be set by for times to be shifted; what is less passes as time."""
_alone_with: ContextVar[str] = ContextVar("alone_with", default="")
"""The session that the running task has alone."""
NEWS_BYTES = 16_384


class Ending(msgspec.Struct, frozen=True):
    """Why a session is about to end."""

    reason: str
    detail: str


@dataclass
class AwaitedTask:
    """A background task whose end is waited for, by its id, and how it was when its session began to end."""

    id: str
    last: CommandResult | None = None


@dataclass(frozen=True)
class HeldLease:
    """A lease: who has the session to themselves, and until when."""

    id: str
    holder: str
    expires: float

    @property
    def sentence(self) -> str:
        """What others hear who want to run something."""
        return f"{self.holder} has this session to themselves until {rfc3339(self.expires)}"


class LiveSession:
    """Its row, its sandbox and its queue. Everything here runs on the loop and nothing but `next_job` waits."""

    snapshot: HibernationRow | None = None
    """What the store has of its variables for its next kernel: while it is hibernated, and until one has them."""
    snapshot_laid: SandboxInfo | None = None
    """The sandbox that holds that already."""
    snapshot_without_image: HibernationRow | None = None
    """The one of which is on record that the image that belongs to it is lost, and takes nothing any more."""
    hibernating: asyncio.Task[None] | None = None
    paused = False
    hibernate_seconds: int | None = None
    """After how long without use it is to hibernate, 0 for never; None while that was not looked up."""
    checkpoint_every: int | None = None
    """After how many executions it is to be kept as it is, 0 for never; None while that was not looked up."""
    hibernates_not_before = 0.0
    """When it is tried again after it could not be."""
    expiry_moved = False
    """Whether the host's clock was set, and the database does not have its expiry as it is since."""

    _resting: bool
    """Whether nothing of the queue is to begin for now; from the start of the service on until an undo is finished."""
    _uses = 0
    """How often something but an execution has begun in it."""

    def __init__(self, row: SessionRow, clock: Clock) -> None:
        self.row = row
        self.surroundings = row.record.surroundings
        self.sandbox: SessionSandbox
        self.worker: Worker
        self.late: LateOutputs
        self.memory: SessionMemory
        self.variables: SessionVariables
        self._resting, self._taken = row.record.undoing is not None, False
        self.stored = True
        """Whether the database has its row: not yet while its start waits for memory."""
        self.ending: Ending | None = None
        self.end_task: asyncio.Task[SessionRow] | None = None
        self.start_task: asyncio.Task[None] | None = None
        self.worker_task: asyncio.Task[None] | None = None
        self.timer_task: asyncio.Task[None] | None = None
        self.running: Job | None = None
        self.executions = self.checkpoint_at = row.executions
        self.last_activity = self.stored_activity = row.last_activity
        self.stored_record = row.record.network, row.record.sync.durable
        """What of its record is written down as it changes."""
        self.notebook_stale = False
        self.tasks: dict[str, SandboxedKernel] = {}
        self.unstored: dict[str, ExecutionRow] = {}
        """Commands that have ended, and whose rows the database has not taken yet."""
        self.displays = Displays()
        self.audience: Subscribers | None = None
        """The clients attached to it, once there are any."""
        self.looks: set[Literal["look", "move"]] = set()
        """What the kernel was asked for besides code and has not done yet: to complete code, or to move a widget."""
        self._kept_resident: tuple[float, float] | None = None
        """Its last activity when it was to stay resident, and until when it is without another."""
        self.paged_out = False
        """Whether its sandbox was stopped and has not been seen running since."""
        self.lease: HeldLease | None = None
        self.lease_task: asyncio.Task[None] | None = None
        self.time_changed: Callable[[], None] = lambda: None  # set by who looks after its end, called at another one
        self._clock, self._stepped = clock, clock.stepped()
        self._queue: deque[Job] = deque()
        self._wake, self._in_use, self._attended = asyncio.Event(), 0, 0

    @cached_property
    def watches(self) -> set[asyncio.Task[None]]:
        """What collects changes of directories for callers who ask later."""
        return set()

    @cached_property
    def commands(self) -> dict[str, RunningCommand]:
        """Those whose end is not on record yet, by the ids of their executions."""
        return {}

    @cached_property
    def awaited_tasks(self) -> dict[str, AwaitedTask]:
        """The background tasks whose ends are waited for, to be on record, by the executions that have started them."""
        return {}

    @cached_property
    def news(self) -> EventLog:
        """What happens in it, for those who follow it: ids and states, no content."""
        # In milliseconds, so that a later process of the service gives out higher ids.
        return EventLog(NEWS_BYTES, base=int(self._clock.now() * 1000))

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def run_context(self) -> RunContext | None:
        """Where code runs that names no context; None where that is as the kernel began."""
        kept = self.surroundings
        return None if kept is None else RunContext("", kept.directory, kept.variables)

    @property
    def in_work(self) -> bool:
        """Whether a command or a change of a file is under way."""
        return self._in_use > 0

    @property
    def in_awaited_work(self) -> bool:
        """The same without programs that people work in: nobody knows when those end."""
        return self._in_use > self._attended

    @property
    def waiting(self) -> int:
        """How many executions wait."""
        return len(self._queue)

    @property
    def busy(self) -> bool:
        """Whether anything runs or waits in it."""
        return self.running is not None or bool(self._queue) or self._in_use > 0 or self._resting

    @property
    def looking(self) -> bool:
        """Whether its kernel does something that is no execution: an interrupt is to reach it, and it is not idle."""
        return bool(self.looks)

    @property
    def is_snapshot(self) -> bool:
        """Whether it stays hibernated, for others to begin as it is."""
        return bool(self.row.record.snapshot_of)

    @property
    def hibernated(self) -> bool:
        """Whether it has given up its sandbox until its next use."""
        return self.row.status == "HIBERNATED"

    @property
    def idle_expires(self) -> float:
        """When it will have been idle too long, if nothing happens; work under way counts as happening now.

        One that is hibernated has another time, its row's.
        """
        if self.hibernated:
            return self.row.expires
        since = self._clock.now() if self.busy else self.last_activity
        return since + self.row.idle_timeout_seconds

    def touch(self) -> None:
        """Work was done in it: its idle time begins again."""
        self.follow_clock()
        self.last_activity = self._clock.now()

    def follow_clock(self) -> None:
        """Shift its times by what the host's clock was set to, which is no time that has passed.

        What has not been written to the database is its expiry, and in its record that the step is none of its time:
        its start stays what it was. While it is hibernated that counts in how long it slept.
        """
        step = self._clock.stepped() - self._stepped
        if abs(step) < CLOCK_STEP_SECONDS:
            return
        self._stepped += step
        self.last_activity += step
        record = self.row.record
        if not self.hibernated:
            record = msgspec.structs.replace(record, slept_seconds=record.slept_seconds + step)
        self.row = replace(self.row, expires=self.row.expires + step, record=record)
        self.expiry_moved = True

    @property
    def kept_resident(self) -> bool:
        """Whether it is to stay resident for now: paging it out has failed, or it was woken a moment ago."""
        kept = self._kept_resident
        return kept is not None and kept[0] == self.last_activity and self._clock.now() < kept[1]

    def keep_resident(self, seconds: float) -> None:
        """Have it stay as it is until its next activity, but no longer than this."""
        self._kept_resident = self.last_activity, self._clock.now() + seconds

    @contextlib.contextmanager
    def in_use(self, *, attended: bool = False) -> Iterator[None]:
        """Work other than an execution: touches the idle clock at both ends and keeps it from running out between.

        `attended`: it is a program that people work in. Raises SessionBusy while somebody else has the session alone.
        """
        self.require_live()
        if self._taken and _alone_with.get() != self.id:
            raise SessionBusy(
                "the session is being taken back to an earlier cell: try again",
                session_id=self.id,
                retry_after_seconds=1.0,
            )
        self.touch()
        self._in_use += 1
        self._attended += attended
        self._uses += 1
        try:
            yield
        finally:
            self._in_use -= 1
            self._attended -= attended
            self.touch()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Meanwhile only the task that is in the block, and those that it starts, have the session `in_use`."""
        self._taken, before = True, _alone_with.set(self.id)
        try:
            yield
        finally:
            self._taken = False
            _alone_with.reset(before)

    @contextlib.contextmanager
    def at_rest(self, *, again: bool = False) -> Iterator[Callable[[], None]]:
        """Meanwhile nothing of the queue begins; raises SessionBusy when something runs in it.

        What is given raises SessionBusy as well, once a command or a change of a file has begun. With `again` the
        session has been at rest since the start of the service.
        """
        self.require_live()
        if not again and (self.running is not None or self._in_use > 0 or self._resting):
            raise SessionBusy("something runs in the session: wait for it", session_id=self.id)
        uses = self._uses

        def require() -> None:
            self.require_live()
            if self._uses != uses:
                raise SessionBusy("something was done in the session meanwhile: try again", session_id=self.id)

        self._resting = True
        try:
            yield require
        finally:
            self._resting = False
            self.touch()
            self._wake.set()

    def require_live(self) -> None:
        """Raises SessionTerminated once the session is ending."""
        if self.ending is not None:
            raise SessionTerminated(
                f"the session has ended: {self.ending.reason}",
                session_id=self.id,
                reason=self.ending.reason,
                detail=self.ending.detail,
            )

    def require_room(self, queue_length: int) -> None:
        """Raises QueueFull when no further execution may wait."""
        if len(self._queue) >= queue_length:
            raise QueueFull(f"{queue_length} executions wait in this session already", retry_after_seconds=1.0)

    def require_context(self, job: Job) -> None:
        """Raises NotFound when the context that a job is for was removed."""
        name = job.context.name if job.context else ""
        if name and (self.surroundings is None or all(each.id != name for each in self.surroundings.contexts)):
            raise NotFound(f"Context {name} was removed before this ran")

    @property
    def _held_up(self) -> bool:
        return self.paused or self._resting

    @property
    def held(self) -> HeldLease | None:
        """The lease that lasts now."""
        return self.lease if self.lease is not None and self._clock.now() < self.lease.expires else None

    def require_unleased(self, lease_id: str | None) -> None:
        """Raises SessionBusy while another lease than this one holds the session."""
        held = self.held
        if held is not None and held.id != lease_id:
            raise SessionBusy(
                held.sentence,
                session_id=self.id,
                lease={"holder": held.holder, "expires_at": rfc3339(held.expires)},
                retry_after_seconds=max(held.expires - self._clock.now(), 0.0),
            )

    def may_run(self, job: Job) -> bool:
        """Whether it is this job's time: while a lease lasts, its holder's, those of attached clients, and what only
        ends, since it was interrupted before it ran."""
        held = self.held
        return held is None or job.interrupted or job.taken_up or job.row.face == "jupyter" or job.lease == held.id

    def explain_wait(self, job: Job) -> str | None:
        """Why a job waits that would run otherwise, if it is for a lease."""
        held = self.held
        return held.sentence if held is not None and job.row.started is None and not self.may_run(job) else None

    def wake(self) -> None:
        """Look at the queue again: what had to wait may run."""
        self._wake.set()

    def admit(self, job: Job, queue_length: int) -> None:
        """Give a job its place in the queue; raises QueueFull, SessionTerminated."""
        self.require_live()
        self.require_room(queue_length)
        job.news = self._note_job
        self._queue.append(job)
        self.touch()
        self._wake.set()
        self.variables.code_waits()

    def _note_job(self, row: ExecutionRow) -> None:
        self.news.append("execution", {"execution_id": row.id, "status": row.status})

    def takes_at_once(self, job: Job) -> int | None:
        """The generation of the kernel that takes this job now; None when the job has to wait or there is no kernel.

        It waits for a sandbox that stands still, too: one that cannot go on has begun nothing.
        """
        kernel = self.sandbox.kernel
        if kernel is not None and kernel.residence.stopped:
            return None
        alone = self.running is None and not self._held_up and len(self._queue) == 1 and self._queue[0] is job
        alone = alone and self.sandbox.workspace_ready
        return self.sandbox.live_generation if alone and self.may_run(job) else None

    def readmit(self, job: Job) -> None:
        """A job that was queued before the service restarted, or was running: that one goes on before all others."""
        job.news = self._note_job
        if job.taken_up:
            self._queue.appendleft(job)
        else:
            self._queue.append(job)
        self._wake.set()

    def withdraw(self, job: Job) -> bool:
        """Take a job out of the queue; says whether it was still there."""
        try:
            self._queue.remove(job)
        except ValueError:
            return False
        return True

    def take_followers(self, job: Job) -> list[Job]:
        """Take the cells out of the queue that the client of this one sent after it, to run only if it goes well."""
        followers = [
            each
            for each in self._queue
            if each.asked is not None and job.aborts is not None and each.asked.request.session == job.aborts
        ]
        for each in followers:
            self._queue.remove(each)
        return followers

    def dismiss(self, reason: str, detail: str) -> None:
        """End what is attached."""
        if self.audience is not None:
            self.audience.close(Ended(reason, detail))

    def now(self) -> float:
        """The time by the session's clock."""
        return self._clock.now()

    def say(self, line: str) -> None:
        """Show the clients that are attached a line beside what runs."""
        if self.audience is not None:
            self.audience.say(line)

    def connect(self, hub: Hub, runtime: str = PYTHON) -> None:
        """Another kernel is connected; called before anything runs in it."""
        self.late.connect(hub)
        if self.audience is not None and self.audience.runtime == runtime:
            self.audience.connect(hub)

    def take_all(self) -> list[Job]:
        """Empty the queue."""
        waiting = list(self._queue)
        self._queue.clear()
        return waiting

    async def next_job(self) -> Job:
        """The first job that may run, which becomes the running one; the worker waits here for as long as it lives."""
        while (job := next(filter(self.may_run, self._queue), None)) is None or self._held_up:
            self._wake.clear()
            await self._wake.wait()
        self._queue.remove(job)
        self.running = job
        if job.row.runtime == PYTHON:
            self.looks.clear()  # those end before the kernel takes this, which an interrupt reaches from now on
        return job

    def interrupt_running(self) -> bool:
        """Ask what runs to stop; whether its code runs, so that the kernel has to be interrupted."""
        return self.running is not None and self.running.interrupt()

    def find_job(self, execution_id: str) -> Job | None:
        """A job that waits or runs."""
        running = [self.running] if self.running is not None else []
        return next((job for job in (*running, *self._queue) if job.row.id == execution_id), None)

    def remember_task(self, task_id: str, kernel: SandboxedKernel) -> None:
        """A background command was started; the oldest are forgotten when there are too many."""
        self.tasks[task_id] = kernel
        while len(self.tasks) > MOST_TASKS:
            del self.tasks[next(iter(self.tasks))]

    def note(self, kind: str, body: str) -> NoteRow:
        """A note of what happens now."""
        return NoteRow(self.id, self.sandbox.generation, self._clock.now(), kind, body)

    def build_record(self) -> Record:
        """What is stored of it besides its row; its usage is as the sandbox was last asked for it."""
        egress_gateway = self.sandbox.egress_gateway
        usage = msgspec.structs.replace(self.sandbox.meter.last, executions=self.executions)
        if self.hibernated:  # what was measured last is of the sandbox that it gave up
            usage = msgspec.structs.replace(usage, memory_bytes=0, pids=0)
        kept = self.surroundings if self.ending is None else None
        return msgspec.structs.replace(
            self.row.record,
            usage=usage,
            sync=self.sandbox.sync(),
            runtime=egress_gateway.runtime,
            network=egress_gateway.network(),
            surroundings=kept,
            restored=self.variables.restored,
        )

    def describe(self) -> Session:
        """The session as callers see it; its usage is as the sandbox was last asked for it."""
        row = replace(
            self.row,
            generation=self.sandbox.generation,
            last_activity=self.last_activity,
            executions=self.executions,
            record=self.build_record(),
        )
        session = describe_session(row, self.idle_expires, self.sandbox.memory)
        if self.hibernated and self.snapshot is not None:
            # The end moves when the host's clock is set; the report is as it was written.
            report = msgspec.structs.replace(self.snapshot.report, until=session.expires_at)
            if report.kept_as == "processes" and self.sandbox.saved is None:
                lost = self.sandbox.not_restored
                report = msgspec.structs.replace(report, kept_as="variables", image_bytes=0, processes_lost=lost)
            session.hibernated = report
        elif self.hibernate_seconds and self.ending is None and not row.record.keep_awake:
            since = self._clock.now() if self.busy else self.last_activity
            due = max(since + self.hibernate_seconds, self.hibernates_not_before)
            if due < min(self.idle_expires, row.expires):
                session.hibernates_at = rfc3339(due)
        held = self.held
        session.lease = Lease(held.holder, rfc3339(held.expires)) if held is not None else None
        return session


def describe_session(row: SessionRow, idle_expires: float | None = None, memory: Memory | None = None) -> Session:
    """A session as callers see it, by its row; of a live one the row is brought up to date before."""
    if idle_expires is None:
        idle_expires = row.last_activity + row.idle_timeout_seconds
    ended = None
    if row.ended is not None:
        ended = SessionEnded(row.ended_reason or "", row.ended_detail or "", rfc3339(row.ended))
    return Session(
        id=row.id,
        name=row.name,
        status=row.status,  # type: ignore[arg-type]
        environment=row.environment,
        workspace_id=row.workspace_id,
        generation=row.generation,
        created_at=rfc3339(row.created),
        last_activity_at=rfc3339(row.last_activity),
        expires_at=rfc3339(row.expires),
        idle_expires_at=rfc3339(min(idle_expires, row.expires)),
        timeout_seconds=row.timeout_seconds,
        idle_timeout_seconds=row.idle_timeout_seconds,
        ended=ended,
        usage=msgspec.structs.replace(row.record.usage, executions=row.executions),
        sync=row.record.sync,
        labels=row.labels,
        agent=row.agent,
        runtime=row.record.runtime,
        network=row.record.network,
        memory=memory,
        keep_awake=row.record.keep_awake,
        restored=row.record.restored if row.status == "READY" else None,
        keep_variables=row.record.keep_variables,
        keep_variables_mb=row.record.keep_variables_mb,
        checkpoint_every=row.record.checkpoint_every,
        from_=row.record.forked,
        snapshot_of=row.record.snapshot_of or None,
    )
