"""Sessions that come together: what each asks of the launcher, who goes first, and when the pool is filled again."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from kernel_gateway.services.pools import pools
from kernels.oci.runtime import OciRuntime
from tests.integration.kernel_gateway.services.conftest import House
from tests.integration.kernel_gateway.services.pools.test_pools import declare, show_pool, until_ready

TRACES = """
shell = get_ipython()
seen = [name for name in dir() if name not in ("shell", "seen")]
print(seen, In[:-1], Out, _, __, ___, shell.execution_count, shell.history_manager.input_hist_raw[:-1])
"""
"""What a kernel shows of what was run in it before."""
VERBS = ("create", "claim", "mark_workspace_ready", "usage", "watch_memory", "dial", "running")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What the runtime was asked for, by its verbs."""
    found: Counter[str] = Counter()

    def count(verb: str) -> None:
        method = getattr(OciRuntime, verb)

        async def call(runtime: OciRuntime, *arguments: Any, **named: Any) -> Any:
            found[verb] += 1
            return await method(runtime, *arguments, **named)

        monkeypatch.setattr(OciRuntime, verb, call)

    for each in VERBS:
        count(each)
    return found


@pytest.mark.sample("pools")
def test_a_session_and_its_first_result_take_one_request_to_the_launcher(house: House, asked: Counter[str]) -> None:
    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 1)
            asked.clear()
            session = await gateway.start()
            assert session.usage.memory_limit_bytes > 0, "what it uses is known"
            assert session.usage.pids > 1
            assert await gateway.text(session, "6 * 7") == "42"
            assert asked.pop("claim") == 1
            runtime = gateway.services.runtime
            assert isinstance(runtime, OciRuntime)
            if not runtime.cgroups.unified:  # whose memory has to be asked for while code runs
                assert not asked
            (info,) = [each for each in await runtime.list() if each.sandbox_id == session.id]
            assert info.workspace_ready

            await until_ready(gateway, 1)
            await gateway.run(session, "open('f', 'w').write('kept')")
            await gateway.services.sessions.stop(gateway.me, session.id)
            asked.clear()
            again = await gateway.start(workspace_id=session.workspace_id)
            assert await gateway.text(again, "open('f').read()") == "'kept'"
            assert (asked["claim"], asked["mark_workspace_ready"]) == (1, 1), "ready only once its files are there"

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_what_a_pool_has_run_in_a_kernel_leaves_no_trace(house: House) -> None:
    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n\n[other]\nimage = 'python'\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 1)
            warm, cold = await gateway.start(), await gateway.start(environment="other")
            assert (await show_pool(gateway)).hits == 1
            shown = [(await gateway.run(each, TRACES)).stdout for each in (warm, cold)]
            assert shown[0] == shown[1]
            assert shown[0].startswith("['In', 'Out'"), shown

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_who_is_served_first_is_served_to_the_end(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "CLAIMS_AT_ONCE", 1)
    go_on, claimed, claim = asyncio.Event(), list[str](), OciRuntime.claim

    async def hold(runtime: OciRuntime, sandbox_id: str, **named: Any) -> Any:
        claimed.append(sandbox_id)
        await go_on.wait()
        return await claim(runtime, sandbox_id, **named)

    async def test() -> None:
        declare(house, "[python]\nwarm = 2\n\n[other]\nimage = 'python'\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 2)
            monkeypatch.setattr(OciRuntime, "claim", hold)
            first, second = (asyncio.create_task(gateway.start()) for _ in range(2))
            await gateway.start(environment="other")
            assert len(claimed) == 1
            assert (await show_pool(gateway)).hits == 1, "nothing is taken for who waits for a turn"
            given_up = asyncio.create_task(gateway.start())
            await asyncio.sleep(0)
            given_up.cancel()
            go_on.set()
            assert {(await first).id, (await second).id} == set(claimed)
            await asyncio.wait({given_up})
            assert given_up.cancelled()
            assert (await show_pool(gateway)).hits == 2

    asyncio.run(test())


@pytest.mark.sample("pools")
def test_a_pool_is_filled_again_after_the_sessions_that_come_together(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "LONGEST_REST_SECONDS", 3600.0)

    async def test() -> None:
        declare(house, "[python]\nwarm = 1\n")
        async with house.gateway() as gateway:
            await until_ready(gateway, 1)
            monkeypatch.setattr(pools, "REST_SECONDS", 3600.0)
            await gateway.start()
            gateway.services.pools._changed.set()
            await asyncio.sleep(5 * pools.PAUSE_SECONDS)
            info = await show_pool(gateway)
            assert (info.ready, info.starting) == (0, 0), "more may come"
            monkeypatch.setattr(pools, "LONGEST_REST_SECONDS", 0.0)
            gateway.services.pools._changed.set()
            await until_ready(gateway, 1)

    asyncio.run(test())
