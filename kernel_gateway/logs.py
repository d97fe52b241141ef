"""Log lines of the service: one event name each, with the session and principal that are bound to the context.

What a line holds of a request (an address, a header, a library's complaint about them) is written out: nothing in it
is obeyed by a terminal, or taken for another line.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
import threading
from typing import Any, Final

import structlog

from kernel_gateway.errors import DatabaseUnavailable, NoSpace, StoreUnavailable
from kernel_gateway.settings import Settings
from kernels.log_text import escape, escape_lines, is_plain
from workspace_sync.errors import FULL, StoreError


def configure_logs(settings: Settings) -> None:
    """Send every log line, the libraries' too, to standard error in one form."""
    level = getattr(logging, settings.log_level.upper())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = structlog.processors.JSONRenderer() if settings.log_json else Lines(colors=sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                last,
            ],
        )
    )
    # No line says where in the code it comes from, or in which thread: finding that out costs as much as writing it.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Access lines are ours; alembic's and botocore's talk is of no use above its warnings.
    for name in ("tornado.access", "alembic", "botocore", "boto3", "urllib3", "httpx", "httpcore", "s3transfer"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    # Our own lines do not go through the standard library, whose records cost more than the lines.
    structlog.configure(
        processors=[*shared, _say_what_is_away, structlog.processors.format_exc_info, last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_StandardError,
        cache_logger_on_first_use=True,
    )


def _say_what_is_away(_logger: Any, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Called by structlog: an error that says that something around the service is away or full needs no traceback.

    Where our code met it is of no use then, and it meets it at every turn until that is over.
    """
    error = event.get("exc_info")
    full = isinstance(error, OSError) and error.errno in FULL
    if full or isinstance(error, NoSpace | DatabaseUnavailable | StoreUnavailable | StoreError):
        del event["exc_info"]
        event["error"] = str(error)
    return event


class _StandardError:
    """Writes whole lines, those of threads one after the other; what cannot be written is no error of who logs."""

    _turn = threading.Lock()

    def __init__(self, *_names: str) -> None:
        """Called by structlog for each logger."""

    def msg(self, line: str) -> None:
        with self._turn, contextlib.suppress(OSError, ValueError):
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    debug = info = warning = warn = error = err = critical = fatal = exception = failure = log = msg


class Lines:
    """Events as lines of text, written by structlog's `ConsoleRenderer`.

    All but a few lines are of requests, and say nothing that has to be escaped: those, without colours, are put
    together here, as it would write them, in less time.
    """

    _SLOW: Final = frozenset({"exception", "exc_info", "stack", "logger", "logger_name"})
    _QUOTED: Final = re.compile(r"[ \t=\r\n\"']")

    def __init__(self, *, colors: bool) -> None:
        self._colors = colors
        # Plain tracebacks: the default ones show local variables, and with them tokens and user code.
        self._console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)

    def __call__(self, logger: Any, method: str, event: structlog.types.EventDict) -> str:
        """Called by structlog with each event, whose timestamp and level are in it."""
        if not self._colors and self._SLOW.isdisjoint(event):
            line = self._compose(dict(event))
            if is_plain(line):
                return line
        return str(self._console(logger, method, _write_out(event)))

    def _compose(self, event: structlog.types.EventDict) -> str:
        when, level, name = event.pop("timestamp", ""), event.pop("level", ""), event.pop("event", "")
        said = " ".join([f"{key}={self._show(event[key])}" for key in sorted(event)])
        return f"{when} [{level:<9}] {name:<30} {said}".rstrip(" ")

    def _show(self, value: object) -> str:
        return value if isinstance(value, str) and not self._QUOTED.search(value) else repr(value)


def _write_out(event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Every text of a line; what is none is shown by its `repr`, which does so too. A traceback keeps its lines."""
    ways = {"exception": escape_lines}
    return {
        escape(name): ways.get(name, escape)(value) if isinstance(value, str) else value
        for name, value in event.items()
    }
