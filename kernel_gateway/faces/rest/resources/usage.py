"""What workspaces hold, the removal of those that are no longer used, what the host can enforce.

Endpoints translate and decide nothing.
"""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Route
from sandcell.models.model import Page
from sandcell.models.usage import Expired, ExpireWorkspaces, HostFinding, PrincipalUsage


async def list_usage(call: Call) -> Page[PrincipalUsage]:
    return await call.services.retention.usage(call.principal, call.query.limit, call.query.cursor)


async def expire_workspaces(call: Call) -> Expired:
    return await call.services.retention.expire(call.principal, call.body)


async def check_host(call: Call) -> Page[HostFinding]:
    return await call.services.host_check.look(call.principal)


ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/usage",
        list_usage,
        name="listUsage",
        event="GetUsage",
        summary="What your workspaces and live sessions hold; for an administrator everybody's, by principal",
        result=Page[PrincipalUsage],
        query=PageOf,
    ),
    Route(
        "POST",
        "/v1/retention",
        expire_workspaces,
        name="expireWorkspaces",
        event="ExpireWorkspaces",
        summary="Remove workspaces that were not used for long, or with `dry_run` (the default) say which they are",
        result=Expired,
        body=ExpireWorkspaces,
        errors=(e.Forbidden, e.ShuttingDown),
    ),
    Route(
        "GET",
        "/v1/doctor",
        check_host,
        name="checkHost",
        event="CheckHost",
        summary="What the host can enforce, and whether database, disk and store answer (administrators)",
        result=Page[HostFinding],
        errors=(e.Forbidden, e.SandboxUnavailable),
    ),
)
