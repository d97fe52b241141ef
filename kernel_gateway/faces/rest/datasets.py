"""Endpoints of datasets. They translate and decide nothing."""

from __future__ import annotations

from kernel_gateway.dataset_shapes import Dataset
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.paths import checked
from kernel_gateway.shapes import Page


async def register(call: Call) -> Dataset:
    call.body.path = checked(call.body.path)
    return await call.services.datasets.register(call.principal, call.ids["workspace_id"], call.body)


async def index(call: Call) -> Page[Dataset]:
    query, workspace_id = call.query, call.ids["workspace_id"]
    return await call.services.datasets.list(call.principal, workspace_id, query.limit, query.cursor)


async def show(call: Call) -> Dataset:
    return await call.services.datasets.get(call.principal, call.ids["workspace_id"], call.ids["name"])


async def remove(call: Call) -> None:
    await call.services.datasets.remove(call.principal, call.ids["workspace_id"], call.ids["name"])
