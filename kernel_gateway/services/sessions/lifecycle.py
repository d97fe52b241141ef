"""How sessions begin and end in this process. `Sessions` holds the verbs; timers, sweep and adoption call this too.

A session ends once: the first call gives the reason, all others wait for the same end. Its order: refuse new work, give
what runs a short time to stop, kill what is left, save the files, write the row. What the sandbox still holds of the
host is removed afterwards (`DeadSandboxes`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import structlog
from msgspec.structs import replace
from sqlalchemy import Connection

from kernel_gateway import metrics
from kernel_gateway.errors import DatabaseUnavailable, GatewayError, NoSpace
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.results.outcomes import death_outcome, refusal_outcome
from kernel_gateway.services.results.redaction import Redaction
from kernel_gateway.services.sessions.live_session import Ending, LiveSession
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow
from kernel_gateway.storage.sessions import SessionRow
from kernels.cancelling import cancel_all
from kernels.errors import KernelsError

log = structlog.get_logger(__name__)
LONGEST_PAUSE_SECONDS = 10.0
NOTICE_SECONDS = 5.0
POLL_SECONDS = 0.02
HIBERNATE_AGAIN_SECONDS = 30.0
HIBERNATE_WITHIN_SECONDS = 3_600.0
"""How long past its time a session is tried to be hibernated that is to be then."""
T = TypeVar("T")


class Lifecycle:
    """Starts the tasks of live sessions, and ends sessions."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        redaction: Redaction,
        finished: FinishedJobs,
        background: Background,
        registry: Registry,
        notebooks: Notebooks,
        forget_uploads: Callable[[str], Awaitable[None]],
        hibernate: Callable[[LiveSession], Awaitable[None]],
        watch_tasks: Callable[[LiveSession], None],
        read_tasks: Callable[[LiveSession], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._redaction = redaction
        self._finished = finished
        self._background = background
        self._registry = registry
        self._notebooks = notebooks
        self._forget_uploads = forget_uploads
        self._hibernate = hibernate
        self._watch_tasks = watch_tasks
        self._read_tasks = read_tasks

    def open(self, live: LiveSession, *, new: bool = False) -> None:
        """Let the session run executions, and run out of time. A `new` one has no task of an earlier process."""
        name = f"session {live.id}"
        live.time_changed = partial(self.watch_time, live)
        live.worker_task = self._background.spawn(live.worker.run(), f"worker of {name}")
        self.watch_time(live)
        if not new:
            self._watch_tasks(live)

    def watch_time(self, live: LiveSession) -> None:
        """Look after the time that is left: when it begins, and when another end was set."""
        if live.timer_task is not None:
            live.timer_task.cancel()
        live.timer_task = self._background.spawn(self._watch_time(live), f"timer of session {live.id}")

    def end(self, live: LiveSession, reason: str, detail: str) -> asyncio.Task[SessionRow]:
        """Begin the session's end, or join the one under way; new work is refused from here on.

        The first reason stays. An end that failed for an internal reason is begun again by the next call.
        """
        task = live.end_task
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            live.ending = live.ending or Ending(reason, detail)
            task = live.end_task = self._background.spawn(self._end(live), f"end of session {live.id}")
        return task

    async def check_time(self, live: LiveSession) -> float | None:
        """End the session if its time is over; else the seconds until it may be."""
        live.follow_clock()
        if live.expiry_moved:
            await self._store_expiry(live)
        now, row = self._clock.now(), live.row
        if live.ending is not None:
            self.end(live, live.ending.reason, live.ending.detail)
            return None
        if row.expires <= now and live.hibernated:
            self.end(live, "state_ttl", f"it was hibernated, and kept until {rfc3339(row.expires)}")
            return None
        if row.expires <= now and live.surroundings is not None and live.surroundings.hibernates:
            return await self._hibernate_at_end(live)
        if row.expires <= now:
            self.end(live, "ttl", f"its time-to-live of {row.timeout_seconds} s was over")
            return None
        if live.idle_expires <= now:
            if not await self._tasks_run(live):
                if live.idle_expires <= self._clock.now():
                    self.end(live, "idle_timeout", f"nothing was done in it for {row.idle_timeout_seconds} s")
                    return None
            else:
                live.touch()
        return max(min(row.expires, live.idle_expires) - self._clock.now(), 0.0)

    async def _store_expiry(self, live: LiveSession) -> None:
        """The host's clock was set. What the database does not take now it is offered again by the next sweep."""
        live.expiry_moved = False
        expires, seconds, record = live.row.expires, live.row.timeout_seconds, live.build_record()

        def store(connection: Connection) -> None:
            sessions.set_expiry(connection, live.id, expires, seconds)
            sessions.set_record(connection, live.id, record)

        log.warning("clock_was_set", session=live.id)
        try:
            await self._database.run(store)
        except GatewayError as error:
            live.expiry_moved = True
            log.error("expiry_not_stored", session=live.id, error=error.code)

    async def _hibernate_at_end(self, live: LiveSession) -> float | None:
        """Try again for a while where something runs, or the store is away; then the session ends all the same."""
        try:
            await self._hibernate(live)
        except GatewayError as error:
            log.warning("session_not_hibernated", session=live.id, error=error.code, why=error.message)
            if live.row.expires + HIBERNATE_WITHIN_SECONDS <= self._clock.now():
                self.end(live, "ttl", f"its time-to-live was over, and it could not be hibernated: {error.message}")
                return None
            return HIBERNATE_AGAIN_SECONDS
        return max(live.row.expires - self._clock.now(), 0.0)

    async def _watch_time(self, live: LiveSession) -> None:
        while (left := await self.check_time(live)) is not None:
            await self._clock.sleep(max(left, 0.01))

    async def _tasks_run(self, live: LiveSession) -> bool:
        """Whether a background command still runs: it is work that its user started."""
        for task_id, kernel in list(live.tasks.items()):
            try:
                if kernel is live.sandbox.kernel and (await kernel.guest.task(task_id)).status == "running":
                    return True
            except KernelsError:
                pass
            live.tasks.pop(task_id, None)
        return False

    async def _end(self, live: LiveSession) -> SessionRow:
        ending = live.ending or Ending("stopped", "")
        background = self._background
        # Each refusal may wait for its row to be stored; the end of the sandbox does not wait for that.
        refusals = background.spawn(self._refuse(live, ending), f"refusals of session {live.id}")
        await self._stop_starting(live)
        await self._let_running_stop(live)
        await self._read_tasks(live)
        await live.sandbox.give_up()
        # The worker ends after what runs in the sandbox: it stores how that ended.
        await self._stop_worker(live)
        await live.late.close()
        self._finished.finish(live.id)
        await self._let_commands_end(live)
        await refusals
        # Marked on disk before the row says that the session has ended: after a crash the next start saves it.
        self._notebooks.expect(live.id)
        try:
            row = await self._store_end(live, ending)
        finally:
            # Not before: a start after a crash takes a session without an end up, with the files of its whole sandbox.
            live.sandbox.remove()
        # Registered until its row is final: a start on the same workspace, and the sweep, see one or the other.
        self._registry.remove(live)
        live.variables.forget()
        await self._forget_uploads(live.id)
        for each in live.commands.values():
            each.close()
        live.dismiss("session_ended", ending.reason)
        live.news.append("ended", {"reason": ending.reason, "detail": ending.detail})
        live.news.finish()
        log.info("session_ended", session=live.id, principal=live.row.principal_id, reason=ending.reason)
        await self._notebooks.close(live.id, wait=live.sandbox.unsaved is None)
        return row

    async def _refuse(self, live: LiveSession, ending: Ending) -> None:
        """What waits in the queue will not run."""
        outcome = refusal_outcome(
            "SessionTerminated", f"the session ended before this ran ({ending.reason}): {ending.detail}"
        )
        for job in live.take_all():
            if await job.is_stored():
                await live.worker.finish(job, "rejected", outcome)

    async def _stop_starting(self, live: LiveSession) -> None:
        """Cancel the timers, except one that ends the session, and a start under way."""
        starting = (live.timer_task, live.lease_task, live.start_task)
        await cancel_all(starting, self._settings.start_deadline_seconds)

    async def _let_running_stop(self, live: LiveSession) -> None:
        """Interrupt what runs and give it the grace to end by itself, so that its output is kept."""
        job, kernel = live.running, live.sandbox.kernel
        if job is None or kernel is None or job.is_settling:
            return
        job.interrupt()
        try:
            await kernel.interrupt()
            async with asyncio.timeout(self._settings.interrupt_grace_seconds):
                await job.wait()
        except (KernelsError, GatewayError, TimeoutError):
            log.info("execution_outlives_session", session=live.id, execution=job.row.id)

    async def _stop_worker(self, live: LiveSession) -> None:
        """What ran has died with all that is in the sandbox; what the worker has not stored in time is stored here."""
        job, task = live.running, live.worker_task
        if job is not None:
            notice = self._background.spawn(job.wait(), f"notice of {job.row.id}")
            await asyncio.wait([notice], timeout=NOTICE_SECONDS)
        await cancel_all([task], NOTICE_SECONDS)
        if job is not None and not job.has_ended:
            ending = live.ending or Ending("stopped", "")
            why = f"the session ended while this ran ({ending.reason}): {ending.detail}"
            await live.worker.finish(job, "died", death_outcome("sandbox", why))

    async def _let_commands_end(self, live: LiveSession) -> None:
        """Without the sandbox, what else was under way ends too, and is on record before the session's end is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICE_SECONDS):
                while live.in_work or live.awaited_tasks:  # noqa: ASYNC110 - it happens once a session, and seldom
                    await asyncio.sleep(POLL_SECONDS)

    async def _store_end(self, live: LiveSession, ending: Ending) -> SessionRow:
        unsaved = live.sandbox.unsaved
        detail = ending.detail if unsaved is None else f"{ending.detail}; {unsaved}"
        await live.sandbox.meter.measure()
        record = live.build_record()
        note, now = live.note("ended", f"**Session ended: {ending.reason}.** {detail}"), self._clock.now()

        def store(connection: Connection) -> SessionRow | None:
            sessions.end(connection, live.id, reason=ending.reason, detail=detail, now=now, record=record)
            row = sessions.find(connection, live.id)
            if row is not None:
                for each in executions.list_open(connection, live.id):  # no later call would end them
                    executions.finish(connection, live.unstored.get(each.id) or self._make_died_row(each, ending, now))
                executions.add_note(connection, note)
            return row

        row = await self._insist(store) or live.row
        metrics.count_spent(record.usage.cpu_seconds)
        return row

    def _make_died_row(self, row: ExecutionRow, ending: Ending, now: float) -> ExecutionRow:
        """The row of a command whose end did not arrive before its sandbox was gone."""
        outcome = death_outcome("sandbox", f"the session ended while this ran ({ending.reason}): {ending.detail}")
        return self._redaction.row(replace(row, status="died", outcome=outcome, ended=now))

    async def _insist(self, query: Callable[[Connection], T]) -> T:
        """Run a query that must not be given up because the disk is full for a while."""
        pause = 0.1
        while True:
            try:
                return await self._database.run(query)
            except (NoSpace, DatabaseUnavailable) as error:
                log.error("session_end_not_stored", error=error.code)
                await self._clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
