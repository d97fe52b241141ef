"""Access keys of principals, which requests are signed with; who may call is for the services to decide."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import CreateKey, PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.credentials import AccessKeyInfo
from sandcell.models.model import Page


async def create_access_key(call: Call) -> AccessKeyInfo:
    body = call.body
    return await call.services.access_keys.create(
        call.principal, body.principal, body.name, scope=body.scope, ttl_seconds=body.ttl_seconds
    )


async def list_access_keys(call: Call) -> Page[AccessKeyInfo]:
    return await call.services.access_keys.list(call.principal, call.query.limit, call.query.cursor)


async def revoke_access_key(call: Call) -> AccessKeyInfo:
    return await call.services.access_keys.revoke(call.principal, call.ids["key_id"])


ADMIN: Final[Errors] = (e.Forbidden,)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/keys",
        create_access_key,
        name="createAccessKey",
        event="CreateAccessKey",
        summary="Create an access key, and its principal when new; the answer alone carries the secret",
        result=AccessKeyInfo,
        status=201,
        body=CreateKey,
        errors=ADMIN,
    ),
    Route(
        "GET",
        "/v1/keys",
        list_access_keys,
        name="listAccessKeys",
        event="ListAccessKeys",
        summary="List access keys",
        result=Page[AccessKeyInfo],
        query=PageOf,
        errors=ADMIN,
    ),
    Route(
        "DELETE",
        "/v1/keys/{key_id}",
        revoke_access_key,
        name="revokeAccessKey",
        event="RevokeAccessKey",
        summary="Revoke an access key",
        result=AccessKeyInfo,
        errors=(*ADMIN, e.NotFound),
    ),
)
