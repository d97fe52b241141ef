"""Agents, and the environments that they need. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import PageOf
from kernel_gateway.faces.rest.route import Errors, Route
from sandcell.models.environments import AgentInfo, AttachAgents, Moved, PutAgent
from sandcell.models.model import Page


async def detach_environment_agents(call: Call) -> Moved:
    return await call.services.agents.detach(call.principal, call.ids["environment_id"])


async def attach_environment_agents(call: Call) -> Moved:
    return await call.services.agents.attach(call.principal, call.ids["environment_id"], call.body)


async def list_agents(call: Call) -> Page[AgentInfo]:
    return await call.services.agents.list(call.principal, call.query.limit, call.query.cursor)


async def get_agent(call: Call) -> AgentInfo:
    return await call.services.agents.get(call.principal, call.ids["agent_id"])


async def put_agent(call: Call) -> AgentInfo:
    return await call.services.agents.put(call.principal, call.ids["agent_id"], call.body)


async def delete_agent(call: Call) -> None:
    await call.services.agents.delete(call.principal, call.ids["agent_id"])


AGENT: Final = "/v1/agents/{agent_id}"
ID: Final[Errors] = (e.NotFound,)
ENVIRONMENT: Final[Errors] = (e.UnknownEnvironment,)

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "POST",
        "/v1/environments/{environment_id}/detach",
        detach_environment_agents,
        name="detachEnvironmentAgents",
        event="DetachAgents",
        summary="Detach all your agents from an environment",
        result=Moved,
        errors=ENVIRONMENT,
    ),
    Route(
        "POST",
        "/v1/environments/{environment_id}/attach",
        attach_environment_agents,
        name="attachEnvironmentAgents",
        event="AttachAgents",
        summary="Attach all your agents again that were detached from this environment, or from another",
        result=Moved,
        body=AttachAgents,
        errors=ENVIRONMENT,
    ),
    Route(
        "GET",
        "/v1/agents",
        list_agents,
        name="listAgents",
        event="ListAgents",
        summary="List your agents",
        result=Page[AgentInfo],
        query=PageOf,
    ),
    Route(
        "GET",
        AGENT,
        get_agent,
        name="getAgent",
        event="GetAgent",
        summary="Show an agent",
        result=AgentInfo,
        errors=ID,
    ),
    Route(
        "PUT",
        AGENT,
        put_agent,
        name="putAgent",
        event="PutAgent",
        summary="Register an agent with its environment, or replace its registration",
        result=AgentInfo,
        body=PutAgent,
        errors=(*ENVIRONMENT, e.QuotaReached),
    ),
    Route(
        "DELETE",
        AGENT,
        delete_agent,
        name="deleteAgent",
        event="DeleteAgent",
        summary="Forget an agent; its sessions go on",
        status=204,
        errors=ID,
    ),
)
