"""What is counted for Prometheus, where it happens; `services/figures.py` adds what is read at each scrape.

Label values come from fixed sets, or are names that the operator gave: never what a caller or a sandbox says.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, disable_created_metrics

from kernel_gateway import tracing

Phase = Literal["place", "launch", "claim", "restore", "session"]

REGISTRY: Final = CollectorRegistry()
disable_created_metrics()  # type: ignore[no-untyped-call]  # they would be as many series again, of which nobody makes use
ProcessCollector(registry=REGISTRY)
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 15, 60, 300, 900)
_QUERY_SECONDS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 2, 10, 30)
_CAUSES: Final = frozenset({"exit", "signal", "oom", "deadline", "sandbox", "restart", "hibernated"})
OTHER: Final = "other"

_STARTS = Counter(
    "sandcell_session_starts",
    "Starts of sessions: started; refused, by a limit or for want of memory; failed, in the sandbox",
    ("result",),
    registry=REGISTRY,
)
_START_SECONDS = Histogram(
    "sandcell_start_seconds",
    "Time that starts took, by phase: place (waiting for its turn), launch (sandbox and kernel), claim (a sandbox of a"
    " pool), restore (files), session (from the request to the answer)",
    ("phase",),
    buckets=_SECONDS,
    registry=REGISTRY,
)
_EXECUTIONS = Counter("sandcell_executions", "What has ended, by its status", ("kind", "status"), registry=REGISTRY)
_QUEUE_SECONDS = Histogram(
    "sandcell_execution_queue_seconds", "Time from submission to begin", buckets=_SECONDS, registry=REGISTRY
)
_RUN_SECONDS = Histogram(
    "sandcell_execution_run_seconds", "Time from begin to end", buckets=_SECONDS, registry=REGISTRY
)
_DEATHS = Counter(
    "sandcell_kernel_deaths", "Kernels that ended in live sessions, by cause", ("cause",), registry=REGISTRY
)
_POOL = Counter(
    "sandcell_pool_requests",
    "Starts that a warm pool had a sandbox for (hit) or not (miss)",
    ("environment", "result"),
    registry=REGISTRY,
)
_SPENT = Counter(
    "sandcell_ended_sessions_cpu_seconds", "Processor time of sessions that have ended here", registry=REGISTRY
)
_STORE_BYTES = Counter("sandcell_store_written_bytes", "Bytes of objects that the store has taken", registry=REGISTRY)
_STORE_ERRORS = Counter(
    "sandcell_store_errors", "Calls to the store that failed, absent objects apart", ("operation",), registry=REGISTRY
)
_QUERY = Histogram(
    "sandcell_database_seconds",
    "Time of one query of the database, with its wait for a thread and for its commit",
    buckets=_QUERY_SECONDS,
    registry=REGISTRY,
)
_QUERY_ERRORS = Counter("sandcell_database_errors", "Queries that found the database away or full", registry=REGISTRY)
_AUDIT_DROPPED = Counter("sandcell_audit_dropped_records", "Audit records that were dropped", registry=REGISTRY)
for _result in ("started", "refused", "failed"):
    _STARTS.labels(_result)  # so that a rate begins at zero


def count_start(result: Literal["started", "refused", "failed"]) -> None:
    """A session's start has ended, one way or another."""
    _STARTS.labels(result).inc()


@contextlib.contextmanager
def time_phase(phase: Phase) -> Iterator[None]:
    """Around a phase of a start; one that fails is not timed."""
    began = time.monotonic()
    yield
    note_phase(phase, began)


def note_phase(phase: Phase, began: float) -> None:
    """A phase that began then, by the monotonic clock, is over."""
    tracing.note_phase(phase, began)
    _START_SECONDS.labels(phase).observe(time.monotonic() - began)


def count_execution(kind: str, status: str, queued: float, started: float | None, ended: float | None) -> None:
    """An execution or a command has ended; times are epoch seconds, and one that never ran has no `started`."""
    _EXECUTIONS.labels(kind, status).inc()
    if started is not None:
        _QUEUE_SECONDS.observe(max(started - queued, 0.0))  # the clock may have been set
        if ended is not None:
            _RUN_SECONDS.observe(max(ended - started, 0.0))


def count_death(cause: str) -> None:
    _DEATHS.labels(cause if cause in _CAUSES else OTHER).inc()


def count_pool_request(environment: str, *, hit: bool) -> None:
    """A start asked the pool of one of the host's environments."""
    _POOL.labels(environment, "hit" if hit else "miss").inc()


def count_spent(cpu_seconds: float) -> None:
    """A session has ended that used so much processor time."""
    _SPENT.inc(max(cpu_seconds, 0.0))


def count_written(size_bytes: int) -> None:
    """The store has taken so much."""
    _STORE_BYTES.inc(size_bytes)


def count_store_error(operation: str) -> None:
    _STORE_ERRORS.labels(operation).inc()


def note_query(began: float) -> None:
    """A query that began then, by the monotonic clock, is answered."""
    _QUERY.observe(time.monotonic() - began)


def count_query_error() -> None:
    _QUERY_ERRORS.inc()


def count_audit_dropped() -> None:
    _AUDIT_DROPPED.inc()
