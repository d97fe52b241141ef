"""Log lines of the service: one event name each, with the session and principal that are bound to the context."""

from __future__ import annotations

import logging
import sys

import structlog

from kernel_gateway.settings import Settings


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
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_errors(settings), last],
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


def _errors(settings: Settings) -> list[structlog.types.Processor]:
    return [structlog.processors.format_exc_info] if settings.log_json else []
