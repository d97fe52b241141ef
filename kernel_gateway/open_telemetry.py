"""Spans over OpenTelemetry, sent by its protocol (OTLP over HTTP, protobuf) from a thread of their own.

Nothing waits for the collector: spans that it does not take in time are dropped, and a log line says so. Whether a
trace is recorded is its caller's choice, by the flags of its `traceparent` (W3C Trace Context); without one it is.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final, Protocol

import structlog
from opentelemetry import context as contexts
from opentelemetry import trace as traces
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import DEFAULT_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_VERSION: Final = version("sandcell")
_NANOSECONDS: Final = 1_000_000_000
_SEND_SECONDS: Final = 10
"""How long one batch may take, with its repeats."""
_WAITING: Final = 4_096
"""Spans that wait to be sent; more are dropped."""
_EVERY: Final = 1_000
"""Milliseconds between batches."""
_CLOSE_SECONDS: Final = 5.0
_FAILED: Final = frozenset({"error", "timeout", "died", "rejected"})
"""Statuses of executions that are not what was asked for; an interrupted one is."""


class Ended(Protocol):
    """An execution or a command that has ended, as it is stored; times are epoch seconds."""

    @property
    def id(self) -> str: ...
    @property
    def session_id(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def status(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def queued(self) -> float: ...
    @property
    def started(self) -> float | None: ...
    @property
    def ended(self) -> float | None: ...


class Tracer:
    """The spans of one process."""

    def __init__(self, endpoint: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        exporter = OTLPSpanExporter(endpoint, headers=headers, timeout=_SEND_SECONDS)
        resource = Resource({"service.name": "sandcell", "service.version": _VERSION})
        self._provider = TracerProvider(sampler=DEFAULT_ON, resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=_WAITING, schedule_delay_millis=_EVERY)
        )
        self._tracer = self._provider.get_tracer("sandcell", _VERSION)
        self._propagator = TraceContextTextMapPropagator()

    def close(self) -> None:
        """Send what waits, and give up on it after a while: a thread that still sends ends with the process."""
        closing = threading.Thread(target=self._provider.shutdown, name="last spans", daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)

    def begin_request(self, headers: Mapping[str, str]) -> tuple[Span, str]:
        """The span of a request, which is the current one of this task from now on, and its trace's id."""
        named = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        parent = self._propagator.extract(named, Context())
        span = self._tracer.start_span("request", parent, SpanKind.SERVER)
        contexts.attach(traces.set_span_in_context(span, Context()))  # ends with the request's task
        return span, traces.format_trace_id(span.get_span_context().trace_id)

    def end_request(self, span: Span, name: str, status: int, attributes: Mapping[str, Any]) -> None:
        span.update_name(name)
        span.set_attribute("http.response.status_code", status)
        for key, value in attributes.items():
            if value is not None:
                span.set_attribute(key, value)
        if status >= 500:
            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def current(self) -> Context | None:
        here = contexts.get_current()
        return here if traces.get_current_span(here).get_span_context().is_valid else None

    @contextlib.contextmanager
    def within(self, trace: Context) -> Iterator[None]:
        token = contexts.attach(trace)
        trace_id = traces.format_trace_id(traces.get_current_span(trace).get_span_context().trace_id)
        try:
            with structlog.contextvars.bound_contextvars(trace=trace_id):
                yield
        finally:
            contexts.detach(token)

    def note_phase(self, phase: str, began: float) -> None:
        parent = self.current()
        if parent is not None:
            now = time.time_ns()
            self._note(f"start {phase}", parent, now - int((time.monotonic() - began) * _NANOSECONDS), now)

    def note_execution(self, trace: Context | None, row: Ended) -> Context:
        """One span from its submission to its end, in it one for the queue and one for the kernel or the sandbox."""
        ended = row.ended or time.time()
        span = self._tracer.start_span(
            row.kind,
            trace or Context(),
            start_time=_nanoseconds(row.queued),
            attributes={
                "sandcell.session": row.session_id,
                "sandcell.execution": row.id,
                "sandcell.status": row.status,
                "sandcell.generation": row.generation,
            },
        )
        here = traces.set_span_in_context(span, Context())
        begun = ended if row.started is None else row.started
        self._note("queue", here, _nanoseconds(row.queued), _nanoseconds(begun))
        if row.started is not None:
            self._note("run", here, _nanoseconds(row.started), _nanoseconds(ended))
        if row.status in _FAILED:
            span.set_status(Status(StatusCode.ERROR, row.status))
        span.end(_nanoseconds(ended))
        return here

    def note_flush(self, trace: Context, began: float) -> None:
        self._note("flush", trace, _nanoseconds(began), time.time_ns())

    def _note(self, name: str, parent: Context, began: int, ended: int) -> None:
        self._tracer.start_span(name, parent, start_time=began).end(max(began, ended))  # the clock may have been set


def _nanoseconds(epoch_seconds: float) -> int:
    return int(epoch_seconds * _NANOSECONDS)
