"""The audit log: what is kept, what is dropped and counted, who reads what, and what time takes away."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from kernel_gateway.errors import DatabaseUnavailable, InvalidRequest
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.audit import log
from kernel_gateway.services.audit import text as audit_text
from kernel_gateway.services.audit.chain import AuditChain
from kernel_gateway.services.audit.file import AuditFile
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.settings import Settings
from kernel_gateway.storage import audit as stored
from kernel_gateway.storage import principals
from kernel_gateway.storage.audit import AuditFilter
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.tables import audit as table
from sandcell.models.audit import AuditRecord
from tests.doubles.turned_clock import TurnedClock

ADMIN, ME, OTHER = (
    Principal("1", "admin", admin=True),
    Principal("2", "me", admin=False),
    Principal("3", "o", admin=False),
)
ALL = AuditFilter()


class Opened:
    """An audit log on a database of its own, without the task that writes."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.database = Database(f"sqlite:///{directory}/sandcell.db")
        self.clock = TurnedClock()
        self.audit = Audit(self.database, self.clock, Settings(data_dir=str(directory), **settings))

    def say(self, target: str, *, allowed: bool = True, whose: Principal = ME, session: str = "s") -> bool:
        return self.audit.record(
            "egress", "connect", allowed=allowed, target=target, principal_id=whose.id, session_id=session
        )

    async def all(self, whose: Principal = ADMIN, wanted: AuditFilter = ALL) -> list[AuditRecord]:
        return (await self.audit.list(whose, wanted, 1000)).items

    async def targets(self, whose: Principal = ADMIN, **wanted: Any) -> list[str]:
        return [each.target for each in await self.all(whose, AuditFilter(**wanted))]


