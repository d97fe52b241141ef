"""Principals, for administrators; who may call is for the services to decide."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.model import Page
from sandcell.models.principals import Disabled, DisablePrincipal, PrincipalInfo, SetQuota


async def list_principals(call: Call) -> Page[PrincipalInfo]:
    return await call.services.principals.list(call.principal, call.query.limit, call.query.cursor)


async def disable_principal(call: Call) -> Disabled:
    return await call.services.principals.disable(call.principal, call.ids["principal"], call.body)


async def enable_principal(call: Call) -> PrincipalInfo:
    return await call.services.principals.enable(call.principal, call.ids["principal"])


async def set_principal_quota(call: Call) -> PrincipalInfo:
    return await call.services.principals.set_quota(call.principal, call.ids["principal"], call.body)


PRINCIPAL: Final = "/v1/principals/{principal}"
ONE: Final[Errors] = (e.Forbidden, e.NotFound)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/principals",
        list_principals,
        name="listPrincipals",
        event="ListPrincipals",
        summary="List principals",
        result=Page[PrincipalInfo],
        query=PageOf,
        errors=(e.Forbidden,),
    ),
    Route(
        "POST",
        f"{PRINCIPAL}/disable",
        disable_principal,
        name="disablePrincipal",
        event="DisablePrincipal",
        summary=(
            "Disable a principal: its credentials, open calls, streams, sockets and replays end at once, "
            "its sessions too"
        ),
        result=Disabled,
        body=DisablePrincipal,
        errors=(*ONE, e.Conflict),
    ),
    Route(
        "POST",
        f"{PRINCIPAL}/enable",
        enable_principal,
        name="enablePrincipal",
        event="EnablePrincipal",
        summary="Let its credentials count again",
        result=PrincipalInfo,
        errors=ONE,
    ),
    Route(
        "PUT",
        f"{PRINCIPAL}/quota",
        set_principal_quota,
        name="setPrincipalQuota",
        event="SetQuota",
        summary="Say how many live sessions a principal may have",
        result=PrincipalInfo,
        body=SetQuota,
        errors=ONE,
    ),
)
