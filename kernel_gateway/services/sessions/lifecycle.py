"""How sessions begin and end in this process. `Sessions` holds the verbs; timers, sweep and adoption call this too.

A session ends once: whoever comes first gives the reason, everyone else waits for the same end. Its order: refuse new
work, give what runs a moment to stop, save the files, remove the sandbox, write the row.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import DatabaseUnavailable, GatewayError, NoSpace
from kernel_gateway.services.mirroring.flushes import Flushes
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.results.outcomes import died, refused
from kernel_gateway.services.sessions.late_outputs import LateOutputs
from kernel_gateway.services.sessions.live_session import Ending, LiveSession
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.session_sandbox import SessionSandbox
from kernel_gateway.services.sessions.worker import Worker
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.executions import ExecutionRow
from kernel_gateway.storage.sessions import SessionRow
from kernels.errors import Death, KernelsError
from workspace_sync import RestoreReport

log = structlog.get_logger(__name__)
LONGEST_PAUSE_SECONDS = 10.0
NOTICE_SECONDS = 5.0
POLL_SECONDS = 0.02
NAMES_IN_A_NOTE = 3
NAME_LENGTH = 80
T = TypeVar("T")


class Lifecycle:
    """Makes live sessions, starts their tasks, ends them."""

    def __init__(self, parts: Parts, registry: Registry, notebooks: Notebooks) -> None:
        self._parts = parts
        self._registry = registry
        self._notebooks = notebooks

    def make(self, row: SessionRow) -> LiveSession:
        """A live session for a row, registered, its sandbox not started."""
        live = LiveSession(row, self._parts.clock)
        find = partial(self._parts.environments.of_session, row.environment)
        live.sandbox = SessionSandbox(
            self._parts,
            row.id,
            row.workspace_id,
            owner=row.principal_id,
            find_environment=find,
            generation=row.generation,
            egress_gateway=self._parts.egress.egress_gateway(row, find),
            on_replaced=lambda generation, death: self._replaced(live, generation, death),
            on_deno_death=lambda death: self._deno_died(live, death),
            flushes=Flushes(row.sync, self._parts.settings.flush_deadline_seconds, row.record.sync.durable),
        )
        live.late = LateOutputs(self._parts, live)
        live.sandbox.on_hub = live.connected
        live.sandbox.on_deno_hub = live.late.connect
        live.sandbox.on_restored = partial(self._restored, live)
        live.sandbox.flushes.on_durable = partial(self._store_record, live)
        live.worker = Worker(self._parts, live)
        self._registry.add(live)
        return live

    def open(self, live: LiveSession) -> None:
        """Let the session run executions, and run out of time."""
        name = f"session {live.id}"
        live.worker_task = self._parts.background.spawn(live.worker.run(), f"worker of {name}")
        live.timer_task = self._parts.background.spawn(self._watch_time(live), f"timer of {name}")

    def end(self, live: LiveSession, reason: str, detail: str) -> asyncio.Task[SessionRow]:
        """Begin the session's end, or join the one under way; new work is refused from here on.

        The first reason stays. An end that failed for a reason of ours is begun again by the next call.
        """
        task = live.end_task
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            live.ending = live.ending or Ending(reason, detail)
            task = live.end_task = self._parts.background.spawn(self._end(live), f"end of session {live.id}")
        return task

    async def check_time(self, live: LiveSession) -> float | None:
        """End the session if its time is over; else the seconds until it may be."""
        now, row = self._parts.clock.now(), live.row
        if live.ending is not None:
            self.end(live, live.ending.reason, live.ending.detail)
            return None
        if row.expires <= now:
            self.end(live, "ttl", f"its time-to-live of {row.timeout_seconds} s was over")
            return None
        if live.idle_expires <= now:
            if not await self._tasks_run(live):
                if live.idle_expires <= self._parts.clock.now():
                    self.end(live, "idle_timeout", f"nothing was done in it for {row.idle_timeout_seconds} s")
                    return None
            else:
                live.touch()
        return max(min(row.expires, live.idle_expires) - self._parts.clock.now(), 0.0)

    async def _watch_time(self, live: LiveSession) -> None:
        while (left := await self.check_time(live)) is not None:
            await self._parts.clock.sleep(max(left, 0.01))

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

    def _replaced(self, live: LiveSession, generation: int, death: Death | None) -> None:
        """The session has a blank kernel: remember its generation and why."""
        why = death.detail if death is not None else "the kernel was replaced"
        record = live.record(live.sandbox.last_usage)

        def store(connection: Connection) -> None:
            sessions.set_generation(connection, live.id, generation)
            sessions.set_record(connection, live.id, record)

        log.info("kernel_replaced", session=live.id, generation=generation, cause=death.cause if death else None)
        self._parts.finished.finish(live.id, generation)
        self._note(live, "generation", f"**Kernel generation {generation}.** {why}", store)

    def _deno_died(self, live: LiveSession, death: Death) -> None:
        """The kernel for JavaScript ended between executions: the notebook says why."""
        what = f"**The kernel for JavaScript and TypeScript died ({death.cause}).** {death.detail}"
        log.info("deno_died", session=live.id, cause=death.cause)
        self._note(live, "deno", f"{what}; the next such code starts a blank one.")

    def _restored(self, live: LiveSession, report: RestoreReport) -> None:
        """A new sandbox has the files of an earlier one."""
        if not (report.files or report.directories or report.links or report.skipped):
            return
        left = f" {len(report.skipped):,} could not be restored{_named(report)}." if report.skipped else ""
        what = f"{report.files:,} files, {report.size_bytes:,} bytes, as they were at {report.as_of}."
        self._note(live, "restored", f"**Workspace restored:** {what}{left}")

    async def _store_record(self, live: LiveSession) -> None:
        """An answer is about to say that its files are durable: a service that starts anew says so too."""
        record = live.record(live.sandbox.last_usage)
        try:
            await self._parts.database.run(lambda connection: sessions.set_record(connection, live.id, record))
        except GatewayError as error:
            log.error("durable_not_stored", session=live.id, error=error.code)

    def _note(self, live: LiveSession, kind: str, text: str, store: Callable[[Connection], None] | None = None) -> None:
        noting = self._parts.record.note(live, kind, text, store)
        self._parts.background.spawn(noting, f"note of session {live.id}")

    async def _end(self, live: LiveSession) -> SessionRow:
        ending = live.ending or Ending("stopped", "")
        background = self._parts.background
        refusals = background.spawn(self._refuse(live, ending), f"refusals of session {live.id}")
        await self._stop_starting(live)
        await self._let_running_stop(live)
        await live.sandbox.give_up()
        await self._stop_worker(live)
        await live.late.close()
        self._parts.finished.finish(live.id)
        await self._let_commands_end(live)
        await refusals
        self._notebooks.expect(live.id)
        row = await self._store_end(live, ending)
        self._registry.remove(live)
        live.dismiss("session_ended", ending.reason)
        log.info("session_ended", session=live.id, principal=live.row.principal_id, reason=ending.reason)
        await self._notebooks.close(live.id, wait=live.sandbox.unsaved is None)
        return row

    async def _refuse(self, live: LiveSession, ending: Ending) -> None:
        """What waits in the queue will not run."""
        outcome = refused("SessionTerminated", f"the session ended before this ran ({ending.reason}): {ending.detail}")
        for job in live.take_all():
            if await job.is_stored():
                await live.worker.finish(job, "rejected", outcome)

    async def _stop_starting(self, live: LiveSession) -> None:
        """Cancel the timers, unless one is who ends the session, and a start under way."""
        for task in (live.timer_task, live.lease_task, live.start_task):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task], timeout=self._parts.settings.start_deadline_seconds)

    async def _let_running_stop(self, live: LiveSession) -> None:
        """Interrupt what runs and give it the grace to end by itself, so that its output is kept."""
        job, kernel = live.running, live.sandbox.kernel
        if job is None or kernel is None or job.is_settling:
            return
        job.interrupt()
        try:
            await kernel.interrupt()
            async with asyncio.timeout(self._parts.settings.interrupt_grace_seconds):
                await job.wait()
        except (KernelsError, GatewayError, TimeoutError):
            log.info("execution_outlives_session", session=live.id, execution=job.row.id)

    async def _stop_worker(self, live: LiveSession) -> None:
        """The sandbox is gone, so what ran has died by now; what has not noticed is told."""
        job, task = live.running, live.worker_task
        if job is not None:
            notice = self._parts.background.spawn(job.wait(), f"notice of {job.row.id}")
            await asyncio.wait([notice], timeout=NOTICE_SECONDS)
        if task is not None:
            task.cancel()
            await asyncio.wait([task], timeout=NOTICE_SECONDS)
        if job is not None and not job.has_ended:
            ending = live.ending or Ending("stopped", "")
            why = f"the session ended while this ran ({ending.reason}): {ending.detail}"
            await live.worker.finish(job, "died", died("sandbox", why))

    async def _let_commands_end(self, live: LiveSession) -> None:
        """Without the sandbox, what else was under way ends too, and is on record before the session's end is."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(NOTICE_SECONDS):
                while live.in_work:  # noqa: ASYNC110 - it happens once a session, and seldom
                    await asyncio.sleep(POLL_SECONDS)

    async def _store_end(self, live: LiveSession, ending: Ending) -> SessionRow:
        unsaved = live.sandbox.unsaved
        detail = ending.detail if unsaved is None else f"{ending.detail}; {unsaved}"
        record = live.record(await live.sandbox.usage())
        note, now = live.note("ended", f"**Session ended: {ending.reason}.** {detail}"), self._parts.clock.now()

        def store(connection: Connection) -> SessionRow | None:
            sessions.end(connection, live.id, reason=ending.reason, detail=detail, now=now, record=record)
            row = sessions.find(connection, live.id)
            if row is not None:
                for each in executions.list_open(connection, live.id):  # nobody comes back for them
                    executions.finish(connection, live.unstored.get(each.id) or self._cut_off(each, ending, now))
                executions.add_note(connection, note)
            return row

        return await self._insist(store) or live.row

    def _cut_off(self, row: ExecutionRow, ending: Ending, now: float) -> ExecutionRow:
        """A command of which nothing was heard any more."""
        outcome = died("sandbox", f"the session ended while this ran ({ending.reason}): {ending.detail}")
        return self._parts.redaction.row(replace(row, status="died", outcome=outcome, ended=now))

    async def _insist(self, query: Callable[[Connection], T]) -> T:
        """Run a query that must not be given up because the disk is full for a while."""
        pause = 0.1
        while True:
            try:
                return await self._parts.database.run(query)
            except (NoSpace, DatabaseUnavailable) as error:
                log.error("session_end_not_stored", error=error.code)
                await self._parts.clock.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _named(report: RestoreReport) -> str:
    """The first names that were left out, as code: whoever fills a bucket names things as he likes."""
    told = [
        f"`{each.path[:NAME_LENGTH].replace('`', chr(39))}` ({each.reason.replace('`', chr(39))})"
        for each in report.skipped[:NAMES_IN_A_NOTE]
    ]
    more = len(report.skipped) - len(told)
    return f": {', '.join(told)}{f' and {more:,} more' if more else ''}"
