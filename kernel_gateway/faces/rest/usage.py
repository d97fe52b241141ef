"""Endpoints of usage and retention. They translate and decide nothing."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.shapes import Page
from kernel_gateway.usage_shapes import Expired, PrincipalUsage


async def index(call: Call) -> Page[PrincipalUsage]:
    return await call.services.retention.usage(call.principal, call.query.limit, call.query.cursor)


async def expire(call: Call) -> Expired:
    return await call.services.retention.expire(call.principal, call.body)
