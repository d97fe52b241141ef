"""Bearer tokens of principals, and links that sign in once with one; who may call is for the services to decide."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import CreateToken, PageOf, RotateToken
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.credentials import ConsoleLink, TokenInfo
from sandcell.models.model import Page


async def create_token(call: Call) -> TokenInfo:
    body = call.body
    return await call.services.tokens.create(
        call.principal, body.principal, body.name, scope=body.scope, ttl_seconds=body.ttl_seconds
    )


async def list_tokens(call: Call) -> Page[TokenInfo]:
    return await call.services.tokens.list(call.principal, call.query.limit, call.query.cursor)


async def revoke_token(call: Call) -> TokenInfo:
    return await call.services.tokens.revoke(call.principal, call.ids["token_id"])


async def rotate_token(call: Call) -> TokenInfo:
    return await call.services.tokens.rotate(call.principal, call.ids["token_id"], call.body.overlap_seconds)


async def create_console_link(call: Call) -> ConsoleLink:
    return await call.services.sign_ins.create_link(call.caller)


ADMIN: Final[Errors] = (e.Forbidden,)
ONE: Final[Errors] = (e.Forbidden, e.NotFound)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/tokens",
        create_token,
        name="createToken",
        event="CreateToken",
        summary="Create a token, and its principal when new; the answer alone carries the secret",
        result=TokenInfo,
        status=201,
        body=CreateToken,
        errors=ADMIN,
    ),
    Route(
        "GET",
        "/v1/tokens",
        list_tokens,
        name="listTokens",
        event="ListTokens",
        summary="List tokens",
        result=Page[TokenInfo],
        query=PageOf,
        errors=ADMIN,
    ),
    Route(
        "DELETE",
        "/v1/tokens/{token_id}",
        revoke_token,
        name="revokeToken",
        event="RevokeToken",
        summary="Revoke a token",
        result=TokenInfo,
        errors=ONE,
    ),
    Route(
        "POST",
        "/v1/tokens/{token_id}/rotate",
        rotate_token,
        name="rotateToken",
        event="RotateToken",
        summary="Put another token in place of one, of the same principal, name, scope and lifetime",
        result=TokenInfo,
        status=201,
        body=RotateToken,
        errors=(*ONE, e.Conflict),
    ),
    Route(
        "POST",
        "/v1/console/links",
        create_console_link,
        name="createConsoleLink",
        event="CreateConsoleLink",
        summary="Create a link that signs a browser in to the console as you, once; the answer alone carries it",
        result=ConsoleLink,
        status=201,
    ),
)
