"""Endpoints that look into a session: its variables, and its outputs in full. They translate and decide nothing."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.inspection_shapes import Variables


async def variables(call: Call) -> Variables:
    return await call.services.inspection.variables(call.principal, call.ids["session_id"])
