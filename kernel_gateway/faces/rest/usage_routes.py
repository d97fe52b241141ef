"""The rows of the table of routes on what workspaces hold and on what nobody uses any more."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest import usage
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.shapes import Page
from kernel_gateway.usage_shapes import Expired, ExpireWorkspaces, PrincipalUsage

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/usage",
        usage.index,
        "What your workspaces and live sessions hold; for an administrator everybody's, by principal",
        Page[PrincipalUsage],
        query=PageOf,
    ),
    Route(
        "POST",
        "/v1/retention",
        usage.expire,
        "Remove workspaces that nobody has used for long, or with `dry_run` (the default) say which they are",
        Expired,
        body=ExpireWorkspaces,
        errors=(e.Forbidden, e.ShuttingDown),
    ),
)
