"""Idle sessions whose memory is in swap: who may stand still, what wakes them, and that nothing of them is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest

from sandcell.models.commands import CommandRequest
from tests.integration.kernel_gateway.services.conftest import Gateway
from tests.swap_file import swap_file

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


@pytest.fixture(scope="module", autouse=True)
def swap() -> Iterator[None]:
    with swap_file():
        yield


async def idle(gateway: Gateway) -> None:
    """Let more time pass than sessions stay resident, and have them looked at."""
    gateway.clock.advance(61)
    await gateway.services.idle_memory.look()


async def one_life(gateway: Gateway) -> None:
    services, me = gateway.services, gateway.me
    session = await gateway.start(timeout_seconds=100_000, idle_timeout_seconds=1_000)
    assert (await gateway.show(session)).memory == "resident"
    await gateway.run(session, "kept = 41")
    await services.idle_memory.look()
    assert (await gateway.show(session)).memory == "resident", "it has not been idle for long enough"

    async def paged_out() -> None:
        async def flushed() -> bool:
            await idle(gateway)
            return (await gateway.show(session)).memory == "paged_out"

        await gateway.until(flushed)

    await paged_out()
    usage = (await gateway.show(session)).usage
    assert usage.memory_bytes < 20_000_000
    assert (await gateway.show(session)).memory == "paged_out", "looking wakes nobody"
    assert await gateway.text(session, "kept + 1") == "42"
    await paged_out()
    await services.files.list(me, session.id)
    assert (await gateway.show(session)).memory == "resident"
    await paged_out()
    command = await services.commands.run(me, session.id, CommandRequest("echo there"))
    assert command.stdout == "there\n"
    await paged_out()
    restarted = await services.sessions.restart(me, session.id)
    assert restarted.generation == 2
    await paged_out()
    ended = await services.sessions.stop(me, session.id)
    assert (ended.status, ended.memory) == ("TERMINATED", None)


def test_a_session_stands_still_when_idle_and_goes_on_at_its_next_use(on_gateway: OnGateway) -> None:
    on_gateway(one_life)
