"""The orderly end of the service: no new work, time for what runs, then every session ends or is let go."""

from __future__ import annotations

import asyncio

import structlog

from kernel_gateway.errors import GatewayError
from kernel_gateway.services.parts import Parts
from kernel_gateway.services.sessions.lifecycle import Lifecycle
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.storage import sessions

log = structlog.get_logger(__name__)
POLL_SECONDS = 0.05
END_SECONDS = 180.0


async def shut_down(parts: Parts, registry: Registry, lifecycle: Lifecycle) -> None:
    """Drain and end; what waits in queues is refused, or stays queued when sessions are kept."""
    parts.accepting = False
    for live in registry:
        live.paused = True
    await _drain(parts, registry)
    for live in registry:
        live.dismiss("draining", "the service is shutting down")
    async with asyncio.TaskGroup() as group:
        for live in registry:
            if parts.settings.keep_sessions_on_shutdown and live.ending is None:
                group.create_task(_let_go(parts, live))
            else:
                group.create_task(_ended(parts, lifecycle, live))


async def _drain(parts: Parts, registry: Registry) -> None:
    try:
        async with asyncio.timeout(parts.settings.drain_seconds):
            # Polled: what ends is spread over many sessions, and this happens once.
            while any(live.running is not None or live.in_work for live in registry):  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        log.warning("drain_ran_out", seconds=parts.settings.drain_seconds)


async def _ended(parts: Parts, lifecycle: Lifecycle, live: LiveSession) -> None:
    """What has not ended by the deadline (its row cannot be written) is taken up by the next start."""
    ending = lifecycle.end(live, "shutdown", "the service was shut down")
    await asyncio.wait([ending], timeout=parts.settings.flush_deadline_seconds + END_SECONDS)


async def _let_go(parts: Parts, live: LiveSession) -> None:
    """Its row stays READY, its sandbox runs on, and the next start takes both up and goes on counting."""
    for task in (live.timer_task, live.worker_task):
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
    await live.sandbox.let_go()
    await live.late.close()
    parts.finished.finish(live.id)
    record = live.record(live.sandbox.last_usage)
    try:
        await parts.database.run(lambda connection: sessions.set_record(connection, live.id, record))
    except GatewayError as error:
        log.error("usage_not_stored", session=live.id, error=str(error))
