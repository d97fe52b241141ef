"""Endpoints of datasets. They translate and decide nothing."""

from __future__ import annotations

from kernel_gateway.dataset_shapes import Dataset
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.paths import checked, checked_directory
from kernel_gateway.shapes import Page


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
