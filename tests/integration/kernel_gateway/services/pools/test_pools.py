"""Sandboxes that are ready before their sessions: who gets one, what it is then, and what becomes of the rest."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import threading
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import Conflict, SessionLimit
from kernel_gateway.server import sandboxes
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernels.errors import SandboxFailed
from kernels.guest_client.client import GuestClient
from kernels.oci.cgroups import Cgroups
from kernels.oci.runtime import OciRuntime
from kernels.sandbox import SandboxInfo
from sandcell.models.environments import CreateEnvironment, PoolInfo
from sandcell.models.sessions import Session, StartSession
from tests.integration.kernel_gateway.services.conftest import Gateway, House


def declare(house: House, text: str) -> None:
    Path(house.settings.data_dir, "environments.toml").write_text(text)


async def show_pool(gateway: Gateway) -> PoolInfo:
    found = (await gateway.services.environments.get(gateway.me, "python")).pool
    assert found is not None
    return found


async def until_ready(gateway: Gateway, count: int) -> PoolInfo:
    async def full() -> bool:
        info = (await gateway.services.environments.get(gateway.me, "python")).pool
        return info is not None and (info.ready, info.starting) == (count, 0)

    await gateway.until(full)
    return await show_pool(gateway)


def share_of_processors(gateway: Gateway, sandbox_id: str) -> str:
    """What the control group of a sandbox says, in the words of the version of cgroups that the host has."""
    runtime = gateway.services.runtime
    assert isinstance(runtime, OciRuntime)
    return read_share(runtime.cgroups, sandbox_id)


def read_share(groups: Cgroups, sandbox_id: str) -> str:
    name = "cpu.weight" if groups.unified else "cpu.shares"
    found = [each.mount / "x" for each in groups.hierarchies if groups.unified or "cpu" in each.controllers]
    places = [path for top in found for path in top.parent.rglob(f"{sandbox_id}/{name}")]
    return places[0].read_text().strip()


async def find_spares(gateway: Gateway) -> set[str]:
    return {info.sandbox_id for info in await gateway.services.runtime.list()} - {
        live.id for live in gateway.services.registry
    }


def first_process(house: House, sandbox_id: str) -> int:
    return int(Path(house.settings.data_dir, "sandboxes", sandbox_id, "bundle", "pid").read_text())


@pytest.mark.sample("pools")
def test_a_sandbox_of_a_pool_is_told_which_environments_have_what_before_it_is_claimed(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[GuestClient] = []
    put = GuestClient.put_packages

    async def count(guest: GuestClient, elsewhere: Mapping[str, str]) -> None:
        await put(guest, elsewhere)
        told.append(guest)

    monkeypatch.setattr(GuestClient, "put_packages", count)

    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 1)
            assert len(told) == 1
            session = await gateway.start()
            live = gateway.services.registry.get(session.id)
            assert live is not None
            assert live.sandbox.kernel is not None
            await gateway.services.sessions.restart(gateway.me, session.id)  # its next kernel connects as well
            said = await gateway.text(session, "import os; os.popen('pip download zz 2>&1').read()")
            assert "no environment of this service has it" in said
            assert told.count(live.sandbox.kernel.guest) == 1

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_a_session_gets_a_sandbox_that_was_ready_and_others_start_as_ever(house: House) -> None:
    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway() as gateway:
            info = await until_ready(gateway, 1)
            assert (info.least, info.most, info.target, info.hits, info.misses) == (1, 1, 1, 0, 0)
            assert info.seconds_to_ready is not None
            assert info.memory_bytes > 1_000_000
            (spare,) = await find_spares(gateway)
            lowest = share_of_processors(gateway, spare)
            await gateway.services.upkeep.sweep()  # it is nobody's, and stays

            session = await gateway.start(name="mine")
            assert session.id == spare, "the session has the id of the sandbox that it got"
            assert await gateway.text(session, "import os; os.listdir('/workspace')") == "[]"
            await gateway.run(session, "x = 1; open('f', 'w').write('kept')")
            assert (await gateway.show(session)).generation == 1
            assert int(lowest) < int(share_of_processors(gateway, spare)), "it competes like any other session's"
            assert (await until_ready(gateway, 1)).hits == 1, "filled again behind the claim"

            made = await gateway.services.environments.create(gateway.me, CreateEnvironment("mine", memory_mb=1800))
            assert made.pool is None
            await gateway.start(environment=made.id)
            assert (await show_pool(gateway)).hits == 1, "another memory: not from the pool"

            await gateway.services.sessions.stop(gateway.me, session.id)
            with hold_reads(gateway):
                again = await gateway.start(workspace_id=session.workspace_id)
                assert (await gateway.show(again)).sync.restoring is not None
                assert int(lowest) < int(share_of_processors(gateway, again.id)), "its own from the claim on"
            assert await gateway.text(again, "open('f').read(), 'x' in globals()") == "('kept', False)"
            assert (await show_pool(gateway)).hits == 2, "a workspace is restored into one of the pool"

            await until_ready(gateway, 1)
            (spare,) = await find_spares(gateway)
            await gateway.services.pools.relieve(lambda: False)
            assert spare not in await find_spares(gateway), "where memory is short it goes before any session suffers"

    asyncio.run(test())


@contextlib.contextmanager
def hold_reads(gateway: Gateway) -> Iterator[None]:
    """Within this no file of a workspace comes from the store."""
    go_on = threading.Event()

    def wait(name: str) -> None:
        if not name.endswith("manifest.json"):  # which is read before the session starts
            go_on.wait(120)

    gateway.store.before_get = wait
    try:
        yield
    finally:
        gateway.store.before_get = lambda _: None
        go_on.set()


@pytest.mark.sample("pools")
def test_a_session_with_an_id_of_its_own_keeps_the_sandbox_that_it_got(house: House) -> None:
    """Through a restart of the service, the death of that sandbox, and its end."""

    async def test() -> None:
        declare(house, "[python]\nwarm = 1\nnetwork = 'PUBLIC'\n")
        given = str(uuid.uuid4())
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            await until_ready(gateway, 1)
            (spare,) = await find_spares(gateway)
            session = await gateway.services.sessions.start(gateway.me, StartSession(), given)
            assert (session.id, session.workspace_id) == (given, given)
            assert (await show_pool(gateway)).hits == 1
            await gateway.run(session, "kept = 41; open('f', 'w').write('kept')")
            await gateway.services.upkeep.sweep()  # it is the session's, and stays
            with pytest.raises(Conflict):
                await gateway.services.sessions.start(gateway.me, StartSession(), given)
        async with house.gateway() as gateway:
            await gateway.services.upkeep.sweep()
            assert (await gateway.show(session)).generation == 1
            assert await gateway.text(session, "kept + 1") == "42"
            os.kill(first_process(house, spare), signal.SIGKILL)
            await gateway.until(lambda: has_lost_its_sandbox(gateway, session))
            assert await gateway.text(session, "open('f').read(), 'kept' in globals()") == "('kept', False)"
            assert spare in {info.sandbox_id for info in await gateway.services.runtime.list()}
            await gateway.services.sessions.stop(gateway.me, given)
            while spare in gateway.services.dead_sandboxes:
                await gateway.services.dead_sandboxes.wait_for_one()
            assert spare not in {info.sandbox_id for info in await gateway.services.runtime.list()}

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_a_hibernated_session_wakes_in_a_sandbox_of_the_pool(house: House) -> None:
    """And goes on in it: through a restart of the service, the death of its kernel, and another hibernation."""

    async def test() -> None:
        declare(house, "[python]\nwarm = 1\nnetwork = 'PUBLIC'\n")
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            services, me = gateway.services, gateway.me
            await until_ready(gateway, 1)
            session = await gateway.start()
            await gateway.run(session, "import numpy; x = numpy.arange(1_000_000); open('f', 'w').write('kept')")
            await services.hibernation.hibernate(me, session.id)
            await until_ready(gateway, 1)
            (spare,) = await find_spares(gateway)
            code = "int(x[-1]), open('f').read()"
            woken = await gateway.run(session, code)
            assert (woken.generation, woken.outputs[-1]["data"]["text/plain"]) == (2, "(999999, 'kept')")
            assert (await show_pool(gateway)).hits == 2
            live = services.registry.get(session.id)
            assert live is not None
            assert (live.sandbox.id, live.sandbox.generation) == (spare, 2)
            await services.upkeep.sweep()  # it is the session's, and stays
        async with house.gateway() as gateway:
            services, me = gateway.services, gateway.me
            assert await gateway.text(session, code) == "(999999, 'kept')"
            assert (await gateway.show(session)).generation == 2, "as the guest counts it too"
            assert (await gateway.run(session, "import os; os._exit(1)")).status == "died"
            blank = "'x' in globals(), open('f').read()"
            assert await gateway.text(session, blank) == "(False, 'kept')", "nothing is kept but over a hibernation"
            assert (await gateway.show(session)).generation == 3
            await gateway.run(session, "x = 7")
            await services.hibernation.hibernate(me, session.id)
            await until_ready(gateway, 1)
            (other,) = await find_spares(gateway)
            os.kill(first_process(house, other), signal.SIGKILL)  # it wakes in this one or in one of its own
            assert await gateway.text(session, "x") == "7"
            assert (await gateway.show(session)).generation == 4

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_a_start_that_is_refused_takes_nothing_and_one_that_finds_its_sandbox_dead_makes_another(house: House) -> None:
    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway(sessions_per_principal=1) as gateway:
            await until_ready(gateway, 1)
            (spare,) = await find_spares(gateway)
            runtime = gateway.services.runtime
            reserve = gateway.services.pools.reserve

            python = await gateway.services.environments.find("", "python")
            reserved = reserve(python, has_files=False)
            assert reserved is not None
            os.kill(first_process(house, spare), signal.SIGKILL)

            async def dead() -> bool:
                return not reserved.usable

            await gateway.until(dead)
            gateway.services.pools.reserve = lambda *_, **__: reserved  # type: ignore[method-assign]
            session = await gateway.start()
            gateway.services.pools.reserve = reserve  # type: ignore[method-assign]
            assert session.id == spare
            assert await gateway.text(session, "6 * 7") == "42"

            await until_ready(gateway, 1)
            before = await find_spares(gateway)
            with pytest.raises(SessionLimit):
                await gateway.start()
            assert await find_spares(gateway) == before, "a refused start uses nothing up"
            assert (await show_pool(gateway)).ready == 1

            (spare,) = before
            os.kill(first_process(house, spare), signal.SIGKILL)

            async def gone() -> bool:
                return spare not in {info.sandbox_id for info in await runtime.list()}

            await gateway.until(gone)  # one that dies in the pool is removed, and another takes its place
            await until_ready(gateway, 1)

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_a_claim_that_dies_half_way_leaves_a_session_that_started_all_the_same(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sandbox is killed when the session has begun to use it."""
    killed: list[str] = []

    def kill_once(mirrors: Mirrors, info: SandboxInfo, *arguments: Any) -> Any:
        if not killed:
            killed.append(info.sandbox_id)
            os.kill(first_process(house, info.sandbox_id), signal.SIGKILL)
            raise SandboxFailed("the sandbox broke while it was handed over")
        return make(mirrors, info, *arguments)

    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 1)
            with monkeypatch.context() as patches:
                patches.setattr(Mirrors, "mirror", kill_once)
                session = await gateway.start()
            assert killed == [session.id]
            assert await gateway.text(session, "6 * 7") == "42"

    make = Mirrors.mirror
    asyncio.run(test())


