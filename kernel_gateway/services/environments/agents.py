"""Agents, the named users of an environment: who they are, who needs what, and what a session of theirs starts from."""

from __future__ import annotations

import dataclasses
import re
import uuid

import msgspec
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway.environments_file import NAME as ENVIRONMENT_NAME
from kernel_gateway.errors import (
    AgentDetached,
    Conflict,
    InvalidRequest,
    NotFound,
    QuotaReached,
    UnknownEnvironment,
)
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import Clock, rfc3339
from kernel_gateway.services.environments import custom
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.settings import Settings
from kernel_gateway.storage import agents, environments
from kernel_gateway.storage.agents import AgentRow
from kernel_gateway.storage.database import Database
from kernels.environment import Environment
from sandcell.models.environments import AgentInfo, AttachAgents, Dependents, Moved, PutAgent
from sandcell.models.model import Page

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
DEFAULT_ENVIRONMENT = "python"


class Chosen(msgspec.Struct, frozen=True):
    """What a session is about to start from, and for which registered agent, if for one."""

    principal_id: str
    environment: Environment
    made: bool
    agent: str | None

    def require(self, connection: Connection) -> None:
        """Called in the transaction that stores the session: it is still so, and stays so until the end.

        Raises UnknownEnvironment, AgentDetached.
        """
        if self.made:
            environments.require(connection, self.principal_id, self.environment.name)
        if self.agent is not None:
            row = agents.find(connection, self.principal_id, self.agent, lock=True)
            if row is not None and row.environment is None:
                raise _without(row)


