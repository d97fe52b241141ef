"""Gateways of one PostgreSQL database: their leases, whose a workspace is, and no write after a takeover."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from kernel_gateway import errors
from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage import principals, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.migrations import schema
from kernel_gateway.storage.sessions import SessionRow
from kernel_gateway.storage.states import gateways, uses
from kernel_gateway.storage.states.gateways import Early, Home, Place
from tests.integration.kernel_gateway.storage.rows import NOW
from tests.postgresql_server import PostgresqlServer

Check = Callable[[Database, Database], Coroutine[Any, Any, None]]
LEASE_SECONDS = 300.0


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.create_database()


def place(name: str, lease_seconds: float = LEASE_SECONDS) -> Place:
    return Place(name, f"http://{name}.internal:1", lease_seconds)


def on_both(url: str, check: Check, lease_seconds: float = LEASE_SECONDS) -> None:
    """Of two gateways the first has made a workspace `s` with a live session of the same name."""

    async def run() -> None:
        first, second = (Database(url, place(each, lease_seconds)) for each in ("first", "second"))
        try:
            await asyncio.gather(first.open(), second.open())
            await first.run(begin)
            await check(first, second)
        finally:
            await asyncio.gather(first.aclose(), second.aclose())

    asyncio.run(run())


def begin(connection: Connection) -> None:
    principals.add(connection, Principal("p", "me", admin=True), NOW)
    sessions.add_workspace(connection, "s", "p", NOW)
    row = SessionRow("s", "p", "s", "n", "python", 1, NOW, NOW, NOW + 10, 10, 10, None, {})
    sessions.add(connection, row)


def end(connection: Connection) -> None:
    sessions.end(connection, "s", reason="stopped", detail="", now=NOW, record=sessions.Record())


def let_run_out(connection: Connection, name: str) -> None:
    connection.exec_driver_sql("UPDATE gateways SET expires = 1 WHERE id = %s", (name,))


def test_each_has_its_own_and_says_where_the_others_is(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        assert [each.id for each in await first.run(sessions.list_live)] == ["s"]
        assert await second.run(sessions.list_live) == []
        there = Home("first", "http://first.internal:1", alive=True, live=True, workspace_id="s")
        assert await second.run(lambda c: gateways.find_home(c, "session", "s")) == there
        assert await second.run(lambda c: gateways.find_home(c, "workspace", "s")) == there
        assert await second.run(lambda c: gateways.find_home(c, "session", "t")) is None
        assert set(await second.run(gateways.list_alive)) == {"first", "second"}
        await second.run(lambda c: let_run_out(c, "first"))
        assert set(await second.run(gateways.list_alive)) == {"second"}
        assert first.lease is not None
        first.lease.renew()
        assert set(await second.run(gateways.list_alive)) == {"first", "second"}

    on_both(url, check)


def test_a_workspace_stays_where_it_is_while_its_gateway_lives(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        assert await second.run(gateways.take_over) == []
        await first.run(end)
        with pytest.raises(errors.SessionElsewhere):
            await second.run(lambda c: gateways.require_home(c, "s"))
        with pytest.raises(errors.SessionElsewhere):
            await second.run(lambda c: sessions.claim_workspace(c, "s", "p"))
        assert not await second.run(lambda c: gateways.is_at_home(c, "s"))
        await second.run(lambda c: let_run_out(c, "first"))
        await second.run(lambda c: gateways.require_home(c, "s"))
        assert await second.run(lambda c: gateways.is_at_home(c, "s"))
        with pytest.raises(errors.DatabaseUnavailable, match="taken over"):
            await first.run(lambda c: sessions.touch(c, "s", NOW))

    on_both(url, check)


@pytest.mark.parametrize("connected", [True, False])
def test_one_that_has_ended_is_taken_over_from_before_its_lease_is_over(url: str, *, connected: bool) -> None:
    async def check(first: Database, second: Database) -> None:
        assert first.lease is not None
        lease = first.lease.place.lease_seconds
        early = Early(0.75 * lease, 0.3 * lease)

        async def take_over(refusing: str) -> list[str]:
            return await second.run(lambda c: gateways.take_over(c, {refusing}, early))

        async def let_pass(part: float) -> None:
            spent = "UPDATE gateways SET expires = expires - %s WHERE id = 'first'"
            await second.run(lambda c: c.exec_driver_sql(spent, (round(part * lease * 1_000_000),)) and None)

        assert await second.run(lambda c: gateways.is_connected(c, "first"))
        if not connected:
            first.lease._drop()
            while await second.run(lambda c: gateways.is_connected(c, "first")):
                await asyncio.sleep(0.01)  # the server is told so
        assert await take_over("first") == [], "it has just renewed it"
        await let_pass(0.4)
        assert await take_over("third") == []
        if connected:
            assert await take_over("first") == []
            await let_pass(0.4)
        assert await take_over("first") == ["s"]
        assert not {"first"} & (await second.run(gateways.list_alive)).keys()
        with pytest.raises(errors.DatabaseUnavailable, match="taken over"):
            await first.run(lambda c: sessions.touch(c, "s", NOW))

    on_both(url, check)


def test_a_lost_connection_of_a_lease_is_made_again(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        assert first.lease is not None
        ended = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"
        await second.run(lambda c: c.exec_driver_sql(ended) and None)
        with pytest.raises(DBAPIError):
            first.lease.renew()
        first.lease.renew()
        assert await second.run(lambda c: gateways.is_connected(c, "first"))

    on_both(url, check)


def test_sandboxes_that_sessions_of_others_have_are_known(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        pooled, gone = "4f0c1c4e-0000-4000-8000-000000000001", "4f0c1c4e-0000-4000-8000-000000000002"
        assert await second.run(lambda c: sessions.list_sandboxes(c, ["s", gone])) == {"s"}
        await first.run(lambda c: sessions.set_record(c, "s", sessions.Record(sandbox_id=pooled)))
        assert await second.run(lambda c: sessions.list_sandboxes(c, ["s", pooled, gone])) == {pooled}
        await first.run(end)
        assert await second.run(lambda c: sessions.list_sandboxes(c, ["s", pooled])) == set()

    on_both(url, check)


def test_what_gateways_had_is_a_single_service_s_and_copies_of_others_are_old(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        await first.run(end)
        assert await second.run(lambda c: gateways.list_moved(c, ["s", "t"], "second")) == ["s"]
        assert await first.run(lambda c: gateways.list_moved(c, ["s", "t"], "first")) == []
        await second.run(lambda c: gateways.take_all(c, "second"))  # it is one of several: nothing is taken
        assert await first.run(lambda c: gateways.list_moved(c, ["s"], "first")) == []

    async def go_back() -> None:
        alone = Database(url)
        try:
            await alone.open()
            assert await alone.run(lambda c: gateways.list_moved(c, ["s"], "third")) == ["s"]
            await alone.run(lambda c: gateways.take_all(c, "third"))
            assert await alone.run(lambda c: gateways.list_moved(c, ["s"], "third")) == []
            assert await alone.run(lambda c: gateways.list_moved(c, ["s"], "first")) == ["s"]
        finally:
            await alone.aclose()

    async def go_on() -> None:
        first = Database(url, place("first"))
        try:
            await first.open()
            await first.run(lambda c: gateways.require_home(c, "s"))
            assert await first.run(lambda c: gateways.list_moved(c, ["s"], "third")) == ["s"]
        finally:
            await first.aclose()

    on_both(url, check)
    asyncio.run(go_back())
    asyncio.run(go_on())


def test_who_was_taken_over_from_writes_nothing_more(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        await second.run(lambda c: let_run_out(c, "first"))
        with pytest.raises(errors.SessionElsewhere, match="being taken over"):
            await second.run(lambda c: gateways.require_home(c, "s"))
        assert await second.run(gateways.take_over) == ["s"]
        assert await second.run(gateways.take_over) == []
        for _ in range(2):
            with pytest.raises(errors.DatabaseUnavailable, match="taken over"):
                await first.run(lambda c: sessions.set_generation(c, "s", 9))
        [row] = await second.run(sessions.list_live)
        assert row.generation == 1
        assert first.lease is not None
        assert first.lease.lost

    on_both(url, check)


def go_back_to(connection: Connection, revision: str) -> None:
    """The tables of an older version."""
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    config.attributes["connection"] = connection
    command.downgrade(config, revision)


class BehindTheFence:
    """Lets a gateway's transaction wait whose last statement has been answered, while its commit has not."""

    def __init__(self, database: Database) -> None:
        assert database.lease is not None
        self._fence = database.lease.fence
        self.reached, self.over = threading.Event(), threading.Event()
        database.lease.fence = self._wait  # type: ignore[method-assign]

    def _wait(self, connection: Connection) -> str:
        found = self._fence(connection)
        self.reached.set()
        assert self.over.wait(120)
        return found


