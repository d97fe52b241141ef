"""Log lines of the service: one event name each, with the session and principal that are bound to the context.

What a line holds of a request (an address, a header, a library's complaint about them) is written out: nothing in it
is obeyed by a terminal, or taken for another line.
"""

from __future__ import annotations

import logging
import sys

import structlog

from kernel_gateway.settings import Settings
from kernels.log_text import escape, escape_lines


def configure_logs(settings: Settings) -> None:
    """Send every log line, the libraries' too, to standard error in one form."""
    level = getattr(logging, settings.log_level.upper())
    shared: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_json
        # Plain tracebacks: the default ones show local variables, and with them tokens and user code.
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                *([] if settings.log_json else [_write_out]),  # JSON does so by itself
                last,
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Access lines are ours; alembic's and botocore's talk is of no use above its warnings.
    for name in ("tornado.access", "alembic", "botocore", "boto3", "urllib3", "httpx", "httpcore", "s3transfer"):
        logging.getLogger(name).setLevel(max(level, logging.WARNING))
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _write_out(_logger: object, _method: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Every text of a line; what is none is shown by its `repr`, which does so too. A traceback keeps its lines."""
    ways = {"exception": escape_lines}
    return {
        escape(name): ways.get(name, escape)(value) if isinstance(value, str) else value
        for name, value in event.items()
    }
