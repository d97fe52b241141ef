"""A session's end is answered when nothing of it runs and its files are stored; its sandbox is removed after that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kernel_gateway import errors
from kernels.errors import SandboxFailed
from kernels.oci.runtime import OciRuntime
from tests.conftest import MakeService
from tests.integration.kernel_gateway.services.conftest import Gateway, House

GUARD_SECONDS = 50.0
"""Less than a start may wait for a place."""
LOOP = (
    "import threading\ndef run():\n    while True: open('ticks', 'a').write('x')\nthreading.Thread(target=run).start()"
)


class HeldRemovals:
    """Removals of sandboxes that do not go on until `go_on` is set: an outage of the host's mounts, say."""

    def __init__(self, gateway: Gateway) -> None:
        self.go_on = asyncio.Event()
        self.failures = 0
        runtime = gateway.services.runtime
        assert isinstance(runtime, OciRuntime)
        self._destroy = runtime.destroy
        runtime.destroy = self._hold  # type: ignore[method-assign]

    async def _hold(self, sandbox_id: str) -> None:
        await self.go_on.wait()
        if self.failures:
            self.failures -= 1
            raise SandboxFailed("what the sandbox wrote to cannot be unmounted")
        await self._destroy(sandbox_id)


@asynccontextmanager
async def held(house: House, **settings: int) -> AsyncIterator[tuple[Gateway, HeldRemovals]]:
    async with house.gateway(**settings) as gateway:
        removals = HeldRemovals(gateway)
        try:
            yield gateway, removals
        finally:
            removals.go_on.set()


async def stop_before_removal(house: House) -> None:
    async with held(house) as (gateway, removals):
        services, me = gateway.services, gateway.me
        session = await gateway.start()
        await gateway.run(session, "open('kept', 'w').write('all')")
        await gateway.run(session, LOOP)
        ended = await services.sessions.stop(me, session.id)
        assert ended.status == "TERMINATED"
        assert ended.usage.pids > 1, "as of the moment before its end"
        assert session.id in services.dead_sandboxes
        async with asyncio.timeout(120):
            while await services.runtime.running(session.id):
                await asyncio.sleep(0.01)
        with pytest.raises(errors.SessionTerminated):
            await gateway.run(session, "1")
        # What was stored is what there is: nothing was written after it was read.
        stored = {
            each.path: each.size for each in (await services.workspaces.list_files(me, session.workspace_id)).items
        }
        left = {path.name: path.stat().st_size for path in view_of(gateway, session.id).iterdir()}
        assert stored == left
        assert stored["ticks"] > 0
        await services.upkeep.sweep()
        assert session.id in services.dead_sandboxes, "the sweep leaves it to its owner"
        again = await gateway.start(workspace_id=session.workspace_id)
        assert await gateway.text(again, "open('kept').read()") == "'all'"
        removals.go_on.set()
        await gateway.until(lambda: gone(gateway, session.id))


def view_of(gateway: Gateway, sandbox_id: str) -> Path:
    runtime = gateway.services.runtime
    assert isinstance(runtime, OciRuntime)
    return runtime.places.of(sandbox_id).view


async def gone(gateway: Gateway, sandbox_id: str) -> bool:
    here = {info.sandbox_id for info in await gateway.services.runtime.list()}
    return sandbox_id not in here and sandbox_id not in gateway.services.dead_sandboxes


def test_a_stop_waits_for_the_end_of_code_and_for_the_files_and_for_nothing_else(house: House) -> None:
    asyncio.run(stop_before_removal(house))


async def places_taken(house: House) -> None:
    async with held(house, live_sessions=2, sessions_per_principal=1) as (gateway, removals):
        first = await gateway.start()
        await gateway.services.sessions.stop(gateway.me, first.id)
        second = asyncio.create_task(gateway.start())
        await asyncio.wait([second], timeout=0.5)
        assert not second.done(), "its place is still taken"
        removals.go_on.set()
        live = await second
        assert await gone(gateway, first.id)
        with pytest.raises(errors.SessionLimit):
            await gateway.start()
        assert await gateway.text(live, "1 + 1") == "2"


def test_what_is_left_of_a_session_takes_its_place_until_it_is_removed(house: House) -> None:
    asyncio.run(places_taken(house))


async def failed_removal(house: House) -> None:
    async with held(house, live_sessions=1) as (gateway, removals):
        removals.failures = 1
        removals.go_on.set()
        session = await gateway.start()
        await gateway.services.sessions.stop(gateway.me, session.id)
        await gateway.until(lambda: not_under_way(removals))
        assert session.id in gateway.services.dead_sandboxes
        with pytest.raises(errors.SessionLimit):
            await gateway.start()
        await gateway.services.upkeep.sweep()
        await gateway.until(lambda: gone(gateway, session.id))
        await gateway.start()


