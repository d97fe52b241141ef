"""A database with two principals, and the services of environments and agents over it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kernel_gateway.environments_file import DeclaredRole
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.environments.agents import Agents
from kernel_gateway.services.environments.environments import Environments
from kernel_gateway.settings import Settings
from kernel_gateway.storage import principals, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import SessionRow
from kernels.environment import Environment, NetworkMode, NetworkPolicy, Resources
from sandcell.models.environments import CreateEnvironment, EnvironmentInfo

T = TypeVar("T")
ANN = Principal("11111111-1111-1111-1111-111111111111", "ann", admin=False)
BEN = Principal("22222222-2222-2222-2222-222222222222", "ben", admin=True)
HOSTS = {
    name: Environment(
        name,
        f"/e/{image}/root",
        "sha256:" + "0" * 64,
        f"the {name}",
        resources=Resources(2048, 512, 256),
        image=image,
        runtime=runtime,
        network=NetworkPolicy(NetworkMode.PUBLIC if name == "web" else NetworkMode.SANDBOX),
    )
    for name, image, runtime in (("python", "python", ""), ("web", "python", "runsc"), ("data", "data", ""))
}


@dataclass
class Desk:
    """The services. `hosts`, `settings` and `roles` are what the operator says; `again` asks by what is said now."""

    database: Database
    hosts: dict[str, Environment] = field(default_factory=lambda: dict(HOSTS))
    settings: Settings = field(default_factory=lambda: Settings(data_dir="/x"))
    roles: Sequence[DeclaredRole] = ()

    def __post_init__(self) -> None:
        clock = SystemClock()
        self.environments = Environments(lambda: self.hosts, self.settings, self.database, clock, self.roles)
        self.agents = Agents(self.environments, self.database, clock, self.settings)

    def again(self, **changes: Any) -> Desk:
        """The services as another start of the gateway has them."""
        return Desk(
            self.database,
            changes.pop("hosts", self.hosts),
            roles=changes.pop("roles", self.roles),
            settings=replace(self.settings, **changes),
        )

    async def make(self, name: str, principal: Principal = ANN, **body: Any) -> EnvironmentInfo:
        return await self.environments.create(principal, CreateEnvironment(name, **body))

    async def live(self, environment: str, session_id: str, principal: Principal = ANN) -> None:
        """A session's row, as its start writes it."""
        row = SessionRow(
            id=session_id,
            principal_id=principal.id,
            workspace_id=session_id,
            name="s",
            environment=environment,
            generation=1,
            created=0,
            last_activity=0,
            expires=1,
            timeout_seconds=1,
            idle_timeout_seconds=1,
            agent=None,
            labels={},
        )

        def add(connection: Any) -> None:
            sessions.add_workspace(connection, session_id, principal.id, 0)
            sessions.add(connection, row)

        await self.database.run(add)

    async def end(self, session_id: str) -> None:
        record = sessions.Record()
        await self.database.run(
            lambda c: sessions.end(c, session_id, reason="stopped", detail="", now=2, record=record)
        )


@pytest.fixture(scope="module")
def with_principals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables and both principals, to be copied: making the tables takes a tenth of a second."""
    path = tmp_path_factory.mktemp("database") / "sandcell.db"

    async def make() -> None:
        async with contextlib.aclosing(Database(f"sqlite:///{path}")) as database:
            await database.open()
            for each in (ANN, BEN):
                await database.run(partial(principals.add, principal=each, now=0))

    asyncio.run(make())
    return path


@pytest.fixture
def at_desk(with_principals: Path, tmp_path: Path) -> Callable[[Callable[[Desk], Awaitable[T]]], T]:
    """Runs a test's coroutine on an open database."""
    path = shutil.copy(with_principals, tmp_path)

    async def run(work: Callable[[Desk], Awaitable[T]]) -> T:
        async with contextlib.aclosing(Database(f"sqlite:///{path}")) as database:
            await database.open()
            return await work(Desk(database))

    return lambda work: asyncio.run(run(work))
