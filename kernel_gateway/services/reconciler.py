"""What happens at start and again and again: take up what an earlier process left, and compare rows with sandboxes.

Adoption: a READY session whose sandbox runs goes on with the same kernel; one whose sandbox is gone gets a new one when
it is next used. What was queued runs, what was running has died with this process. The sweep is the second reaper:
it ends sessions whose time is over, finds sandboxes that vanished, and removes those that belong to nobody.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog
from sqlalchemy import Connection

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.attach.attachments import forget_absent
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.results.event_log import EventLog
from kernel_gateway.services.results.jobs import Job
from kernel_gateway.services.results.outcomes import died
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.notebooks import Notebooks
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.workspaces.removals import WorkspaceRemovals
from kernel_gateway.services.workspaces.retention import Retention
from kernel_gateway.storage import executions, sessions
from kernel_gateway.storage.executions import ExecutionRow
from kernels.errors import Death, KernelsError
from kernels.sandbox import SandboxInfo
from sandcell.models.sync import DurableExecution, Sync
from workspace_sync import AsOf

log = structlog.get_logger(__name__)
GOES_ON = (
    "the service restarted while this ran; the output since is lost. The kernel and its globals live on, and the code"
    " may still be running in it"
)
LOST = "the service restarted while this ran, and the sandbox with the kernel and its globals is gone"
ENDED_SESSIONS = 100
"""How many of a workspace are looked at for the one whose files have been delivered."""
CUT_OFF = Death("sandbox", "the service ended while the sandbox was being made; nothing had run in it")
VANISHED = Death("sandbox", "the sandbox was gone when the service started again; every global and /tmp went with it")


class Reconciler:
    """`adopt` once at start, then `run` for as long as the service lives."""

    def __init__(
        self,
        parts: Parts,
        registry: Registry,
        lifecycle: Lifecycle,
        notebooks: Notebooks,
        *,
        removals: WorkspaceRemovals,
        retention: Retention,
    ) -> None:
        self._parts = parts
        self._registry = registry
        self._lifecycle = lifecycle
        self._notebooks = notebooks
        self._removals = removals
        self._adopting = asyncio.Semaphore(parts.settings.starts_at_once)
        self._retention = retention
        parts.spool.on_delivered = self._delivered

    async def adopt(self) -> None:
        """Take up every READY session, then remove the sandboxes that belong to none."""
        self._parts.spool.clear()
        self._parts.outputs.clear()
        self._notebooks.take_up()
        rows = await self._parts.database.run(sessions.list_live)
        infos = {info.sandbox_id: info for info in await self._parts.launcher.list()}
        made = [(self._lifecycle.make(row), infos.get(row.id)) for row in rows]
        async with asyncio.TaskGroup() as group:
            for live, info in made:
                group.create_task(self._adopt(live, info))
        await self._remove_orphans(tuple(infos.values()))

    async def run(self) -> None:
        """Sweep at every interval; a sweep that fails is logged and the next one comes. None waits for the store."""
        bringing: asyncio.Task[None] | None = None
        while True:
            await self._parts.clock.sleep(self._parts.settings.sweep_interval_seconds)
            if bringing is None or bringing.done():
                bringing = self._parts.background.spawn(self._bring_to_store(), "deliveries")
            try:
                await self._compare()
            except Exception as error:
                log.error("sweep_failed", exc_info=error)

    async def sweep(self) -> None:
        """Compare once, then bring to the store what waits for it."""
        await self._compare()
        await self._bring_to_store()

    async def _compare(self) -> None:
        infos = await self._parts.launcher.list()
        for live in self._registry:
            if live.start_task is not None and not live.start_task.done():
                continue
            await self._lifecycle.check_time(live)
            if live.sandbox.egress_gateway.missing:
                self._parts.background.spawn(live.sandbox.mend_way_out(), f"way out of {live.id}")
            kernel = live.sandbox.kernel
            if kernel is not None and live.ending is None and not await self._parts.launcher.running(live.id):
                lost = live.sandbox.lose(kernel, Death("sandbox", "the sandbox's first process is gone"))
                self._parts.background.spawn(lost, f"lose {live.id}")
        await self._remove_orphans(infos)
        forget_absent(self._parts, self._registry)
        await self._store_activity()
        await self._store_records()
        await self._parts.last_use.flush()
        await self._parts.audit.sweep()
        await self._parts.audit.sign()

    async def _bring_to_store(self) -> None:
        """What may take as long as the store does: first what is to be kept. None that fails keeps another back."""
        for each in (
            self._parts.outputs.deliver_all,
            self._deliver_spooled,
            self._notebooks.save_stale,
            self._removals.finish_all,
            self._retention.sweep,
        ):
            try:
                await each()
            except Exception as error:
                log.error("sweep_failed", exc_info=error)

    async def _deliver_spooled(self) -> None:
        await self._parts.spool.deliver_all(
            lambda workspace_id: any(live.row.workspace_id == workspace_id for live in self._registry)
        )

    async def _delivered(self, workspace_id: str, as_of: AsOf | None) -> None:
        """What a session left is in the store at last: its record says so.

        It need not be the last one: others may have failed to start since, for want of the store, or start just now.
        """
        durable = None if as_of is None else DurableExecution(as_of.execution_id, as_of.number)
        flushed = rfc3339(self._parts.clock.now())

        def store(connection: Connection) -> None:
            ended = sessions.ended_of(connection, workspace_id, ENDED_SESSIONS)
            row = next((each for each in ended if each.record.sync.pending), None)
            if row is not None:
                row.record.sync = Sync(flushed, mode=row.sync, durable=durable or row.record.sync.durable)
                sessions.set_record(connection, row.id, row.record)

        try:
            await self._parts.database.run(store)
        except GatewayError as error:
            log.error("delivery_not_stored", workspace=workspace_id, error=error.code)

    async def _adopt(self, live: LiveSession, info: SandboxInfo | None) -> None:
        """One session; what goes wrong with its sandbox costs it the sandbox, never the start of the service."""
        live.sandbox.flushes.take_up(await self._parts.database.run(lambda c: executions.last_ended(c, live.id)))
        death = VANISHED
        adopted = False
        try:
            async with self._adopting:
                if info is not None and not info.furnished:
                    # The store has the whole workspace and this sandbox a part of it: nothing of it may be saved.
                    death, unfinished, info = CUT_OFF, info, None
                    await self._parts.launcher.destroy(unfinished.sandbox_id)
                elif info is not None and await self._parts.launcher.running(live.id):
                    await live.sandbox.adopt(info)
                    adopted = True
        except (KernelsError, OSError) as error:
            log.warning("sandbox_not_adopted", session=live.id, error=str(error))
            death = Death("sandbox", f"the service started again and could not take up the sandbox: {error}")
        if not adopted:
            live.sandbox.require_new(death)
            if info is not None:
                # It has the sandbox's lock before anybody can ask for a new one.
                self._parts.background.spawn(live.sandbox.recover_files(info), f"recover files of {live.id}")
        await self._take_up_executions(live, adopted=adopted)
        live.sandbox.flushes.request()  # what ended last may have left files that no flush has taken
        live.notebook_stale = True
        self._parts.record.request(live.id)
        live.touch()
        self._lifecycle.open(live)
        if death is CUT_OFF and not adopted:
            self._parts.background.spawn(_begin_again(live), f"restore of {live.id}")
        log.info("session_adopted", session=live.id, sandbox=adopted)

    async def _take_up_executions(self, live: LiveSession, *, adopted: bool) -> None:
        for row in await self._parts.database.run(lambda c: executions.list_open(c, live.id)):
            if row.status == "queued":
                job = Job(row, EventLog(self._parts.settings.event_log_bytes))
                job.mark_stored(stored=True)
                live.readmit(job)
            else:
                await self._bury(row, live, adopted=adopted)

    async def _bury(self, row: ExecutionRow, live: LiveSession, *, adopted: bool) -> None:
        """It was running when the earlier process ended: it is not run again."""
        why = GOES_ON if adopted else LOST
        outcome = died("gateway_restart", why)
        ended = self._parts.redaction.row(replace(row, status="died", outcome=outcome, ended=self._parts.clock.now()))
        what = "Execution" if row.kind == "code" else "Command"
        note = live.note("gateway_restart", f"**The service restarted.** {what} `{row.id}`: {why}")

        def store(connection: Connection) -> None:
            executions.finish(connection, ended)
            executions.add_note(connection, note)

        await self._parts.database.run(store)

    async def _remove_orphans(self, infos: tuple[SandboxInfo, ...]) -> None:
        """Sandboxes of no session and no errand of ours: those are on record before their sandbox is made."""
        for info in infos:
            if info.sandbox_id not in self._registry and info.sandbox_id not in self._parts.errands:
                try:
                    await self._parts.launcher.destroy(info.sandbox_id)
                except (KernelsError, OSError) as error:  # the next sweep tries again
                    log.error("orphan_not_removed", sandbox=info.sandbox_id, error=str(error))
                else:
                    log.warning("orphan_removed", sandbox=info.sandbox_id)

    async def _store_records(self) -> None:
        """Write down what sessions have used of their ways out, so that a restart gives them nothing back.

        And what of them is durable, so that it is known also of one whose sandbox vanishes.
        """
        records = [(live, live.record(live.sandbox.last_usage)) for live in self._registry if live.ending is None]
        changed = [each for each in records if (each[1].network, each[1].sync.durable) != each[0].stored_record]

        def store(connection: Connection) -> None:
            for live, record in changed:
                sessions.set_record(connection, live.id, record)

        if changed:
            await self._parts.database.run(store)
            for live, record in changed:
                live.stored_record = record.network, record.sync.durable

    async def _store_activity(self) -> None:
        """Write down who was active since the last time."""
        active = [live for live in self._registry if live.last_activity > live.stored_activity]

        def store(connection: Connection) -> None:
            for live in active:
                sessions.touch(connection, live.id, live.last_activity)

        if active:
            await self._parts.database.run(store)
            for live in active:
                live.stored_activity = live.last_activity


async def _begin_again(live: LiveSession) -> None:
    """Its workspace was on the way when the service ended; what fails is said to who uses the session next."""
    try:
        await live.sandbox.started()
    except GatewayError as error:
        log.warning("restore_not_begun_again", session=live.id, error=error.code)
