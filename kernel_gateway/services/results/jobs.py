"""One execution while it waits or runs, and for a while after: its row, its log, and those who wait for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from typing import Any, Final

import msgspec
import structlog
from msgspec.structs import replace

from kernel_gateway import tracing
from kernel_gateway.errors import GatewayError
from kernel_gateway.services.admission.fair_shares import Share
from kernel_gateway.services.results.displays import targets, update_outcome
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.kept_outputs import FullText
from kernel_gateway.services.results.outcomes import closing_event, execution_of
from kernel_gateway.storage.executions import ExecutionRow, StoredOutcome, StoredUpdate, ToldEvent
from kernels.execution.contexts import RunContext
from kernels.wire.client_request import ClientRequest
from sandcell.models.executions import Event, Execution, MemoryShortage
from sandcell.models.sync import ExecutionSync

log = structlog.get_logger(__name__)
NOTHING: Final = StoredOutcome()


class Asked(msgspec.Struct, frozen=True):
    """The message of an attached client that a job carries out, and what is called when it begins and has ended."""

    request: ClientRequest
    told: Callable[[ClientRequest, ExecutionRow, ExecutionSync | None], None]


class Job:
    """An execution in memory. It takes its place in the queue first and is run only once its row is stored."""

    catch_up: Callable[[], Awaitable[None]] | None = None
    """What one that was taken up waits for before it tells of anything new: all that its kernel has said meanwhile."""
    told: tuple[ToldEvent, ...] = ()
    """Events that are not of what the kernel says."""
    keep_told: Callable[[Job], Awaitable[None]] | None = None
    """Makes those durable."""

    def __init__(self, row: ExecutionRow, log: EventLog, asked: Asked | None = None) -> None:
        self.row = row
        self.log = log
        self.asked = asked
        """Until it has ended."""
        stops = asked is not None and asked.request.stop_on_error and not asked.request.silent
        self.aborts = asked.request.session if asked is not None and stops else None
        """The client session whose later cells do not run when this one fails."""
        self.interrupted = False
        """Asked to stop before it ran."""
        self.executing = False
        """Whether its code runs: it has been sent to a kernel, and has not ended."""
        self.deaf = False
        """Interrupted while it ran, and it went on."""
        self.memory: MemoryShortage | None = None
        """That memory ran short while it ran."""
        self.taken_up = False
        """Whether it was running when the service ended, and its code has gone on since."""
        self._code_ended = asyncio.Event()
        self.news: Callable[[ExecutionRow], None] | None = None
        """Called when it is stored, begins and has ended, for those who follow its session."""
        self.answered: ExecutionSync | None = None
        """What its answer says of its files."""
        self._settling: asyncio.Task[ExecutionSync] | None = None
        self._preparing: asyncio.Task[None] | None = None
        self.context: RunContext | None = None
        """Where its code is to run; None: where the session's runs."""
        self.lease: str | None = None
        """The lease that the caller who submitted it holds, or claims to hold."""
        self.room: Share | None = None
        """Memory for its code while it waits."""
        self.full_text: FullText | None = None
        """What keeps its text in full while it runs."""
        self.trace = tracing.current()
        """The trace of who submitted it, where traces are kept; once it has ended, of what follows from it."""
        self.begun: int | None = None
        """The generation it is stored as running on, once it is."""
        self._stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[Execution] | None = None
        self._answer: Execution | None = None

    def mark_stored(self, *, stored: bool) -> None:
        """The row is in the database, or could not get there: then the job is not run."""
        if not self._stored.done():
            self._stored.set_result(stored)
        if not stored:
            self.leave_room()
        elif self.news is not None:
            self.news(self.row)

    def leave_room(self) -> None:
        """Its code waits no more."""
        if self.room is not None:
            self.room.release()
            self.room = None

    async def is_stored(self) -> bool:
        # No deadline of its own: who admits it marks it whatever comes of the transaction, which has one.
        return await self._stored

    def has_to_stop(self) -> bool:
        """Whether a caller interrupted it: to be asked again after every wait."""
        return self.interrupted

    @property
    def has_ended(self) -> bool:
        return self._answer is not None

    async def wait(self) -> Execution:
        """The whole answer, once its outcome is stored; raises when storing it fails."""
        if self._answer is not None:
            return self._answer
        if self._ended is None:
            self._ended = asyncio.get_running_loop().create_future()
        return await asyncio.shield(self._ended)

    async def prepare(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for what it needs before it runs; no longer than until a caller interrupts it."""
        preparing = self._preparing = asyncio.get_running_loop().create_task(waiting)
        try:
            await asyncio.wait([preparing])  # restores have a deadline (`restore_deadline_seconds`)
            if not preparing.cancelled():
                preparing.result()
        finally:
            preparing.cancel()
            self._preparing = None

    @property
    def is_settling(self) -> bool:
        """Whether the code has ended and the answer waits for the store."""
        return self._settling is not None

    async def settle(self, waiting: Coroutine[Any, Any, ExecutionSync]) -> ExecutionSync:
        """Wait for the store, unless a caller interrupts that."""
        self._settling = asyncio.get_running_loop().create_task(waiting)
        try:
            await asyncio.wait([self._settling])  # a wait for a flush has a deadline, see `Flushes.wait_durable`
            return self._settling.result()
        except asyncio.CancelledError:
            if not self._settling.cancelled():
                self._settling.cancel()
                raise
            return ExecutionSync("before_return", durable=False, error="the wait for the store was interrupted")
        finally:
            self._settling = None

    def interrupt(self) -> bool:
        """Ask it to stop; whether its code runs, so that the kernel has to be interrupted."""
        self.interrupted = True
        if self._preparing is not None:
            self._preparing.cancel()
        if self._settling is not None:
            self._settling.cancel()
            return False
        return self.row.started is not None

    @contextlib.contextmanager
    def execution(self) -> Iterator[None]:
        """Around the time in which its code runs."""
        self.executing = True
        try:
            yield
        finally:
            self.executing = False
            self._code_ended.set()

    async def executes_within(self, seconds: float) -> None:
        """Wait until its code has ended, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._code_ended.wait()

    async def tell(self, event: str, data: dict[str, Any]) -> None:
        """Add an event that is not of what the kernel says; who follows gets it once it is on record.

        A later process that takes up the execution has it under the same number then. It does not come into what is
        told again of an earlier process.
        """
        if self.catch_up is not None:
            await self.catch_up()
        number = self.log.hold(event, data)
        if not number:
            return
        self.told = (*self.told, ToldEvent(number, event, data))
        try:
            if self.keep_told is not None:
                await self.keep_told(self)
        finally:
            self.log.show(number)

    def tell_again(self, told: Sequence[ToldEvent]) -> None:
        """It was taken up from an earlier process, which had told these."""
        self.told = tuple(told)
        self.log.expect(Event(each.number, each.event, each.data) for each in told)
        why = None
        for each in told:
            if each.event == "interrupt":
                self.deaf, why = True, str(each.data.get("why"))
            elif each.event == "memory":
                self.memory = msgspec.convert(each.data, MemoryShortage)
        if told:
            self.row = replace(self.row, outcome=StoredOutcome(why=why, memory=self.memory))

    async def ignore_interrupt(self, why: str) -> None:
        """Its code goes on although it was interrupted: callers that ask for it or follow it hear so."""
        self.deaf = True
        self.row = replace(self.row, outcome=StoredOutcome(why=why, memory=self.memory))
        await self.tell("interrupt", {"effect": False, "why": why})

    async def note_memory(self, shortage: MemoryShortage) -> None:
        """Memory runs short while it runs: callers that ask for it or follow it hear so."""
        self.memory = shortage
        if self.has_ended:
            return
        self.row = replace(self.row, outcome=StoredOutcome(why=(self.row.outcome or NOTHING).why, memory=shortage))
        await self.tell("memory", msgspec.to_builtins(shortage))

    def end(self, row: ExecutionRow, sync: ExecutionSync) -> None:
        """The outcome is stored: wake those who wait, close the log."""
        self.leave_room()
        self.row, self.answered = row, sync
        self._answer = execution_of(row, sync)
        self.log.append("ended", closing_event(row, sync))
        self.log.close()
        if row.started is None or row.status == "died":
            self.log.finish()
        self._tell()
        self.asked = None
        waiting, self._ended = self._ended, None
        if waiting is not None:
            waiting.set_result(self._answer)

    def trouble(self, error: GatewayError) -> None:
        """The outcome cannot be stored yet: those who wait now get the error, the job goes on trying."""
        waiting, self._ended = self._ended, None
        if waiting is not None:
            waiting.set_exception(error)
            waiting.exception()

    def begin(self, generation: int, now: float) -> None:
        self.leave_room()
        self.row = replace(self.row, status="running", generation=generation, started=now)
        self.log.append("started", {"execution_id": self.row.id, "generation": generation})
        self._tell()

    def _tell(self) -> None:
        """It has begun or ended; what goes wrong with telling an attached client is no matter of the job's."""
        if self.news is not None:
            self.news(self.row)
        if self.asked is not None:
            try:
                self.asked.told(self.asked.request, self.row, self.answered)
            except Exception:
                log.exception("client_not_told", execution=self.row.id)

    @property
    def size_bytes(self) -> int:
        """About what it holds in memory: its events and its answer."""
        outcome, size = self.row.outcome, self.log.size_bytes + len(self.row.code)
        if outcome is None:
            return size
        rich = sum(len(str(value)) for each in outcome.outputs for value in each.get("data", {}).values())
        return size + 2 * (len(outcome.stdout) + len(outcome.stderr)) + rich + 2_000


class FinishedJobs:
    """Executions that ended lately, whole and with their logs, up to `limit_bytes` in all: for those who come back."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._jobs: OrderedDict[str, tuple[Job, int]] = OrderedDict()

    def keep(self, job: Job) -> None:
        size = job.size_bytes
        before = self._jobs.pop(job.row.id, None)
        self._size_bytes += size - (before[1] if before is not None else 0)
        self._jobs[job.row.id] = job, size
        while self._jobs and self._size_bytes > self._limit_bytes:
            oldest, its_size = self._jobs.popitem(last=False)[1]
            self._size_bytes -= its_size
            oldest.log.finish()

    def update(self, session_id: str, updates: Sequence[StoredUpdate], told: str = "") -> None:
        """Displays of executions were changed: those who ask for them, or follow them, get what became of them.

        The followers of `told` know already.
        """
        for execution_id in targets(updates):
            job = self.find(session_id, execution_id)
            if job is None or job.row.outcome is None:
                continue
            job.row = replace(job.row, outcome=update_outcome(job.row.outcome, execution_id, updates)[0])
            for each in updates if execution_id != told else ():
                if any(name == execution_id for name, _ in each.places):
                    data = {"display_id": each.display_id, "data": each.data, "metadata": each.metadata}
                    job.log.append_late({"event": "update", "data": data})
            self.keep(job)

    def finish(self, session_id: str, generation: int | None = None) -> None:
        """Nothing comes any more of what ran in this session, or in its kernels before this generation."""
        for job, _ in self._jobs.values():
            if job.row.session_id == session_id and (generation is None or job.row.generation < generation):
                job.log.finish()

    def find(self, session_id: str, execution_id: str) -> Job | None:
        found = self._jobs.get(execution_id)
        return found[0] if found is not None and found[0].row.session_id == session_id else None
