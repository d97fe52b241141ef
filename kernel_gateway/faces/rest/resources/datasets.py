"""Endpoints of datasets. They translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.paths import checked, checked_directory
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.datasets import CopyDataset, Dataset, RegisterDataset
from sandcell.models.shapes import Page


async def register(call: Call) -> Dataset:
    call.body.path = checked(call.body.path)
    return await call.services.datasets.register(call.principal, call.ids["workspace_id"], call.body)


async def index(call: Call) -> Page[Dataset]:
    query, workspace_id = call.query, call.ids["workspace_id"]
    return await call.services.datasets.list(call.principal, workspace_id, query.limit, query.cursor)


async def show(call: Call) -> Dataset:
    return await call.services.datasets.get(call.principal, call.ids["workspace_id"], call.ids["name"])


async def copy(call: Call) -> Dataset:
    call.body.to_path = checked_directory(call.body.to_path)
    copies, ids = call.services.dataset_copies, call.ids
    return await copies.copy(call.principal, ids["workspace_id"], ids["name"], call.body)


async def remove(call: Call) -> None:
    await call.services.datasets.remove(call.principal, call.ids["workspace_id"], call.ids["name"])


# The rows of the table of routes that work on datasets.

ALL: Final = "/v1/workspaces/{workspace_id}/datasets"
ONE: Final = "/v1/workspaces/{workspace_id}/datasets/{name}"
STORE: Errors = (e.NotFound, e.StoreUnavailable, e.DeadlinePassed)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        ALL,
        register,
        "Give a file a name, and look at it in a sandbox: schema, rows, statistics, a sample",
        Dataset,
        201,
        RegisterDataset,
        invocation=True,
        errors=(
            *STORE,
            r.InvalidPath,
            e.Conflict,
            e.QuotaReached,
            e.WorkspaceInUse,
            e.WorkspaceRestoring,
            e.EnvironmentUnavailable,
            e.UnknownEnvironment,
            e.UnreadableFile,
            e.RateLimited,
            e.LimitReached,
            e.NoSpace,
            e.SandboxUnavailable,
            e.ShuttingDown,
        ),
    ),
    Route("GET", ALL, index, "List datasets without their profiles", Page[Dataset], query=PageOf, errors=STORE),
    Route("GET", ONE, show, "Show a dataset, and whether its file has changed since", Dataset, errors=STORE),
    Route(
        "POST",
        f"{ONE}/copy",
        copy,
        "Give another workspace of yours the dataset and its file, by a copy inside the store",
        Dataset,
        201,
        CopyDataset,
        errors=(
            *STORE,
            r.InvalidPath,
            e.Conflict,
            e.QuotaReached,
            e.WorkspaceInUse,
            e.WorkspaceRestoring,
            e.NoSpace,
            e.ShuttingDown,
        ),
    ),
    Route("DELETE", ONE, remove, "Forget a dataset; its file stays", status=204, errors=(e.NotFound,)),
)
