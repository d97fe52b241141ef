"""Endpoints that speak of the service, for monitors and people; no attaching client asks for them."""

from __future__ import annotations

from importlib.metadata import version as version_of
from typing import Any

from kernel_gateway.faces.jupyter import kernels
from kernel_gateway.faces.jupyter.calls import Call

VERSION = version_of("sandcell")


async def get_version(call: Call) -> dict[str, Any]:
    return {"version": VERSION}


async def get_status(call: Call) -> dict[str, Any]:
    """What is alive within the visitor's reach."""
    sessions = await kernels.list_live_sessions(call)
    connections = sum(call.services.attachments.connections(each.id) for each in sessions)
    last = max((each.last_activity_at for each in sessions), default=None)
    return {"version": VERSION, "kernels": len(sessions), "connections": connections, "last_activity": last}
