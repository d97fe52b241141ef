"""Endpoints of usage and retention. They translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Route
from sandcell.models.shapes import Page
from sandcell.models.usage import Expired, ExpireWorkspaces, PrincipalUsage


async def index(call: Call) -> Page[PrincipalUsage]:
    return await call.services.retention.usage(call.principal, call.query.limit, call.query.cursor)


async def expire(call: Call) -> Expired:
    return await call.services.retention.expire(call.principal, call.body)


# The rows of the table of routes on what workspaces hold and on what nobody uses any more.

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/usage",
        index,
        "What your workspaces and live sessions hold; for an administrator everybody's, by principal",
        Page[PrincipalUsage],
        query=PageOf,
    ),
    Route(
        "POST",
        "/v1/retention",
        expire,
        "Remove workspaces that nobody has used for long, or with `dry_run` (the default) say which they are",
        Expired,
        body=ExpireWorkspaces,
        errors=(e.Forbidden, e.ShuttingDown),
    ),
)
