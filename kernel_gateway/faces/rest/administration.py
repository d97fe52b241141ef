"""Endpoints of environments and of tokens; who may call them is the services' to say."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.shapes import EnvironmentInfo, Page, TokenInfo


async def environments(call: Call) -> Page[EnvironmentInfo]:
    return await call.services.environments.list(call.principal)


async def create_token(call: Call) -> TokenInfo:
    return await call.services.tokens.create(call.principal, call.body.principal, call.body.name)


async def tokens(call: Call) -> Page[TokenInfo]:
    return await call.services.tokens.list(call.principal, call.query.limit, call.query.cursor)


async def revoke_token(call: Call) -> TokenInfo:
    return await call.services.tokens.revoke(call.principal, call.ids["token_id"])
