"""Endpoints of tokens, of access keys and of the audit log; who may call them is the services' to say."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.shapes import AccessKeyInfo, AuditRecord, Page, TokenInfo
from kernel_gateway.storage.audit import AuditFilter


async def create_token(call: Call) -> TokenInfo:
    body = call.body
    return await call.services.tokens.create(
        call.principal, body.principal, body.name, scope=body.scope, ttl_seconds=body.ttl_seconds
    )


async def tokens(call: Call) -> Page[TokenInfo]:
    return await call.services.tokens.list(call.principal, call.query.limit, call.query.cursor)


async def rotate_token(call: Call) -> TokenInfo:
    return await call.services.tokens.rotate(call.principal, call.ids["token_id"], call.body.overlap_seconds)


async def revoke_token(call: Call) -> TokenInfo:
    return await call.services.tokens.revoke(call.principal, call.ids["token_id"])


async def create_key(call: Call) -> AccessKeyInfo:
    body = call.body
    return await call.services.access_keys.create(
        call.principal, body.principal, body.name, scope=body.scope, ttl_seconds=body.ttl_seconds
    )


async def keys(call: Call) -> Page[AccessKeyInfo]:
    return await call.services.access_keys.list(call.principal, call.query.limit, call.query.cursor)


async def revoke_key(call: Call) -> AccessKeyInfo:
    return await call.services.access_keys.revoke(call.principal, call.ids["key_id"])


async def audit(call: Call) -> Page[AuditRecord]:
    query = call.query
    wanted = AuditFilter(
        session_id=query.session_id,
        principal=query.principal,
        kind=query.kind,
        event=query.event,
        error_code=query.error_code,
        allowed=query.allowed,
        since=query.since.timestamp() if query.since else None,
        until=query.until.timestamp() if query.until else None,
    )
    return await call.services.audit.list(call.principal, wanted, query.limit, query.cursor)
