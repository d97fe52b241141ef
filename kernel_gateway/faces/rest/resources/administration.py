"""Endpoints of tokens, of access keys and of the audit log; who may call them is the services' to say."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AuditPage, CreateKey, CreateToken, PageOf, RotateToken
from kernel_gateway.faces.rest.route import Errors, Route
from kernel_gateway.storage.audit import AuditFilter
from sandcell.models.shapes import AccessKeyInfo, AuditRecord, Page, TokenInfo


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


# The rows of the table of routes that are about credentials and the audit log.

ADMIN: Final[Errors] = (e.Forbidden,)
ID: Final[Errors] = (e.NotFound,)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/tokens",
        create_token,
        "Create a token, and its principal when new; the answer alone carries the secret",
        TokenInfo,
        201,
        CreateToken,
        errors=ADMIN,
    ),
    Route("GET", "/v1/tokens", tokens, "List tokens", Page[TokenInfo], query=PageOf, errors=ADMIN),
    Route(
        "DELETE",
        "/v1/tokens/{token_id}",
        revoke_token,
        "Revoke a token",
        TokenInfo,
        errors=(*ADMIN, *ID),
    ),
    Route(
        "POST",
        "/v1/tokens/{token_id}/rotate",
        rotate_token,
        "Put another token in place of one, of the same principal, name, scope and lifetime",
        TokenInfo,
        201,
        RotateToken,
        errors=(*ADMIN, *ID, e.Conflict),
    ),
    Route(
        "POST",
        "/v1/keys",
        create_key,
        "Create an access key, and its principal when new; the answer alone carries the secret",
        AccessKeyInfo,
        201,
        CreateKey,
        errors=ADMIN,
    ),
    Route("GET", "/v1/keys", keys, "List access keys", Page[AccessKeyInfo], query=PageOf, errors=ADMIN),
    Route(
        "DELETE",
        "/v1/keys/{key_id}",
        revoke_key,
        "Revoke an access key",
        AccessKeyInfo,
        errors=(*ADMIN, *ID),
    ),
    Route(
        "GET",
        "/v1/audit",
        audit,
        "Look into the audit log, newest first: your own records, an administrator all",
        Page[AuditRecord],
        query=AuditPage,
        errors=ADMIN,
    ),
)
