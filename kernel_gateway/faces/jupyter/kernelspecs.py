"""Endpoints of kernelspecs: every environment that the visitor can use, and the logos that clients show."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from kernel_gateway.errors import NotFound
from kernel_gateway.faces.jupyter import models
from kernel_gateway.faces.jupyter.calls import Call, Picture
from kernel_gateway.faces.jupyter.kernels import DEFAULT_ENVIRONMENT
from kernel_gateway.storage.columns import MOST_ROWS
from sandcell.models.shapes import EnvironmentInfo

TYPES: Final = {".png": "image/png", ".svg": "image/svg+xml"}
PICTURES: Final = {
    file: Picture((Path(__file__).parent / "logos" / file).read_bytes(), TYPES[Path(file).suffix])
    for file in models.LOGOS.values()
}


async def index(call: Call) -> dict[str, Any]:
    return models.kernelspecs(await _usable(call), DEFAULT_ENVIRONMENT)


async def show(call: Call) -> dict[str, Any]:
    name = call.ids["kernel_name"]
    for each in await _usable(call):
        if each.id == name:
            return models.kernelspec(each)
    raise NotFound("there is no such kernelspec")


async def logo(call: Call) -> Picture:
    found = PICTURES.get(call.ids["file"])
    if found is None:
        raise NotFound("there is no such file of a kernelspec")
    return found


async def _usable(call: Call) -> list[EnvironmentInfo]:
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
