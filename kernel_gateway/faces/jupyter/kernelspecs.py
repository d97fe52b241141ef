"""Endpoints of kernelspecs: the kernels of every environment that the visitor can use, and Python's logos."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kernel_gateway.errors import NotFound
from kernel_gateway.faces.jupyter import models
from kernel_gateway.faces.jupyter.calls import Call
from kernel_gateway.faces.jupyter.kernels import DEFAULT_ENVIRONMENT
from kernel_gateway.faces.responses import Response
from kernel_gateway.storage.columns import MOST_ROWS
from sandcell.models.environments import EnvironmentInfo

TYPES: Final = {".png": "image/png", ".svg": "image/svg+xml"}
PICTURES: Final = {file: (Path(__file__).parent / "logos" / file).read_bytes() for file in models.LOGOS.values()}
POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'"


async def list_kernelspecs(call: Call) -> dict[str, Any]:
    return models.list_kernelspecs(await _describe_usable(call), DEFAULT_ENVIRONMENT)


async def get_kernelspec(call: Call) -> dict[str, Any]:
    name = call.ids["kernel_name"]
    for each in await _describe_usable(call):
        if each["name"] == name:
            return each
    raise NotFound("there is no such kernelspec")


async def get_logo(call: Call) -> Response:
    file = call.ids["file"]
    if file not in PICTURES:
        raise NotFound("there is no such file of a kernelspec")
    headers = {"Content-Type": TYPES[Path(file).suffix], "Content-Security-Policy": POLICY}
    return Response(PICTURES[file], headers=headers)


async def _describe_usable(call: Call) -> list[dict[str, Any]]:
    """Of each environment its Python, and then the other kernels of its image."""
    services, found = call.services, []
    for each in await _list_usable(call):
        found.append(models.describe_kernelspec(each, debugger=await services.packages.has(each, "debugpy")))
        declared = await services.kernelspecs.of_session(each.id, "")
        found += [models.describe_declared(each, kernel) for kernel in declared]
    return found


async def _list_usable(call: Call) -> list[EnvironmentInfo]:
    """The environments that kernels can be started from; to an attach token the one of its session."""
    found: list[EnvironmentInfo] = []
    cursor: str | None = None
    while True:
        page = await call.services.environments.list(call.principal, MOST_ROWS, cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    if call.visitor.session_id is None:
        return [each for each in found if each.status == "READY"]
    session = await call.services.sessions.get(call.principal, call.visitor.session_id)
    return [each for each in found if each.id == session.environment]
