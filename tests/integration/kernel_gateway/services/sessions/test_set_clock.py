"""The host's clock is set while sessions live: idle time and times-to-live are time that passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from tests.integration.kernel_gateway.services.conftest import Gateway

OnGateway = Callable[[Callable[[Gateway], Awaitable[None]]], None]


async def set_clock(gateway: Gateway) -> None:
    """An hour forward, then a day back: neither ends a session, and both leave it the time that it had."""
    session = await gateway.start(idle_timeout_seconds=100, timeout_seconds=1_000)
    await gateway.run(session, "x = 1")
    for step in (3_600, -86_400):
        before = gateway.clock.now()
        gateway.clock.step(step)
        await gateway.services.upkeep.sweep()
        shown = await gateway.show(session)
        assert shown.status == "READY"
        left = datetime.fromisoformat(shown.idle_expires_at).timestamp() - gateway.clock.now()
        assert 99 < left <= 100
        assert datetime.fromisoformat(shown.expires_at).timestamp() - before - step > 990
    gateway.clock.step(3_600)
    assert await gateway.text(session, "x") == "1"  # work comes before the sweep sees it
    gateway.clock.advance(60)
    await gateway.services.upkeep.sweep()
    assert (await gateway.show(session)).status == "READY"
    gateway.clock.advance(41)
    ended = await gateway.ended(session)
    assert ended.ended is not None
    assert ended.ended.reason == "idle_timeout", "real time passes as before"


def test_what_the_clock_is_set_to_is_no_time_that_passes(on_gateway: OnGateway) -> None:
    on_gateway(set_clock)