def test_a_write_under_way_is_before_a_takeover_or_not_at_all(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        behind = BehindTheFence(first)
        await second.run(lambda c: let_run_out(c, "first"))
        writing = asyncio.create_task(first.run(lambda c: sessions.set_generation(c, "s", 2)))
        assert await asyncio.to_thread(behind.reached.wait, 120)
        assert await second.run(gateways.take_over) == [], "the row is held"
        behind.over.set()
        await writing
        assert await second.run(gateways.take_over) == ["s"]
        [row] = await second.run(sessions.list_live)
        assert row.generation == 2

    on_both(url, check)


def test_one_that_stands_still_at_a_write_is_taken_over_from(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        behind = BehindTheFence(first)
        writing = asyncio.create_task(first.run(lambda c: sessions.set_generation(c, "s", 2)))
        assert await asyncio.to_thread(behind.reached.wait, 120)
        async with asyncio.timeout(30):  # half of what the server would wait else
            while await second.run(gateways.take_over) != ["s"]:
                await asyncio.sleep(0.05)
        behind.over.set()
        with pytest.raises(errors.DatabaseUnavailable):
            await writing
        [row] = await second.run(sessions.list_live)
        assert row.generation == 1

    on_both(url, check, lease_seconds=1)


def test_a_workspace_changes_hands_when_what_is_under_way_has_ended(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        await first.run(end)
        behind = BehindTheFence(first)
        await second.run(lambda c: let_run_out(c, "first"))
        writing = asyncio.create_task(first.run(lambda c: principals.set_quota(c, "p", 7)))
        assert await asyncio.to_thread(behind.reached.wait, 120)
        taking = asyncio.create_task(second.run(lambda c: gateways.require_home(c, "s")))
        await asyncio.wait([taking], timeout=1)
        assert not taking.done()
        behind.over.set()
        await asyncio.gather(writing, taking)
        with pytest.raises(errors.DatabaseUnavailable, match="taken over"):
            await first.run(lambda c: principals.set_quota(c, "p", 8))

    on_both(url, check)


def test_one_that_starts_again_has_its_own_back_and_ends_its_earlier_life(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        again = Database(url, place("first"))
        await again.open()
        assert [each.id for each in await again.run(sessions.list_live)] == ["s"]
        with pytest.raises(errors.DatabaseUnavailable, match="taken over"):
            await first.run(lambda c: sessions.touch(c, "s", NOW))
        assert await second.run(gateways.take_over) == []
        await again.aclose()

    on_both(url, check)


def test_gateways_tell_each_other_what_they_have_counted(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        used = {("invocations", "p"): 3, ("failures", "127.0.0.1"): 1}
        assert await first.run(lambda c: uses.exchange(c, used)) == {}
        heard = {("first", *what): count for what, count in used.items()}
        assert await second.run(lambda c: uses.exchange(c, {("invocations", "p"): 1})) == heard
        await first.run(lambda c: uses.exchange(c, {("invocations", "p"): 5}))
        assert (await second.run(lambda c: uses.exchange(c, {})))["first", "invocations", "p"] == 5
        assert await first.run(lambda c: uses.exchange(c, {})) == {("second", "invocations", "p"): 1}

    on_both(url, check)


def test_gateways_of_a_version_before_go_on_when_tables_are_only_added(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(first: Database, _second: Database) -> None:
        await first.run(lambda c: go_back_to(c, "0020"))
        refused, newer = Database(url, place("refused")), Database(url, place("newer"))
        with monkeypatch.context() as patch:
            patch.setattr(schema, "ADDING", frozenset())
            with pytest.raises(errors.StartRefused, match="another version of its tables"):
                await refused.open()
        await refused.aclose()
        await newer.open()
        present = await newer.run(lambda c: c.scalar(text("SELECT version_num FROM alembic_version")))
        assert present == schema.REVISIONS[-1]
        await first.run(lambda c: sessions.set_generation(c, "s", 9))
        await newer.aclose()

    on_both(url, check)


def test_one_that_ends_in_order_may_come_back(url: str) -> None:
    async def check(first: Database, second: Database) -> None:
        await first.run(lambda c: gateways.leave(c, 300))
        assert await second.run(gateways.take_over) == []
        await first.run(lambda c: gateways.leave(c, 0))
        assert await second.run(gateways.take_over) == ["s"]

    on_both(url, check)


def test_a_service_that_is_alone_and_gateways_do_not_meet(url: str) -> None:
    async def check(_first: Database, _second: Database) -> None:
        alone, third = Database(url), Database(url, place("third"))
        assert alone._claim is not None
        with pytest.raises(errors.StartRefused, match="another service uses this database"):
            alone._claim.take(0)
        await asyncio.gather(alone.aclose(), third.aclose())

    on_both(url, check)

    async def check_alone() -> None:
        alone, third = Database(url), Database(url, place("third"))
        assert third._claim is not None
        await alone.open()
        assert [each.id for each in await alone.run(sessions.list_live)] == ["s"]
        with pytest.raises(errors.StartRefused, match="not one of several gateways"):
            third._claim.take(0)
        await asyncio.gather(alone.aclose(), third.aclose())

    asyncio.run(check_alone())


def test_what_one_that_was_alone_has_left_is_the_first_gateways(url: str) -> None:
    async def run() -> None:
        alone = Database(url)
        await alone.open()
        await alone.run(begin)
        await alone.aclose()
        first = Database(url, place("first"))
        await first.open()
        await first.run(gateways.take_unowned)
        assert [each.id for each in await first.run(sessions.list_live)] == ["s"]
        await first.aclose()

    asyncio.run(run())
