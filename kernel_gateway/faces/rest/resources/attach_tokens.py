"""Attach tokens of a session, by which a person's Jupyter client gets in. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.attach import AttachToken, CreateAttachToken
from sandcell.models.model import Page


async def create_attach_token(call: Call) -> AttachToken:
    return await call.services.attach_tokens.create(call.principal, call.ids["session_id"], call.body)


async def list_attach_tokens(call: Call) -> Page[AttachToken]:
    query = call.query
    return await call.services.attach_tokens.list(call.principal, call.ids["session_id"], query.limit, query.cursor)


async def revoke_attach_token(call: Call) -> AttachToken:
    return await call.services.attach_tokens.revoke(call.principal, call.ids["session_id"], call.ids["token_id"])


ALL: Final = "/v1/sessions/{session_id}/attach-tokens"
ONE: Final = "/v1/sessions/{session_id}/attach-tokens/{token_id}"
ID: Final[Errors] = (e.NotFound,)
LIVE: Final[Errors] = (e.NotFound, e.SessionTerminated, e.SandboxUnavailable)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        ALL,
        create_attach_token,
        name="createAttachToken",
        event="CreateAttachToken",
        summary="Create a token that lets a person's Jupyter client attach; the answer alone carries it",
        result=AttachToken,
        status=201,
        body=CreateAttachToken,
        invocation=True,
        errors=(*LIVE, e.QuotaReached, e.RateLimited),
    ),
    Route(
        "GET",
        ALL,
        list_attach_tokens,
        name="listAttachTokens",
        event="ListAttachTokens",
        summary="List a session's attach tokens",
        result=Page[AttachToken],
        query=PageOf,
        errors=ID,
    ),
    Route(
        "DELETE",
        ONE,
        revoke_attach_token,
        name="revokeAttachToken",
        event="RevokeAttachToken",
        summary="Revoke an attach token",
        result=AttachToken,
        errors=ID,
    ),
)
