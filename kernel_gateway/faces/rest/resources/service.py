"""The service itself: does it run, does it take work, and what it has counted.

The probes are open to all, so their answers say no more than that.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import Health
from kernel_gateway.faces.rest.responses import PROMETHEUS, answer_document
from kernel_gateway.faces.rest.route import Route

VERSION: Final = version("sandcell")


async def get_health(call: Call) -> Health:
    """The process answers."""
    return Health("ok", VERSION)


async def get_readiness(call: Call) -> Health:
    """New work is taken; 503 while draining, 503 or 507 while the database does not answer or the disk is full."""
    await call.services.readiness.require_ready()
    return Health("ready", VERSION)


async def get_metrics(call: Call) -> Response:
    """Figures of the whole service, in Prometheus' text format."""
    return answer_document(call.services.figures.page(), PROMETHEUS)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/healthz",
        get_health,
        name="getHealth",
        summary="Whether the process answers",
        result=Health,
        public=True,
    ),
    Route(
        "GET",
        "/readyz",
        get_readiness,
        name="getReadiness",
        summary="Whether new work is taken",
        result=Health,
        public=True,
        errors=(e.ShuttingDown, e.DatabaseUnavailable, e.NoSpace),
    ),
    Route(
        "GET",
        "/metrics",
        get_metrics,
        name="getMetrics",
        event="GetMetrics",
        summary="Figures of the whole service, for Prometheus",
        media=PROMETHEUS,
        scraped=True,
    ),
)
