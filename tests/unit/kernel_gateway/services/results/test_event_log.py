"""The log of an execution: order, bounds, followers fast and slow."""

from __future__ import annotations

import asyncio

import pytest

from kernel_gateway.services.results.event_log import EventLog
from sandcell.models.executions import Event


async def read(log: EventLog, after: int = 0) -> list[Event]:
    async with asyncio.timeout(120):
        return [event async for event in log.follow(after)]


def filled(count: int, limit_bytes: int = 1_000_000) -> EventLog:
    log = EventLog(limit_bytes)
    for number in range(count):
        log.append("stream", {"text": f"{number:04}"})
    return log


async def follow_live() -> None:
    log = filled(2)
    follower = asyncio.create_task(read(log))
    late = asyncio.create_task(read(log, 3))
    await asyncio.sleep(0)
    log.append("stream", {"text": "live"})
    log.append("ended", {})
    log.close()
    log.append("stream", {"text": "too late"})
    assert [event.sequence for event in await follower] == [1, 2, 3, 4]
    # Someone who claims to have seen more than there is starts at the end.
    assert [event.event for event in await late] == ["stream", "ended"]


def test_followers_get_what_is_there_and_what_comes() -> None:
    asyncio.run(follow_live())


@pytest.mark.parametrize("after", [0, 1, 50])
def test_a_log_is_bounded_and_says_what_it_dropped(after: int) -> None:
    log = filled(100, limit_bytes=1_000)
    log.close()
    events = asyncio.run(read(log, after))
    assert log.size_bytes <= 1_000
    assert events[0].event == "truncated"
    assert events[0].data["dropped_from"] == after + 1
    assert events[1].sequence == events[0].sequence + 1
    assert events[-1].sequence == 100


async def fall_behind() -> None:
    log = filled(3, limit_bytes=900)
    follower = log.follow(0)
    assert (await anext(follower)).sequence == 1
    for _ in range(100):
        log.append("stream", {"text": "flood"})
    log.close()
    rest = [event async for event in follower]
    assert rest[0].event == "truncated"
    assert rest[0].data["dropped_from"] == 2
    assert rest[-1].sequence == 103


def test_a_slow_follower_is_told_what_it_missed() -> None:
    asyncio.run(fall_behind())


def test_one_event_larger_than_the_bound_is_kept() -> None:
    log = EventLog(10)
    log.append("display", {"data": "x" * 1000})
    log.close()
    assert len(asyncio.run(read(log))) == 1


@pytest.mark.parametrize("after", [7, 999, 5_000])
def test_an_id_of_another_process_is_answered_with_what_is_missing(after: int) -> None:
    """Of an earlier one, and of one whose clock was ahead."""
    log = EventLog(1_000_000, base=1_000)
    log.append("execution", {"n": 1})
    log.append("execution", {"n": 2})
    log.close()
    events = asyncio.run(read(log, after))
    assert [each.event for each in events] == ["truncated", "execution", "execution"]
    assert [each.sequence for each in events] == [1_000, 1_001, 1_002]


def test_a_log_with_a_base_is_read_from_its_start_and_from_its_ids() -> None:
    log = EventLog(1_000_000, base=1_000)
    log.append("execution", {"n": 1})
    log.append("execution", {"n": 2})
    log.close()
    assert [each.sequence for each in asyncio.run(read(log))] == [1_001, 1_002]
    assert [each.sequence for each in asyncio.run(read(log, 1_001))] == [1_002]
    assert asyncio.run(read(log, 1_002)) == []


async def come_back_with_a_number_that_is_never_reached() -> None:
    log = filled(3)
    log.is_rebuilt = True
    waiting = asyncio.create_task(read(log, 60))
    await asyncio.sleep(0)
    log.append("ended", {})
    log.close()
    log.append_late({"event": "stream", "data": {"text": "late"}})
    for events in (await waiting, await read(log, 60)):
        assert [(event.sequence, event.event) for event in events] == [(3, "truncated"), (4, "ended"), (5, "late")]


def test_a_follower_ahead_of_a_log_that_was_built_again_hears_how_it_ended() -> None:
    asyncio.run(come_back_with_a_number_that_is_never_reached())