def on(directory: Path, test: Callable[[Opened], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def run() -> None:
        opened = Opened(directory, **settings)
        await opened.database.open()
        try:
            for one in (ADMIN, ME, OTHER):
                await opened.database.run(lambda c, one=one: principals.add(c, one, 0))  # type: ignore[misc]
            await test(opened)
        finally:
            await opened.database.aclose()

    asyncio.run(run())


def test_a_record_comes_back_as_it_was_made(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.audit.record(
            "api",
            "StartSession",
            allowed=False,
            reason="forbidden: no",
            target="/v1/sessions",
            principal_id=ME.id,
            session_id="s",
            detail={"sourceIPAddress": "192.0.2.1", "requestParameters": {"name": "é\udc80"}},
        )
        [found] = await opened.all()
        assert (found.kind, found.event, found.allowed) == ("api", "StartSession", False)
        assert (found.reason, found.target) == ("forbidden: no", "/v1/sessions")
        assert (found.principal, found.session_id) == ("me", "s")
        assert found.detail == {"sourceIPAddress": "192.0.2.1", "requestParameters": {"name": "é?"}}

    on(tmp_path, check)


def test_nobodys_record_is_kept_too(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.audit.record("api", "Unauthorized", allowed=False)
        [found] = await opened.all()
        assert (found.principal, found.session_id) == (None, None)
        assert await opened.all(ME) == []

    on(tmp_path, check)


def test_everybody_reads_their_own_and_an_administrator_all(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.say("mine")
        opened.say("theirs", whose=OTHER, session="t")
        assert await opened.targets(ME) == ["mine"]
        assert await opened.targets(OTHER) == ["theirs"]
        assert await opened.targets(ADMIN) == ["theirs", "mine"]
        assert await opened.targets(ME, session_id="t") == []
        assert await opened.targets(ME, principal_id=OTHER.id) == ["mine"]

    on(tmp_path, check)


def test_filters_and_pages(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        start = opened.clock.now()
        for number in range(5):
            opened.say(f"host-{number}", allowed=number % 2 == 0, session=f"s{number % 2}")
            opened.clock.advance(10)
        assert await opened.targets(allowed=False) == ["host-3", "host-1"]
        assert await opened.targets(session_id="s0", allowed=True) == ["host-4", "host-2", "host-0"]
        assert await opened.targets(kind="api") == []
        assert await opened.targets(since=start + 30, until=start + 40) == ["host-3"]
        pages, cursor = [], None
        while True:
            page = await opened.audit.list(ADMIN, ALL, 2, cursor)
            pages.append([each.target for each in page.items])
            cursor = page.next_cursor
            if cursor is None:
                break
        assert pages == [["host-4", "host-3"], ["host-2", "host-1"], ["host-0"]]
        with pytest.raises(InvalidRequest):
            await opened.audit.list(ADMIN, ALL, 0)

    on(tmp_path, check)


def test_a_flood_of_one_session_is_counted_and_crowds_out_only_itself(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        kept = [opened.say("flood") for _ in range(log.MOST_WAITING_OF_SESSION + 7)]
        assert kept.count(False) == 7
        assert opened.say("quiet", session="t")
        everything = AuditFilter(kind="audit")
        [dropped] = await opened.all(wanted=everything)
        assert (dropped.event, dropped.session_id, dropped.principal) == ("dropped", "s", "me")
        assert (dropped.detail, dropped.allowed) == ({"records": 7, "allowed": True}, False)
        assert await opened.targets(session_id="t") == ["quiet"]
        assert await opened.all(OTHER, everything) == []
        assert opened.say("after"), "there is room again"
        assert len(await opened.all(wanted=everything)) == 1

    on(tmp_path, check)


def test_refusals_are_kept_up_to_a_rate_and_hide_nothing_that_was_allowed(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        for _ in range(log.MOST_REFUSALS_AT_ONCE + 50):
            opened.say("no", allowed=False)
        assert opened.say("yes"), "what was allowed has room of its own"
        assert opened.say("another's", allowed=False, session="t")
        opened.clock.advance(1)
        kept = [opened.say("no", allowed=False) for _ in range(30)]
        assert kept.count(True) == log.REFUSALS_A_SECOND
        [dropped] = await opened.all(wanted=AuditFilter(kind="audit"))
        assert dropped.detail == {"records": 50 + 30 - log.REFUSALS_A_SECOND, "allowed": False}
        assert await opened.targets(allowed=True) == ["yes"]
        assert await opened.targets(session_id="t") == ["another's"]

    on(tmp_path, check)


def test_the_queue_is_bounded_over_all_sessions(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        kept = [opened.say("x", session=f"s{number}") for number in range(log.MOST_WAITING + 5)]
        assert kept.count(True) == log.MOST_WAITING
        await opened.audit.flush()
        count = await opened.database.run(how_many)
        assert count == log.MOST_WAITING + 5  # a record for each of the five sessions whose record was dropped

    on(tmp_path, check)


def test_what_cannot_be_written_now_waits(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.say("first")
        await opened.audit.flush()
        await opened.database.run(lambda c: c.exec_driver_sql("ALTER TABLE audit RENAME TO gone"))
        opened.say("second")
        with pytest.raises(DatabaseUnavailable):
            await opened.audit.flush()
        await opened.database.run(lambda c: c.exec_driver_sql("ALTER TABLE gone RENAME TO audit"))
        assert await opened.targets() == ["second", "first"]

    on(tmp_path, check)


def test_the_writer_writes_by_itself_and_goes_on_after_an_outage(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(log, "RETRY_SECONDS", 0.01)

    async def check(opened: Opened) -> None:
        writer = asyncio.create_task(opened.audit.run())
        await opened.database.run(lambda c: c.exec_driver_sql("ALTER TABLE audit RENAME TO gone"))
        opened.say("kept")
        await asyncio.sleep(0.2)
        await opened.database.run(lambda c: c.exec_driver_sql("ALTER TABLE gone RENAME TO audit"))
        async with asyncio.timeout(60):
            while await opened.database.run(how_many) == 0:
                await asyncio.sleep(0.01)
        writer.cancel()
        await asyncio.wait([writer])

    on(tmp_path, check)


def test_the_writer_counts_what_was_dropped_once_in_a_while(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(log, "COUNT_SECONDS", 0.3)

    async def check(opened: Opened) -> None:
        began = time.monotonic()
        writer = asyncio.create_task(opened.audit.run())
        async with asyncio.timeout(60):
            for _ in range(20):
                for _ in range(log.MOST_REFUSALS_AT_ONCE):
                    opened.say("no", allowed=False)
                await asyncio.sleep(0.02)
            while await opened.database.run(dropped) < 19 * log.MOST_REFUSALS_AT_ONCE:
                await asyncio.sleep(0.02)
        writer.cancel()
        await asyncio.wait([writer])
        counts = await opened.database.run(how_many) - log.MOST_REFUSALS_AT_ONCE
        assert counts <= (time.monotonic() - began) / log.COUNT_SECONDS + 2  # the first, and the one at the end

    def dropped(connection: Connection) -> int:
        rows = stored.list_of(connection, AuditFilter(kind="audit"), 100, None)[0]
        return sum(json.loads(row.detail)["records"] for row in rows)

    on(tmp_path, check)


def test_text_of_any_kind_is_stored(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.say("a\0b\udcffc")
        opened.say("x" * 100_000)
        opened.say("\r\n2026-01-01 allowed\x1b[2J\u202e\x9b é")
        forged, long, odd = await opened.targets()
        assert forged == "\\r\\n2026-01-01 allowed\\x1b[2J\\u202e\\x9b é"
        assert odd == "a\\x00b\\udcffc"
        assert len(long) < audit_text.LONGEST_TEXT + 40
        assert long.endswith("(100,000 characters)")
        opened.audit.record("egress", "http", allowed=True, detail={"header": "y" * 100_000})
        assert (await opened.all())[0].detail == {"omitted_bytes": 100_013}

    on(tmp_path, check)


def test_records_go_when_their_time_is_over_or_there_are_too_many(tmp_path: Path) -> None:
    async def check(opened: Opened) -> None:
        opened.say("old")
        await opened.audit.flush()
        opened.clock.advance(86_400 * 2 - 1)
        await opened.audit.sweep()
        assert await opened.targets() == ["old"]
        opened.say("new")
        await opened.audit.flush()
        opened.clock.advance(2)
        await opened.audit.sweep()
        assert await opened.targets() == ["new"]
        for number in range(1_100):
            opened.say(str(number))
        await opened.audit.flush()
        await opened.audit.sweep()
        assert await opened.targets() == [str(number) for number in reversed(range(100, 1_100))]

    on(tmp_path, check, audit_retention_days=2, audit_records=1_000)


def test_a_record_that_is_dated_in_the_future_goes_with_those_that_follow_it(tmp_path: Path) -> None:
    ahead, day = 10 * 365 * 86_400, 86_400

    async def check(opened: Opened) -> None:
        opened.say("old")
        await opened.audit.flush()
        opened.clock.advance(ahead)  # the host's clock is wrong for a while
        for number in range(3):
            opened.say(f"ahead {number}")
        await opened.audit.flush()
        opened.clock.advance(-ahead)
        opened.clock.advance(day)
        opened.say("right again")
        await opened.audit.flush()
        opened.clock.advance(day + 1)
        await opened.audit.sweep()
        assert await opened.targets() == ["right again", "ahead 2", "ahead 1", "ahead 0"], (
            "they came before it, at most"
        )
        opened.clock.advance(day)
        await opened.audit.sweep()
        assert await opened.targets() == []

    on(tmp_path, check, audit_retention_days=2)


def test_records_of_the_future_without_any_that_follow_go_by_number_alone(tmp_path: Path) -> None:
    def prune(connection: Connection) -> list[int]:
        chain = AuditChain(tmp_path / "state")
        return [chain.prune(connection, now=10**8, before=10**8, keep=3, at_once=2) for _ in range(3)]

    async def check(opened: Opened) -> None:
        for number in range(6):
            opened.say(str(number))
        await opened.audit.flush()
        assert await opened.database.run(prune) == [2, 1, 0]
        assert await opened.targets() == ["5", "4", "3"]

    on(tmp_path, check)


def test_much_that_is_old_goes_in_steps(tmp_path: Path) -> None:
    def rest(connection: Connection) -> list[int]:
        chain = AuditChain(tmp_path / "state")
        return [chain.prune(connection, now=time.time(), before=1, keep=3, at_once=4) for _ in range(4)]

    async def check(opened: Opened) -> None:
        for number in range(12):
            opened.say(str(number))
        await opened.audit.flush()
        assert await opened.database.run(rest) == [4, 4, 1, 0]
        assert await opened.targets() == ["11", "10", "9"]

    on(tmp_path, check)


def how_many(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def test_a_disk_that_stands_still_costs_neither_records_nor_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the database is not written there again, nothing queues up for the file, and its lines come later."""
    append, asked, go_on = AuditFile.append, [], threading.Event()

    def stand_still(file: AuditFile, lines: bytes) -> None:
        asked.append(lines)
        assert go_on.wait(300)
        append(file, lines)

    monkeypatch.setattr(AuditFile, "append", stand_still)

    async def check(opened: Opened) -> None:
        await opened.audit.open()
        writer = asyncio.create_task(opened.audit.run())
        opened.say("first")
        await opened.audit.flush()
        while not asked:
            await asyncio.sleep(0.01)
        for target in ("second", "third"):
            opened.say(target)
            await opened.audit.flush()
        assert await opened.targets() == ["third", "second", "first"]
        assert len(asked) == 1
        writer.cancel()
        await asyncio.wait([writer])
        go_on.set()
        opened.say("fourth")
        await opened.audit.close()
        assert await opened.targets() == ["fourth", "third", "second", "first"]
        lines = [json.loads(each) for each in (tmp_path / "state" / "audit.jsonl").read_text().splitlines()]
        assert [each["additionalEventData"]["address"] for each in lines] == ["first", "second", "third", "fourth"]

    on(tmp_path, check)
