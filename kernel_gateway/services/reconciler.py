"""Compares, again and again, what the database says with what is on the host, and has the `Backlog` worked off.

The sweep is the second reaper: it ends sessions whose time is over, finds sandboxes that vanished, and removes those
that no session owns. What the start of the service takes up is `adoption`'s.
"""

from __future__ import annotations

import asyncio

import structlog
from sqlalchemy import Connection

from kernel_gateway.services.admission.dead_sandboxes import REMOVALS_AT_ONCE, DeadSandboxes
from kernel_gateway.services.admission.utility_sandboxes import UtilitySandboxes
from kernel_gateway.services.adoption import Adoption
from kernel_gateway.services.attach.attachments import forget_absent
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.backlog import Backlog
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.services.pools.pools import Pools
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage import hibernations, sessions
from kernel_gateway.storage.database import Database
from kernels.errors import KernelsError
from kernels.sandbox import SandboxInfo, SandboxRuntime

log = structlog.get_logger(__name__)


class Reconciler:
    """`adopt` once at start, then `run` for as long as the service lives."""

    def __init__(
        self,
        *,
        settings: Settings,
        clock: Clock,
        database: Database,
        runtime: SandboxRuntime,
        audit: Audit,
        last_use: LastUse,
        utility_sandboxes: UtilitySandboxes,
        dead_sandboxes: DeadSandboxes,
        pools: Pools,
        background: Background,
        registry: Registry,
        lifecycle: Lifecycle,
        adoption: Adoption,
        backlog: Backlog,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._database = database
        self._runtime = runtime
        self._audit = audit
        self._last_use = last_use
        self._utility_sandboxes = utility_sandboxes
        self._dead_sandboxes = dead_sandboxes
        self._pools = pools
        self._background = background
        self._registry = registry
        self._lifecycle = lifecycle
        self._adoption = adoption
        self._backlog = backlog

    async def adopt(self) -> None:
        """Finish what an earlier process left half done, take up every READY session, remove all other sandboxes."""
        self._backlog.take_up()
        await self._backlog.set_aside_moved()
        await self._remove_orphans(await self._adoption.run())

    async def run(self) -> None:
        """Sweep at every interval; a sweep that fails is logged and the next one comes. None waits for the store."""
        working: asyncio.Task[None] | None = None
        while True:
            await self._clock.sleep(self._settings.sweep_interval_seconds)
            if working is None or working.done():
                working = self._background.spawn(self._backlog.work_off(), "backlog")
            try:
                await self._compare()
            except Exception as error:
                log.error("sweep_failed", exc_info=error)

    async def sweep(self) -> None:
        """Compare once, then work off what waits for the store."""
        await self._compare()
        await self._backlog.work_off()

    async def _compare(self) -> None:
        infos = await self._runtime.list()
        for live in self._registry:
            if live.start_task is not None and not live.start_task.done():
                continue
            await self._lifecycle.check_time(live)
            if live.sandbox.egress_gateway.missing:
                self._background.spawn(live.sandbox.reopen_egress(), f"egress of {live.id}")
            kernel = live.sandbox.kernel
            if kernel is not None and live.ending is None and not await self._runtime.running(live.sandbox.id):
                self._background.spawn(kernel.note_end(), f"lose {live.id}")
        self._dead_sandboxes.retry()
        await self._remove_orphans(infos)
        forget_absent(self._registry, self._clock.now() - self._settings.attach_keep_seconds, self._background)
        await self._store_activity()
        await self._store_records()
        await self._forget_images()
        await self._last_use.flush()
        await self._audit.sweep()
        await self._audit.sign()

    async def _remove_orphans(self, infos: tuple[SandboxInfo, ...]) -> None:
        """Remove sandboxes without an owner: sessions and utility work are on record before their sandbox is made."""
        live = {live.sandbox.id for live in self._registry}
        owners = (live, self._adoption.taking, self._utility_sandboxes, self._dead_sandboxes, self._pools)
        # Several at once: of a service that was killed there may be whole pools, and the next start waits for this.
        orphans = [info.sandbox_id for info in infos if not any(info.sandbox_id in owner for owner in owners)]
        if orphans and self._database.lease is not None:  # who has taken the session over is about to take the sandbox
            elsewhere = await self._database.run(lambda c: sessions.list_sandboxes(c, orphans))
            orphans = [each for each in orphans if each not in elsewhere]
        turns = asyncio.Semaphore(REMOVALS_AT_ONCE)
        await asyncio.gather(*(self._remove_orphan(sandbox_id, turns) for sandbox_id in orphans))

    async def _remove_orphan(self, sandbox_id: str, turns: asyncio.Semaphore) -> None:
        try:
            async with turns:
                await self._runtime.destroy(sandbox_id)
        except (KernelsError, OSError) as error:  # the next sweep tries again
            log.error("orphan_not_removed", sandbox=sandbox_id, error=str(error))
        else:
            log.warning("orphan_removed", sandbox=sandbox_id)

    async def _store_records(self) -> None:
        """Write down what sessions have used of their ways out, so that a restart gives them nothing back.

        And what of them is durable, so that it is known also of one whose sandbox vanishes.
        """
        records = [(live, live.build_record()) for live in self._registry if live.ending is None]
        changed = [each for each in records if (each[1].network, each[1].sync.durable) != each[0].stored_record]

        def store(connection: Connection) -> None:
            for live, record in changed:
                sessions.set_record(connection, live.id, record)

        if changed:
            await self._database.run(store)
            for live, record in changed:
                live.stored_record = record.network, record.sync.durable

    async def _forget_images(self) -> None:
        """Count no image of processes that is lost among what hibernated sessions take."""
        lost = [
            (live, live.snapshot)
            for live in self._registry
            if live.hibernated and live.snapshot is not None and live.snapshot is not live.snapshot_without_image
            if live.snapshot.report.image_bytes and live.sandbox.saved is None
        ]

        def store(connection: Connection) -> None:
            for _, snapshot in lost:
                hibernations.count_store_alone(connection, snapshot)

        if lost:
            await self._database.run(store)
            for live, snapshot in lost:
                live.snapshot_without_image = snapshot

    async def _store_activity(self) -> None:
        """Write down who was active since the last time."""
        active = [live for live in self._registry if live.last_activity != live.stored_activity]

        def store(connection: Connection) -> None:
            for live in active:
                sessions.touch(connection, live.id, live.last_activity)

        if active:
            await self._database.run(store)
            for live in active:
                live.stored_activity = live.last_activity
