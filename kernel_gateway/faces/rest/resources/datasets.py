"""Datasets: files of a workspace under names. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces import errors as r
from kernel_gateway.faces.responses import Response
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.elsewhere import copy_elsewhere, is_passed_on
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.paths import check_directory, check_path
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.datasets import CopyDataset, Dataset, RegisterDataset
from sandcell.models.model import Page


async def register_dataset(call: Call) -> Dataset:
    call.body.path = check_path(call.body.path)
    return await call.services.datasets.register(call.principal, call.ids["workspace_id"], call.body)


async def list_datasets(call: Call) -> Page[Dataset]:
    query, workspace_id = call.query, call.ids["workspace_id"]
    return await call.services.datasets.list(call.principal, workspace_id, query.limit, query.cursor)


async def get_dataset(call: Call) -> Dataset:
    return await call.services.datasets.get(call.principal, call.ids["workspace_id"], call.ids["name"])


async def copy_dataset(call: Call) -> Dataset | Response:
    call.body.to_path = check_directory(call.body.to_path)
    if (answer := await copy_elsewhere(call, call.body.to)) is not None:
        return answer
    copies, ids, flushed = call.services.dataset_copies, call.ids, is_passed_on(call)
    return await copies.copy(call.principal, ids["workspace_id"], ids["name"], call.body, was_flushed=flushed)


async def delete_dataset(call: Call) -> None:
    await call.services.datasets.remove(call.principal, call.ids["workspace_id"], call.ids["name"])


DATASETS: Final = "/v1/workspaces/{workspace_id}/datasets"
DATASET: Final = "/v1/workspaces/{workspace_id}/datasets/{name}"
STORE: Final[Errors] = (e.NotFound, e.StoreUnavailable, e.DeadlinePassed)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        DATASETS,
        register_dataset,
        name="registerDataset",
        event="RegisterDataset",
        summary="Give a file a name, and look at it in a sandbox: schema, rows, statistics, a sample",
        result=Dataset,
        status=201,
        body=RegisterDataset,
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
            e.NoMemory,
            e.ShuttingDown,
        ),
    ),
    Route(
        "GET",
        DATASETS,
        list_datasets,
        name="listDatasets",
        event="ListDatasets",
        summary="List datasets without their profiles",
        result=Page[Dataset],
        query=PageOf,
        errors=STORE,
    ),
    Route(
        "GET",
        DATASET,
        get_dataset,
        name="getDataset",
        event="GetDataset",
        summary="Show a dataset, and whether its file has changed since",
        result=Dataset,
        errors=STORE,
    ),
    Route(
        "POST",
        f"{DATASET}/copy",
        copy_dataset,
        name="copyDataset",
        event="CopyDataset",
        summary="Give another workspace of yours the dataset and its file, by a copy inside the store",
        result=Dataset,
        status=201,
        body=CopyDataset,
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
    Route(
        "DELETE",
        DATASET,
        delete_dataset,
        name="deleteDataset",
        event="DeleteDataset",
        summary="Forget a dataset; its file stays",
        status=204,
        errors=(e.NotFound,),
    ),
)
