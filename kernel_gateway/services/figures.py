"""The figures of now, for Prometheus: what is read from services at each scrape, beside what `metrics` has counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version

from prometheus_client import Metric, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from kernel_gateway import metrics
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.services.mirroring.spool import Spool
from kernel_gateway.services.pools.pools import Pools
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.services.sessions.sandbox_state import State

VERSION = version("sandcell")
HIBERNATED = "hibernated"
AT_ONCE = 4
"""Sandboxes measured at the same time."""
Figures = Iterator[Metric]


class LiveFigures(Collector):
    """`page` is what a scrape gets: at once, of sandboxes as they were measured after the scrape before."""

    def __init__(
        self, *, clock: Clock, background: Background, registry: Registry, pools: Pools, audit: Audit, spool: Spool
    ) -> None:
        self._clock = clock
        self._background = background
        self._measuring: asyncio.Task[None] | None = None
        self._registry = registry
        self._pools = pools
        self._audit = audit
        self._spool = spool

    def page(self) -> bytes:
        """All figures in Prometheus' text format."""
        if self._measuring is None or self._measuring.done():
            self._measuring = self._background.spawn(self._measure(), "measures for Prometheus")
        return generate_latest(self)  # which asks a registry for no more than `collect`

    def collect(self) -> Figures:
        yield from metrics.REGISTRY.collect()
        build = GaugeMetricFamily("sandcell_build_info", "Always 1", labels=("version",))
        build.add_metric((VERSION,), 1)
        yield build
        live = list(self._registry)
        yield from _describe_sessions(live)
        yield from _describe_flushes(live, self._clock.now())
        waiting = len(self._spool.waiting())
        yield _gauge("sandcell_spool_workspaces", "Workspaces on this host's disk that wait for the store", waiting)
        yield from self._describe_pools()
        yield from self._describe_audit()

    async def _measure(self) -> None:
        turns = asyncio.Semaphore(AT_ONCE)

        async def measure(live: LiveSession) -> None:
            async with turns:
                await live.sandbox.meter.measure()

        await asyncio.gather(*(measure(each) for each in self._registry if not each.hibernated))

    def _describe_pools(self) -> Figures:
        size = GaugeMetricFamily(
            "sandcell_pool_sandboxes", "Sandboxes of warm pools that are no session's", labels=("environment", "state")
        )
        for name, pool in self._pools.describe_all().items():
            size.add_metric((name, "ready"), pool.ready)
            size.add_metric((name, "starting"), pool.starting)
        yield size

    def _describe_audit(self) -> Figures:
        waiting, seconds = self._audit.backlog()
        yield _gauge("sandcell_audit_waiting_records", "Audit records that are not in the database yet", waiting)
        yield _gauge("sandcell_audit_lag_seconds", "Age of the oldest of them", seconds)
        behind = GaugeMetricFamily(
            "sandcell_audit_sink_lag_records",
            "Audit records in the database that a sink has not taken",
            labels=("sink",),
        )
        for name, records in self._audit.sink_lags().items():
            behind.add_metric((name,), records)
        yield behind


def _describe_sessions(live: list[LiveSession]) -> Figures:
    states = Counter(HIBERNATED if each.hibernated else each.sandbox.state for each in live)
    found = GaugeMetricFamily("sandcell_sessions", "Sessions that have not ended, by state", labels=("state",))
    for state in (*(each.value for each in State), HIBERNATED):
        found.add_metric((state,), states[state])
    yield found
    running = sum(each.running is not None for each in live)
    yield _gauge("sandcell_executions_running", "Executions that run now", running)
    yield _gauge("sandcell_executions_waiting", "Executions in queues of sessions", sum(each.waiting for each in live))
    used = [each.sandbox.meter.last for each in live if not each.hibernated]
    memory = sum(each.memory_bytes for each in used)
    yield _gauge("sandcell_sandboxes_memory_bytes", "Memory of sessions' sandboxes, as last measured", memory)
    spent = sum(each.sandbox.meter.last.cpu_seconds for each in live)
    yield _gauge("sandcell_live_sessions_cpu_seconds", "Processor time of live sessions, as last measured", spent)


def _describe_flushes(live: list[LiveSession], now: float) -> Figures:
    """A flush is late by no more than the time since the last complete one, or the session's start."""
    found = [(each.row.created, each.sandbox.mirror.state) for each in live if each.sandbox.mirror is not None]
    states = [state for _, state in found]
    pending = [(state.last_flush_at or created) for created, state in found if state.pending]
    lag = now - min(pending, default=now)
    failing = sum(each.error is not None for each in states)
    yield _gauge("sandcell_flush_pending_sessions", "Sessions with changes that the store has not got", len(pending))
    left = sum(each.pending_bytes for each in states)
    yield _gauge("sandcell_flush_pending_bytes", "What flushes under way still have to write, as far as known", left)
    yield _gauge(
        "sandcell_flush_lag_seconds", "Longest time since a flush of a session with such changes", max(lag, 0.0)
    )
    yield _gauge("sandcell_flush_failing_sessions", "Sessions whose last flush failed", failing)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)