class Agents:
    """The verbs on a principal's agents; another principal's are not found."""

    def __init__(self, environments: Environments, database: Database, clock: Clock, settings: Settings) -> None:
        self._environments = environments
        self._database = database
        self._clock = clock
        self._settings = settings

    async def choose(self, principal: Principal, environment: str | None, agent: str | None) -> Chosen:
        """What a session starts from: the environment that is asked for, else the agent's, else `python`.

        An agent that is not registered is a label and no more. Raises UnknownEnvironment, EnvironmentUnavailable, and
        AgentDetached: a registered agent without an environment starts nothing, whatever is asked for.
        """
        row = None
        if agent is not None and NAME.fullmatch(agent):
            row = await self._database.run(lambda c: agents.find(c, principal.id, agent))
        if row is None:
            found = await self._environments.find(principal.id, environment or DEFAULT_ENVIRONMENT)
        elif row.environment is None:
            raise _without(row)
        elif environment is None:
            found = await self._environments.exactly(principal.id, row.environment)
        else:
            found = await self._environments.find(principal.id, environment)
        return Chosen(principal.id, found, self._environments.is_made(found.name), None if row is None else row.name)

    async def put(self, principal: Principal, name: str, body: PutAgent) -> AgentInfo:
        """Register an agent, or replace what is said of it; raises UnknownEnvironment, InvalidRequest, QuotaReached."""
        if not NAME.fullmatch(name):
            raise InvalidRequest("an agent's name is 1 to 100 letters, digits and . _ @ -, a letter or digit first")
        description, environment, now = custom.check_description(body.description), None, self._clock.now()
        if body.environment is not None:
            environment = await self._environments.reference(principal, body.environment)

        def put(connection: Connection) -> AgentRow:
            if environment is not None:
                self._require(connection, principal, environment)
            row = agents.find(connection, principal.id, name, lock=True)
            if row is None:
                row = AgentRow(str(uuid.uuid4()), principal.id, name, description, environment, None, now, now)
                self._add(connection, row)
                return row
            was = None if environment is not None else row.environment or row.detached_from
            row = dataclasses.replace(
                row, description=description, environment=environment, detached_from=was, updated=now
            )
            agents.replace(connection, row)
            return row

        try:
            return _info(await self._database.run(put))
        except IntegrityError:
            raise Conflict(f"the agent {name!r} was registered by another request just now: try again") from None

    async def get(self, principal: Principal, name: str) -> AgentInfo:
        return _info(await self._database.run(lambda c: _existing(c, principal, name)))

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[AgentInfo]:
        """The principal's agents, oldest first."""
        rows, following = await self._database.run(lambda c: agents.list_of(c, principal.id, limit, cursor))
        return Page([_info(row) for row in rows], following)

    async def delete(self, principal: Principal, name: str) -> None:
        """Forget an agent; its sessions go on."""
        await self._database.run(lambda c: agents.remove(c, _existing(c, principal, name).id))

    async def dependents(self, principal: Principal, environment: str) -> Dependents:
        """The principal's agents and live sessions that need an environment; raises UnknownEnvironment."""
        reference = await self._reference(principal, environment)

        def read(connection: Connection) -> Dependents:
            attached = agents.find_attached(connection, principal.id, reference)
            detached = agents.find_detached(connection, principal.id, reference)
            live = agents.live_sessions(connection, principal.id, reference)
            return Dependents(
                environment=reference,
                agents=[*attached.names],
                sessions=[*live.names],
                detached_agents=[*detached.names],
                agent_count=attached.count,
                session_count=live.count,
                detached_count=detached.count,
            )

        return await self._database.run(read)

    async def detach(self, principal: Principal, environment: str) -> Moved:
        """Detach every agent of the principal from an environment, all at once; their live sessions go on."""
        reference, now = await self._reference(principal, environment), self._clock.now()
        moved = await self._database.run(lambda c: agents.detach_all(c, principal.id, reference, now))
        return Moved(reference, [*moved.names], moved.count)

    async def attach(self, principal: Principal, environment: str, body: AttachAgents) -> Moved:
        """Attach every agent that was detached from this environment, or from another that is named, all at once."""
        reference, now = await self._environments.reference(principal, environment), self._clock.now()
        was = reference if body.detached_from is None else await self._former(principal, body.detached_from)

        def attach(connection: Connection) -> agents.Needs:
            self._require(connection, principal, reference)
            return agents.attach_all(connection, principal.id, reference, was, now)

        moved = await self._database.run(attach)
        return Moved(reference, [*moved.names], moved.count)

    async def _reference(self, principal: Principal, name: str) -> str:
        """The id of an environment, also of a host's that is gone while agents or sessions still name it."""
        try:
            return await self._environments.reference(principal, name)
        except UnknownEnvironment:
            if not await self._database.run(lambda c: agents.is_named(c, principal.id, name)):
                raise
            return name

    async def _former(self, principal: Principal, name: str) -> str:
        """The id of an environment that may be deleted by now; raises UnknownEnvironment for what can be no name."""
        try:
            return await self._environments.reference(principal, name)
        except UnknownEnvironment:
            if not ENVIRONMENT_NAME.fullmatch(name):
                raise
            return name

    def _require(self, connection: Connection, principal: Principal, reference: str) -> None:
        """A made environment is still there, and stays until the transaction's end; raises UnknownEnvironment."""
        if self._environments.is_made(reference):
            environments.require(connection, principal.id, reference)

    def _add(self, connection: Connection, row: AgentRow) -> None:
        most = self._settings.agents_per_principal
        if agents.count(connection, row.principal_id) >= most:
            raise QuotaReached(f"you have {most:,} agents, which is the most: delete one", quota=most)
        agents.add(connection, row)


def _existing(connection: Connection, principal: Principal, name: str) -> AgentRow:
    row = agents.find(connection, principal.id, name)
    if row is None:
        raise NotFound("there is no such agent")
    return row


def _without(row: AgentRow) -> AgentDetached:
    was = f" (it was detached from {row.detached_from})" if row.detached_from else ""
    return AgentDetached(
        f"the agent {row.name!r} has no environment{was}: attach it to one before it starts sessions",
        agent=row.name,
        detached_from=row.detached_from,
    )


def _info(row: AgentRow) -> AgentInfo:
    return AgentInfo(
        name=row.name,
        description=row.description,
        environment=row.environment,
        detached_from=row.detached_from,
        created_at=rfc3339(row.created),
        updated_at=rfc3339(row.updated),
    )
