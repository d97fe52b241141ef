"""Endpoints for those who operate the service: is it alive, does it take work. Open to all, and they say no more."""

from __future__ import annotations

from importlib.metadata import version

from kernel_gateway.errors import ShuttingDown
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import Health

VERSION = version("sandcell")


async def healthz(call: Call) -> Health:
    """The process answers."""
    return Health("ok", VERSION)


async def readyz(call: Call) -> Health:
    """New work is taken; 503 while starting or draining."""
    if not call.services.ready:
        raise ShuttingDown("the service takes no new work now")
    return Health("ready", VERSION)