@pytest.mark.sample("pools")
@pytest.mark.long
def test_no_session_gets_a_sandbox_of_an_image_that_was_built_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = f"sha256:{'0' * 64}"

    async def digests(gateway: Gateway) -> dict[str, str]:
        return {each.sandbox_id: each.environment_digest for each in await gateway.services.runtime.list()}

    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 1)
            (spare,) = await find_spares(gateway)
            python = await gateway.services.environments.find("", "python")
            assert (await digests(gateway))[spare] == python.digest
            rebuilt = {"python": dataclasses.replace(python, digest=newer)}
            monkeypatch.setattr(sandboxes, "find_installed", lambda _: rebuilt)
            session = await gateway.start()
            assert session.id != spare
            assert (await digests(gateway))[session.id] == newer

            async def drained() -> bool:
                return spare not in await digests(gateway)

            await gateway.until(drained)
            await until_ready(gateway, 1)
            assert set((await digests(gateway)).values()) == {newer}
            before = (await show_pool(gateway)).hits
            await gateway.start()
            assert (await show_pool(gateway)).hits == before + 1

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_a_pool_follows_its_environment_and_the_demand(house: House) -> None:
    async def test() -> None:
        declare(house, "[python]\nwarm = {most = 2}\n")
        async with house.gateway(pool_starts_at_once=2, live_sessions=4, sessions_per_principal=4) as gateway:
            info = await until_ready(gateway, 0)
            assert (info.target, info.most) == (0, 2), "nobody has asked for any"
            stranger = dataclasses.replace(gateway.me, admin=False)
            assert (await gateway.services.environments.get(stranger, "python")).pool is None
            await gateway.start()
            await until_ready(gateway, 1)
            await gateway.start()
            info = await until_ready(gateway, 2)
            assert (info.hits, info.misses) == (1, 1)
            before = await find_spares(gateway)

            declare(house, "[python]\nwarm = {most = 2}\nmemory_mb = 1800\n")
            session = await gateway.start()  # at once: no session gets a sandbox of the former environment
            assert session.id not in before
            assert (await gateway.show(session)).usage.memory_limit_bytes == 1800 << 20

            async def drained() -> bool:
                return not before & await find_spares(gateway)

            await gateway.until(drained)
            info = await until_ready(gateway, 1)
            assert info.target == 2, "with three sessions there is room for one more sandbox"

            gateway.clock.advance(gateway.services.settings.pool_window_seconds)
            await until_ready(gateway, 0)
            await gateway.until(lambda: has_no_spares(gateway))

    asyncio.run(test())


async def has_lost_its_sandbox(gateway: Gateway, session: Session) -> bool:
    await gateway.services.upkeep.sweep()
    return (await gateway.show(session)).memory is None


async def has_no_spares(gateway: Gateway) -> bool:
    return not await find_spares(gateway)
