"""Endpoints of attach tokens."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call
from sandcell.models.attach import AttachToken
from sandcell.models.shapes import Page


async def create(call: Call) -> AttachToken:
    return await call.services.attach_tokens.create(call.principal, call.ids["session_id"], call.body)


async def index(call: Call) -> Page[AttachToken]:
    query = call.query
    return await call.services.attach_tokens.list(call.principal, call.ids["session_id"], query.limit, query.cursor)


async def revoke(call: Call) -> AttachToken:
    return await call.services.attach_tokens.revoke(call.principal, call.ids["session_id"], call.ids["token_id"])