async def not_under_way(removals: HeldRemovals) -> bool:
    return not removals.failures


def test_what_could_not_be_removed_counts_until_the_sweep_has_removed_it(house: House) -> None:
    asyncio.run(failed_removal(house))


async def failed_removal_of_one_that_hibernates(house: House) -> None:
    async with held(house, keep_sessions_on_shutdown=1) as (gateway, removals):
        removals.failures = 2  # that of the hibernation itself, and the first one apart
        removals.go_on.set()
        session = await gateway.start()
        await gateway.run(session, "x = 41")
        await gateway.services.hibernation.hibernate(gateway.me, session.id)
        await gateway.until(lambda: not_under_way(removals))
        assert session.id in gateway.services.dead_sandboxes
        assert await gateway.text(session, "x + 1") == "42", "it wakes beside what is left"
        await gateway.services.upkeep.sweep()
        await gateway.until(lambda: gone(gateway, session.id))
        assert await gateway.text(session, "x") == "41"
        (info,) = await gateway.services.runtime.list()
        assert info.sandbox_id != session.id
    async with house.gateway() as gateway:
        assert await gateway.text(session, "x += 1; x") == "42", "its row knows the sandbox"
        assert (await gateway.show(session)).generation == 2


def test_a_hibernated_session_s_sandbox_that_resists_is_removed_by_the_sweep(house: House) -> None:
    asyncio.run(failed_removal_of_one_that_hibernates(house))


async def failed_kill(house: House) -> None:
    async def fail(_sandbox_id: str) -> None:
        raise SandboxFailed("its processes cannot be killed")

    async with house.gateway() as gateway:
        session = await gateway.start()
        await gateway.run(session, "open('kept', 'w').write('all')")
        gateway.services.runtime.kill = fail  # type: ignore[method-assign]
        assert (await gateway.services.sessions.stop(gateway.me, session.id)).status == "TERMINATED"
        assert await gateway.services.runtime.list() == (), "then the answer waits until all of it is gone"
        again = await gateway.start(workspace_id=session.workspace_id)
        assert await gateway.text(again, "open('kept').read()") == "'all'"


def test_a_sandbox_that_cannot_be_killed_is_removed_before_the_answer(house: House) -> None:
    asyncio.run(failed_kill(house))


async def stop_and_close(house: House) -> None:
    async with house.gateway() as gateway:  # it asserts that no sandbox is left when it has closed
        removals = HeldRemovals(gateway)
        session = await gateway.start()
        await gateway.services.sessions.stop(gateway.me, session.id)
        asyncio.get_running_loop().call_later(0.5, removals.go_on.set)


def test_the_end_of_the_service_waits_for_removals(house: House) -> None:
    asyncio.run(stop_and_close(house))


def test_kill_9_between_the_answer_and_the_removal_leaves_nothing(make_service: MakeService) -> None:
    service = make_service()
    with service.client() as client:
        sessions = [client.start_session().id for _ in range(2)]
        for each in sessions:
            assert client.run(each, "open('kept', 'w').write('all')").ok
        for each in sessions:
            assert client.stop_session(each).status == "TERMINATED"
    service.kill()
    service.start()
    assert list((service.data_dir / "sandboxes").iterdir()) == []
    with service.client() as client:
        for each in sessions:
            assert client.get_session(each).status == "TERMINATED"
            again = client.start_session(workspace_id=each)
            assert client.run(again.id, "open('kept').read()").text == "'all'"


async def over_its_quota(house: House) -> None:
    """Nobody's removal would let this start in: it is refused while one hangs, and holds nothing meanwhile."""
    async with held(house, live_sessions=3, sessions_per_principal=2) as (gateway, removals):
        gone_soon = await gateway.start()
        live = await gateway.start()
        await gateway.services.sessions.stop(gateway.me, gone_soon.id)
        waiting = asyncio.create_task(gateway.start())
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done(), "its own removal makes the difference"
        assert [each.id for each in gateway.services.registry] == [live.id], "it holds neither memory nor a sandbox"
        removals.go_on.set()
        await waiting
        removals.go_on.clear()
        gateway.services.dead_sandboxes.remove("of-another", "another principal")
        async with asyncio.timeout(GUARD_SECONDS):
            with pytest.raises(errors.SessionLimit):
                await gateway.start()
        assert "of-another" in gateway.services.dead_sandboxes, "its removal goes on"


def test_a_start_over_its_quota_waits_for_nobody(house: House) -> None:
    asyncio.run(over_its_quota(house))
