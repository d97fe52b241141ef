"""The rows of the table of routes that work on datasets."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.dataset_shapes import CopyDataset, Dataset, RegisterDataset
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.rest import datasets
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.shapes import Page

ALL: Final = "/v1/workspaces/{workspace_id}/datasets"
ONE: Final = "/v1/workspaces/{workspace_id}/datasets/{name}"
STORE: Errors = (e.NotFound, e.StoreUnavailable, e.DeadlinePassed)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        ALL,
        datasets.register,
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
    Route(
        "GET", ALL, datasets.index, "List datasets without their profiles", Page[Dataset], query=PageOf, errors=STORE
    ),
    Route("GET", ONE, datasets.show, "Show a dataset, and whether its file has changed since", Dataset, errors=STORE),
    Route(
        "POST",
        f"{ONE}/copy",
        datasets.copy,
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
    Route("DELETE", ONE, datasets.remove, "Forget a dataset; its file stays", status=204, errors=(e.NotFound,)),
)
