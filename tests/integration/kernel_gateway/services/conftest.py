"""The services of one gateway in this process: real database, real sandboxes, a local store, a clock that is turned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.identity.principal import Principal
from kernel_gateway.server import sandboxes
from kernel_gateway.services.composition import Services
from kernel_gateway.settings import Settings
from sandcell.models.executions import Execution, Submission
from sandcell.models.sessions import Session, StartSession
from tests.doubles.away_store import AwayStore
from tests.doubles.turned_clock import TurnedClock
from tests.shared_guest import share_guest
from workspace_sync import open_store

TOKEN = "the-token-of-the-first-administrator"


@dataclass
class Gateway:
    """One life of a gateway. `me` is the administrator."""

    services: Services
    me: Principal
    clock: TurnedClock
    store: AwayStore

    async def start(self, **body: Any) -> Session:
        return await self.services.sessions.start(self.me, StartSession(**body))

    async def submit(self, session: Session, code: str, key: str | None = None, **body: Any) -> Execution:
        return await self.services.executions.submit(self.me, session.id, Submission(code, **body), key)

    async def run(self, session: Session, code: str, key: str | None = None, **body: Any) -> Execution:
        execution = await self.submit(session, code, key, **body)
        async with asyncio.timeout(120):
            return await self.services.executions.wait(self.me, session.id, execution.id)

    async def text(self, session: Session, code: str) -> str:
        execution = await self.run(session, code)
        assert execution.status == "ok", execution
        return str(execution.outputs[-1]["data"]["text/plain"])

    async def until_running(self, session: Session, execution: Execution) -> None:
        await self.until(lambda: self._status(session, execution, "running"))
        await asyncio.sleep(0.1)

    async def until_generation(self, session: Session, generation: int) -> None:
        async def reached() -> bool:
            return (await self.show(session)).generation == generation

        await self.until(reached)

    async def show(self, session: Session) -> Session:
        return await self.services.sessions.get(self.me, session.id)

    async def ended(self, session: Session) -> Session:
        async def over() -> bool:
            return (await self.show(session)).status == "TERMINATED"

        await self.until(over)
        return await self.show(session)

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(120):
            while not await holds():
                await asyncio.sleep(0.02)

    async def _status(self, session: Session, execution: Execution, status: str) -> bool:
        return (await self.services.executions.get(self.me, session.id, execution.id)).status == status


@dataclass
class House:
    """Opens gateways, one after another, on the same data."""

    settings: Settings

    @asynccontextmanager
    async def gateway(self, **settings: Any) -> AsyncIterator[Gateway]:
        changed = replace(self.settings, **settings)
        clock, store = TurnedClock(), AwayStore(open_store(changed.store_url))
        runtime = sandboxes.make_runtime(changed)
        try:
            services = await Services.open(
                changed, runtime=runtime, store=store, installed=lambda: sandboxes.find_installed(changed), clock=clock
            )
            try:
                yield Gateway(services, (await services.identity.authenticate(TOKEN)).principal, clock, store)
            finally:
                await services.aclose()
            if not changed.keep_sessions_on_shutdown:
                assert await runtime.list() == ()
        finally:
            await runtime.aclose()


def house_in(directory: Path, short_directory: Path, environments_dir: Path) -> House:
    """A house whose data is in that directory, and whose waits are short."""
    return House(
        Settings(
            data_dir=str(share_guest(directory, short_directory)),
            run_dir=str(short_directory / "run"),
            environments_dir=str(environments_dir),
            token=TOKEN,
            interrupt_grace_seconds=3.0,
            flush_deadline_seconds=1.0,
            drain_seconds=1.0,
            keep_variables="off",  # most sessions of tests would be looked at for nothing
            idle_memory_seconds=0,  # a test that adds swap (`swap_file`) must not stop the sessions of others
        )
    )


@pytest.fixture
def house(tmp_path: Path, short_directory: Path, environments_dir: Path) -> House:
    return house_in(tmp_path, short_directory, environments_dir)


Test = Callable[[Gateway], Awaitable[None]]


@pytest.fixture
def on_gateway(house: House) -> Callable[[Test], None]:
    """Runs a coroutine function with one gateway; nothing is left when it has closed."""

    async def run(test: Test) -> None:
        async with house.gateway() as gateway:
            await test(gateway)

    return lambda test: asyncio.run(run(test))
