"""Our own protocol: JSON over HTTP under `/v1`, with the probes `/healthz` and `/readyz`.

`table` lists every route once; `application` serves it, with the rules of other faces before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

import structlog
from tornado.routing import Rule
from tornado.web import Application, RequestHandler

from kernel_gateway.faces.handler import FaceHandler
from kernel_gateway.faces.rest.handler import RestHandler

if TYPE_CHECKING:
    from kernel_gateway.services.composition import Services

__all__ = ["application"]
LONGEST_REASON = 300
"""Characters of an error's message in the line of its request."""
PROBES = ("/healthz", "/readyz")
log = structlog.get_logger(__name__)


def application(services: Services, rules: Sequence[Rule] = ()) -> Application:
    """Answers every request that none of `rules` takes."""
    return Application(
        list(rules),
        default_handler_class=RestHandler,
        default_handler_args={"services": services},
        log_function=log_request,
    )


def log_request(handler: RequestHandler) -> None:
    """The access log of every face, one line a request: no query, no header, no body.

    Of one that was refused the error's code, and where the service and not the caller is to blame, or too much was
    asked for, its message: others may repeat what the caller sent.
    """
    request, status = handler.request, handler.get_status()
    refused: dict[str, str] = {}
    if status >= HTTPStatus.BAD_REQUEST and isinstance(handler, FaceHandler):
        problem = handler.find_problem()
        refused["code"] = problem.code
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
            refused["reason"] = problem.message[:LONGEST_REASON]
    principal = getattr(getattr(handler, "call", None), "principal", None)
    level = log.debug if request.path in PROBES else log.info
    level(
        "request",
        method=request.method,
        path=request.path,
        status=status,
        milliseconds=round(1000 * request.request_time(), 2),
        principal=principal.name if principal and principal.name else None,
        **refused,
    )
