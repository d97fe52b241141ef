"""Environments: the host's, and those that principals made. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import EnvironmentsPage, PackagesPage
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.environments import ChangeTags, CreateEnvironment, Dependents, EnvironmentInfo, PackageInfo
from sandcell.models.model import Page


async def create_environment(call: Call) -> EnvironmentInfo:
    return await call.services.environments.create(call.principal, call.body)


async def list_environments(call: Call) -> Page[EnvironmentInfo]:
    query = call.query
    return await call.services.environments.list(call.principal, query.limit, query.cursor, query.kind)


async def get_environment(call: Call) -> EnvironmentInfo:
    return await call.services.environments.get(call.principal, call.ids["environment_id"])


async def delete_environment(call: Call) -> EnvironmentInfo:
    return await call.services.environments.delete(call.principal, call.ids["environment_id"])


async def change_environment_tags(call: Call) -> EnvironmentInfo:
    return await call.services.environments.change_tags(call.principal, call.ids["environment_id"], call.body)


async def list_environment_dependents(call: Call) -> Dependents:
    return await call.services.agents.dependents(call.principal, call.ids["environment_id"])


async def list_environment_packages(call: Call) -> Page[PackageInfo]:
    query, environment_id = call.query, call.ids["environment_id"]
    return await call.services.packages.list(call.principal, environment_id, query.limit, query.cursor, query.name)


ENVIRONMENTS: Final = "/v1/environments"
ENVIRONMENT: Final = "/v1/environments/{environment_id}"
ANY: Final[Errors] = (e.UnknownEnvironment,)
OWN: Final[Errors] = (*ANY, e.Forbidden)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        ENVIRONMENTS,
        create_environment,
        name="createEnvironment",
        event="CreateEnvironment",
        summary="Make an environment of your own, with packages of your own where the operator lets you",
        result=EnvironmentInfo,
        status=201,
        body=CreateEnvironment,
        errors=(e.Conflict, e.QuotaReached, e.Forbidden),
    ),
    Route(
        "GET",
        ENVIRONMENTS,
        list_environments,
        name="listEnvironments",
        event="ListEnvironments",
        summary="List environments: the host's, then those that you made",
        result=Page[EnvironmentInfo],
        query=EnvironmentsPage,
    ),
    Route(
        "GET",
        ENVIRONMENT,
        get_environment,
        name="getEnvironment",
        event="GetEnvironment",
        summary="Show an environment by id or name",
        result=EnvironmentInfo,
        errors=ANY,
    ),
    Route(
        "DELETE",
        ENVIRONMENT,
        delete_environment,
        name="deleteEnvironment",
        event="DeleteEnvironment",
        summary="Delete an environment; refused while agents or live sessions need it",
        result=EnvironmentInfo,
        errors=(*OWN, e.HasDependents),
    ),
    Route(
        "POST",
        f"{ENVIRONMENT}/tags",
        change_environment_tags,
        name="changeEnvironmentTags",
        event="ChangeEnvironmentTags",
        summary="Remove and set tags of an environment",
        result=EnvironmentInfo,
        body=ChangeTags,
        errors=OWN,
    ),
    Route(
        "GET",
        f"{ENVIRONMENT}/dependents",
        list_environment_dependents,
        name="listEnvironmentDependents",
        event="ListDependents",
        summary="Who needs an environment: your agents and live sessions",
        result=Dependents,
        errors=ANY,
    ),
    Route(
        "GET",
        f"{ENVIRONMENT}/packages",
        list_environment_packages,
        name="listEnvironmentPackages",
        event="ListPackages",
        summary="List the packages in an environment's image",
        result=Page[PackageInfo],
        query=PackagesPage,
        errors=(*ANY, e.EnvironmentUnavailable),
    ),
)
