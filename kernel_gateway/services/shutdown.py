"""The orderly end of the service: no new work, time for what runs, then every session ends or is let go."""

from __future__ import annotations

import asyncio

import structlog

from kernel_gateway.services.admission.readiness import Readiness
from kernel_gateway.services.pools.pools import Pools
from kernel_gateway.services.replays.replays import Replays
from kernel_gateway.services.results.jobs import FinishedJobs
from kernel_gateway.services.sessions.events import store_record
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database
from kernels.cancelling import cancel_all

log = structlog.get_logger(__name__)
POLL_SECONDS = 0.05
END_SECONDS = 180.0
CANCEL_SECONDS = 5.0
"""How long a task that was cancelled may take to end."""


class Shutdown:
    """`run` once, when no call is served any more."""

    def __init__(
        self,
        *,
        settings: Settings,
        database: Database,
        readiness: Readiness,
        finished: FinishedJobs,
        registry: Registry,
        lifecycle: Lifecycle,
        replays: Replays,
        pools: Pools,
    ) -> None:
        self._settings = settings
        self._database = database
        self._readiness = readiness
        self._finished = finished
        self._registry = registry
        self._lifecycle = lifecycle
        self._replays = replays
        self._pools = pools
        self._emptying: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Drain and end; what waits in queues is refused, or stays queued when sessions are kept."""
        self._readiness.accepting = False
        if self._emptying is None:  # sessions do not wait for it
            self._emptying = asyncio.create_task(self._pools.aclose(), name="end of the pools")
        await self._end_sessions()

    async def finish(self) -> None:
        """Wait for what no session waits for."""
        if self._emptying is not None:
            await self._emptying

    async def _end_sessions(self) -> None:
        await self._replays.aclose()
        for live in self._registry:
            live.paused = True
        await self._drain()
        for live in self._registry:
            live.dismiss("draining", "the service is shutting down")
        async with asyncio.TaskGroup() as group:
            for live in self._registry:
                if self._keeps(live):
                    group.create_task(self._detach(live))
                else:
                    group.create_task(self._end(live))

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._settings.drain_seconds):
                # Polled: what ends is spread over many sessions, and this happens once.
                while any(map(self._is_waited_for, self._registry)):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            log.warning("drain_ran_out", seconds=self._settings.drain_seconds)

    def _keeps(self, live: LiveSession) -> bool:
        return (self._settings.keep_sessions_on_shutdown or live.hibernated) and live.ending is None

    def _is_waited_for(self, live: LiveSession) -> bool:
        """Not for code that runs on at another gateway at once: here nobody reaches its session any more."""
        goes_on = self._database.lease is not None and self._keeps(live) and not live.sandbox.on_this_host
        return live.in_awaited_work or (live.running is not None and not goes_on)

    async def _end(self, live: LiveSession) -> None:
        """What has not ended by the deadline (its row cannot be written) is taken up by the next start."""
        ending = self._lifecycle.end(live, "shutdown", "the service was shut down")
        await asyncio.wait([ending], timeout=self._settings.flush_deadline_seconds + END_SECONDS)

    async def _detach(self, live: LiveSession) -> None:
        """Its row stays READY, its sandbox runs on, and the next start takes both up and goes on counting."""
        try:
            async with asyncio.timeout(self._settings.flush_deadline_seconds + END_SECONDS):
                await cancel_all((live.timer_task, live.worker_task), CANCEL_SECONDS)
                await live.sandbox.detach()
                await live.late.close()
        except Exception as error:  # it must not cancel the others, which share a task group with it
            log.error("session_not_detached", session=live.id, exc_info=error)
        self._finished.finish(live.id)
        await store_record(self._database, live)
