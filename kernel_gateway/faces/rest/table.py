"""The one table of the REST face: what is served, the OpenAPI document and the docs are made from it.

The rows are next to their endpoints, in `resources`. An address is written with its parameters in braces; `{path}`
comes last and takes the rest, slashes included.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from kernel_gateway.faces.responses import JSON, Response
from kernel_gateway.faces.rest import openapi
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AnyObject
from kernel_gateway.faces.rest.resources import (
    access_keys,
    admin_sessions,
    agents,
    attach_tokens,
    audit,
    commands,
    datasets,
    environments,
    executions,
    files,
    images,
    inspection,
    leases,
    principals,
    replays,
    service,
    sessions,
    tokens,
    usage,
    workspaces,
)
from kernel_gateway.faces.rest.responses import answer_document
from kernel_gateway.faces.rest.route import Route
from kernel_gateway.settings import Settings


async def get_openapi_document(call: Call) -> Response:
    return answer_document(make_openapi_document(call.services.settings), JSON)


TABLE: Final[tuple[Route, ...]] = (
    *sessions.ROUTES,
    *executions.ROUTES,
    *commands.ROUTES,
    *files.ROUTES,
    *attach_tokens.ROUTES,
    *inspection.ROUTES,
    *replays.ROUTES,
    *leases.ROUTES,
    *workspaces.ROUTES,
    *datasets.ROUTES,
    *usage.ROUTES,
    *environments.ROUTES,
    *images.ROUTES,
    *agents.ROUTES,
    *tokens.ROUTES,
    *access_keys.ROUTES,
    *audit.ROUTES,
    *principals.ROUTES,
    *admin_sessions.ROUTES,
    Route(  # here and not in `resources`: it answers with what is made of this table
        "GET",
        "/v1/openapi.json",
        get_openapi_document,
        name="getOpenApiDocument",
        summary="This interface as OpenAPI 3.1",
        result=AnyObject,
        public=True,
    ),
    *service.ROUTES,
)


@cache
def make_openapi_document(settings: Settings) -> bytes:
    """The OpenAPI document of a service with these settings, as JSON."""
    return openapi.encode_document(TABLE, settings)


def list_routes() -> list[tuple[str, str, str]]:
    """Method, address and summary of every route, for the docs."""
    return [(route.method, route.path, route.summary) for route in TABLE]
