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


async def hold_back() -> None:
    log = filled(1)
    shown: list[int] = []

    async def read_along() -> None:
        async for event in log.follow(0):
            shown.append(event.sequence)

    reading = asyncio.create_task(read_along())
    number = log.hold("memory", {"level": "warning"})
    log.append("stream", {"text": "more"})
    log.append("ended", {})
    log.close()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (shown, reading.done()) == ([1], False), "nothing is shown that may have another number after a restart"
    log.show(number)
    await reading
    assert shown == [1, 2, 3, 4]
    assert log.hold("memory", {}) == 0, "it is closed"


def test_an_event_that_is_not_durable_holds_back_all_that_follow_it() -> None:
    asyncio.run(hold_back())


def test_events_that_an_earlier_process_has_shown_come_again_under_their_numbers() -> None:
    log = EventLog(1_000_000)
    log.expect([Event(each, "memory", {"n": each}) for each in (3, 4, 6)])
    for text in "abc":
        log.append("stream", {"text": text})
    log.append("ended", {})
    log.close()
    events = asyncio.run(read(log))
    assert [(each.sequence, each.event) for each in events] == [
        (1, "stream"), (2, "stream"), (3, "memory"), (4, "memory"), (5, "stream"), (6, "memory"), (7, "ended"),
    ]  # fmt: skip
