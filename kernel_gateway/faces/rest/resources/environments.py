"""Endpoints of environments and of agents."""

from __future__ import annotations

from kernel_gateway.faces.rest.calls import Call
from sandcell.models.environments import AgentInfo, Dependents, Moved
from sandcell.models.shapes import EnvironmentInfo, Page


async def create(call: Call) -> EnvironmentInfo:
    return await call.services.environments.create(call.principal, call.body)


async def index(call: Call) -> Page[EnvironmentInfo]:
    query = call.query
    return await call.services.environments.list(call.principal, query.limit, query.cursor, query.kind)


async def show(call: Call) -> EnvironmentInfo:
    return await call.services.environments.get(call.principal, call.ids["environment_id"])


async def delete(call: Call) -> EnvironmentInfo:
    return await call.services.environments.delete(call.principal, call.ids["environment_id"])


async def change_tags(call: Call) -> EnvironmentInfo:
    return await call.services.environments.change_tags(call.principal, call.ids["environment_id"], call.body)


async def dependents(call: Call) -> Dependents:
    return await call.services.agents.dependents(call.principal, call.ids["environment_id"])


async def detach(call: Call) -> Moved:
    return await call.services.agents.detach(call.principal, call.ids["environment_id"])


async def attach(call: Call) -> Moved:
    return await call.services.agents.attach(call.principal, call.ids["environment_id"], call.body)


async def put_agent(call: Call) -> AgentInfo:
    return await call.services.agents.put(call.principal, call.ids["agent_id"], call.body)


async def agents(call: Call) -> Page[AgentInfo]:
    return await call.services.agents.list(call.principal, call.query.limit, call.query.cursor)


async def show_agent(call: Call) -> AgentInfo:
    return await call.services.agents.get(call.principal, call.ids["agent_id"])


async def delete_agent(call: Call) -> None:
    await call.services.agents.delete(call.principal, call.ids["agent_id"])
