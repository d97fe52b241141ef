"""The host's clock is set while sessions live: idle time and times-to-live are time that passes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import pytest

from kernel_gateway.errors import InvalidRequest
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.storage.sessions import find
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

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
    await gateway.services.upkeep.sweep()
    row = await gateway.services.database.run(lambda c: find(c, session.id))
    assert row is not None
    assert rfc3339(row.expires) == (await gateway.show(session)).expires_at, "a restart begins with it"
    gateway.clock.advance(60)
    await gateway.services.upkeep.sweep()
    assert (await gateway.show(session)).status == "READY"
    gateway.clock.advance(41)
    ended = await gateway.ended(session)
    assert ended.ended is not None
    assert ended.ended.reason == "idle_timeout", "real time passes as before"


def test_what_the_clock_is_set_to_is_no_time_that_passes(on_gateway: OnGateway) -> None:
    on_gateway(set_clock)


async def extend_after_steps(house: House) -> None:
    """Two weeks forward, then back: a session may be extended as far as one that saw no step."""
    async with house.gateway(session_timeout_max_seconds=10_000) as gateway:
        session = await gateway.start(timeout_seconds=1_000)
        for step in (14 * 86_400, -28 * 86_400):
            gateway.clock.step(step)
            await may_be_extended(gateway, session)
            row = await gateway.services.database.run(lambda c: find(c, session.id))
            assert row is not None
            assert abs(row.record.slept_seconds) > 86_400, "a restart goes on counting from there"


async def may_be_extended(gateway: Gateway, session: Session) -> None:
    sessions = gateway.services.sessions
    shown = await sessions.set_lifetime(gateway.me, session.id, 5_000)
    left = datetime.fromisoformat(shown.expires_at).timestamp() - gateway.clock.now()
    assert 4_990 < left <= 5_000
    assert 4_990 < shown.timeout_seconds < 6_000
    gateway.clock.advance(100)
    with pytest.raises(InvalidRequest, match="at most"):
        await sessions.set_lifetime(gateway.me, session.id, 9_990)


def test_a_session_is_extended_whatever_the_clock_was_set_to(house: House) -> None:
    asyncio.run(extend_after_steps(house))
