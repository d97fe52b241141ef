"""Traces, where they are wanted: a request, what it had done in queue, kernel and sandbox, the flush of what that left.

Off without `otlp_endpoint`: then nothing here does anything, and OpenTelemetry is not imported (`open_telemetry` does
that). A span says when and how, never what: no code, output, path of a file or value of a header.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import structlog

from kernel_gateway.errors import SettingInvalid

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from kernel_gateway.open_telemetry import Ended, Tracer
    from kernel_gateway.settings import Settings

_tracer: Tracer | None = None


def start(settings: Settings) -> None:
    """Send spans from now on, if the settings say where to."""
    global _tracer  # noqa: PLW0603 - as with metrics, there is one for the process
    if not settings.otlp_endpoint:
        return
    try:
        from kernel_gateway.open_telemetry import Tracer  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        wanted = "otlp_endpoint needs OpenTelemetry: pip install 'sandcell-server[tracing]'"
        raise SettingInvalid(wanted) from None
    _tracer = Tracer(settings.otlp_endpoint, settings.otlp_token)


def stop() -> None:
    """Send what is left, for a few seconds at most. It waits: not for the event loop."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.close()


def begin_request(headers: Mapping[str, str]) -> Span | None:
    """A request has come: what its task and those it starts do from now on is of its trace, log lines too."""
    if _tracer is None:
        return None
    span, trace_id = _tracer.begin_request(headers)
    structlog.contextvars.bind_contextvars(trace=trace_id)
    return span


def end_request(span: Span | None, name: str, status: int, attributes: Mapping[str, Any]) -> None:
    """It is over: `name` is the call's, as the audit log has it."""
    if _tracer is not None and span is not None:
        _tracer.end_request(span, name, status, attributes)


def current() -> Context | None:
    """The trace of what runs now, for what it leaves to other tasks."""
    return None if _tracer is None else _tracer.current()


def within(trace: Context | None) -> contextlib.AbstractContextManager[object]:
    """Around what another task does for it."""
    return contextlib.nullcontext() if _tracer is None or trace is None else _tracer.within(trace)


def note_phase(phase: str, began: float) -> None:
    """A phase of a start that began then, by the monotonic clock, is over."""
    if _tracer is not None:
        _tracer.note_phase(phase, began)


def note_execution(trace: Context | None, row: Ended) -> Context | None:
    """An execution or a command has ended, and is stored; returns the trace for what follows from it."""
    return None if _tracer is None else _tracer.note_execution(trace, row)


def note_flush(trace: Context, began: float) -> None:
    """What was left at that time, in epoch seconds, is in the store now."""
    if _tracer is not None:
        _tracer.note_flush(trace, began)
