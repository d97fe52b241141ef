"""PostgreSQL: what holds although many write at once, a server that goes and comes back, one service a database."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event
from sqlalchemy.exc import IntegrityError

from kernel_gateway import errors
from kernel_gateway.identity.principal import Principal
from kernel_gateway.server import doctor
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.tokens import Tokens
from kernel_gateway.services.start_keys import OPERATION, StartKey, find_started, keep_started
from kernel_gateway.settings import Settings
from kernel_gateway.storage import agents, audit, audit_chain, principals, sessions
from kernel_gateway.storage import database as databases
from kernel_gateway.storage.agents import AgentRow
from kernel_gateway.storage.audit import AuditFilter
from kernel_gateway.storage.database import Database, reading, writing
from kernel_gateway.storage.sessions import Record
from kernel_gateway.storage.tables import metadata
from tests.integration.kernel_gateway.storage.rows import NOW, on_database, one_session
from tests.postgresql_server import PostgresqlServer

TOGETHER = 16
ASCII = "TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'"
ANN = Principal("p", "ann", admin=True)


@pytest.fixture
def url(postgresql: PostgresqlServer) -> str:
    return postgresql.create_database()


@pytest.fixture
def mended(postgresql: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """The server, which runs again after the test."""
    yield postgresql
    postgresql.stop()
    postgresql.start()


def name_of(url: str) -> str:
    """The database's."""
    return url.rpartition("@/")[2].partition("?")[0]


def test_its_indexes_have_the_conditions_that_are_declared(url: str) -> None:
    partial = [
        index.name
        for table in metadata.sorted_tables
        for index in table.indexes
        if index.dialect_options["sqlite"]["where"] is not None
    ]
    assert len(partial) >= 3

    async def check(database: Database) -> None:
        for name in partial:
            query = f"SELECT indexdef FROM pg_indexes WHERE indexname = '{name}'"
            assert " WHERE " in await database.run(lambda c, query=query: c.exec_driver_sql(query).scalar_one())

    on_database(url, check)


def test_a_quota_holds_however_many_ask_at_once(url: str) -> None:
    async def check(database: Database) -> None:
        await database.run(lambda c: principals.add(c, ANN, NOW))
        all_in = threading.Barrier(4)

        def add(connection: Connection, number: int) -> None:
            if number < 4:  # so that some certainly look at the same time, each in a thread of its own
                connection.exec_driver_sql("SELECT 1")
                all_in.wait(120)
            if agents.count(connection, ANN.id) >= 3:
                raise errors.QuotaReached("three are the most", quota=3)
            connection.exec_driver_sql("SELECT pg_sleep(0.02)")
            agents.add(connection, AgentRow(str(number), ANN.id, str(number), "", None, None, NOW, NOW))

        asked = [database.run(lambda c, number=number: add(c, number)) for number in range(TOGETHER)]
        ended = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(each is None for each in ended) == 3
        assert all(each is None or isinstance(each, errors.QuotaReached) for each in ended), ended

    on_database(url, check)


def test_a_new_principals_tokens_may_be_made_at_once(url: str) -> None:
    async def check(database: Database) -> None:
        identity = Identity(database)
        found = await asyncio.gather(*(identity.open("", NOW) for _ in range(TOGETHER)))
        assert sum(each is not None for each in found) == 1, "there is one first token"
        tokens = Tokens(database, identity, SystemClock())
        made = await asyncio.gather(*(tokens.create(ANN, "new", str(each)) for each in range(TOGETHER)))
        assert {each.principal for each in made} == {"new"}
        rotated = await asyncio.gather(
            *(tokens.rotate(ANN, made[0].id) for _ in range(TOGETHER)), return_exceptions=True
        )
        assert sum(not isinstance(each, BaseException) for each in rotated) == 1
        assert all(not isinstance(each, BaseException) or isinstance(each, errors.Conflict) for each in rotated)

    on_database(url, check)


def test_transactions_that_block_each_other_are_tried_again(url: str) -> None:
    async def check(database: Database) -> None:
        for name in "ab":
            await database.run(lambda c, name=name: principals.add(c, Principal(name, name, admin=False), NOW))
        both_hold, tries = threading.Barrier(2), list[str]()

        def disable(connection: Connection, first: str, second: str) -> None:
            tries.append(first)
            principals.disable(connection, first, NOW)
            if tries.count(first) == 1:
                both_hold.wait(120)
            principals.disable(connection, second, NOW)

        await asyncio.gather(database.run(lambda c: disable(c, "a", "b")), database.run(lambda c: disable(c, "b", "a")))
        assert len(tries) > 2, "the server gave one of them up"
        for name in "ab":
            assert await database.run(lambda c, name=name: principals.standing(c, name)) == (True, None)

    on_database(url, check)


def test_several_begin_and_continue_one_chain_of_audit_records(url: str, tmp_path: Path) -> None:
    async def check(database: Database) -> None:
        logs = [Audit(database, SystemClock(), Settings(data_dir=str(tmp_path))) for _ in range(4)]
        await logs[0].open()  # which makes the key
        for each in logs[1:]:
            await each.open()
        for round_ in range(3):
            for number, each in enumerate(logs):
                each.record("egress", "connect", allowed=True, target=f"{round_} {number}")
            await asyncio.gather(*(each.flush() for each in logs))
        rows, _ = await database.run(lambda c: audit.list_of(c, AuditFilter(), 100, None))
        assert sorted(each.target for each in rows) == sorted(f"{a} {b}" for a in range(3) for b in range(4))
        assert await database.run(audit_chain.newest) == len(rows)
        for each in logs:
            await each.close()

    on_database(url, check)


def test_connections_that_were_ended_are_made_again(postgresql: PostgresqlServer, url: str) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        for _ in range(3):
            postgresql.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name_of(url)}'")
            assert await database.run(lambda c: sessions.find(c, "s")) is not None

    on_database(url, check)


@pytest.mark.parametrize("made", [True, False], ids=["made", "undone"])
def test_a_commit_whose_answer_is_lost_counts_once_and_only_if_it_was_made(
    postgresql: PostgresqlServer, url: str, made: bool
) -> None:
    async def check(database: Database) -> None:
        broken, calls = list[int](), list[int]()

        def add(connection: Connection) -> str:
            calls.append(1)
            principals.add(connection, ANN, NOW)
            return "added"

        def break_once(connection: Connection) -> None:
            if broken:
                return
            driver: Any = connection.connection.driver_connection
            broken.append(driver.info.backend_pid)
            if made:
                driver.commit()
                driver.close()
            else:
                postgresql.run(f"SELECT pg_terminate_backend({broken[0]}, 60000)")

        event.listen(database._engine, "commit", break_once)
        assert await database.run(add) == "added"
        assert (len(broken), len(calls)) == (1, 1 if made else 2)
        assert await database.run(lambda c: principals.find_by_name(c, "ann")) == ANN

    on_database(url, check)


def test_a_server_that_is_gone_is_told_without_its_address_and_taken_again_when_it_is_back(
    mended: PostgresqlServer, url: str
) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        mended.stop(signal.SIGQUIT)
        for _ in range(2):
            with pytest.raises(errors.DatabaseUnavailable) as refused:
                await database.run(lambda c: sessions.find(c, "s"))
            assert str(refused.value) == "the database cannot be used now"
        mended.start()
        assert await database.run(lambda c: sessions.find(c, "s")) is not None
        another = Database(url)
        assert another._claim is not None
        with pytest.raises(errors.StartRefused, match="another service uses this database"):
            another._claim.take(0)
        await another.aclose()

    on_database(url, check)


async def is_taken(database: Database) -> bool:
    """Whether another service has it, by what a query is told."""
    try:
        assert await database.run(lambda c: sessions.find(c, "s")) is None
    except errors.DatabaseUnavailable:
        return True
    return False


def test_a_key_that_another_gateway_keeps_meanwhile_is_not_forgotten(postgresql: PostgresqlServer, url: str) -> None:
    asked = StartKey(("p", OPERATION, "key"), "digest")
    on_database(url, one_session)
    engine = postgresql.connect(name_of(url))
    try:
        with engine.connect() as slower:

            def another(*_: Any) -> None:
                """After the first query of the slower one, which has found no session of this key."""
                with engine.begin() as faster:
                    keep_started(faster, asked, "s", NOW)

            event.listen(slower, "after_cursor_execute", another, once=True)
            with pytest.raises(IntegrityError):
                keep_started(slower, asked, "of the slower one", NOW)
        with engine.connect() as connection:
            assert find_started(connection, asked, NOW) == "s"
    finally:
        engine.dispose()


def test_a_database_has_one_service_and_the_next_when_that_is_gone(postgresql: PostgresqlServer, url: str) -> None:
    async def check(first: Database) -> None:
        second = Database(url)
        assert second._claim is not None
        with pytest.raises(errors.StartRefused, match="another service uses this database"):
            second._claim.take(0)
        with reading(url) as connection, writing(url) as another:  # beside it, as commands do
            assert [list(each.exec_driver_sql("SELECT * FROM sessions")) for each in (connection, another)] == [[], []]
        # The lock's connection alone breaks, and another service is faster: the first writes no more.
        engine = postgresql.connect("postgres", isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            holder = "SELECT pid FROM pg_locks JOIN pg_database d ON d.oid = database WHERE locktype = 'advisory'"
            connection.exec_driver_sql(f"SELECT pg_terminate_backend(({holder} AND datname = '{name_of(url)}'), 60000)")
        engine.dispose()
        second._claim.take(60)
        assert first._claim is not None
        first._claim._looked = -1e9  # it has not looked for a while
        with pytest.raises(errors.DatabaseUnavailable, match="another service has taken"):
            await first.run(lambda c: sessions.find(c, "s"))
        await second.aclose()
        async with asyncio.timeout(60):  # the server gives the lock back a moment after the connection has ended
            while await is_taken(first):
                await asyncio.sleep(0.01)

    on_database(url, check)


def test_what_is_acknowledged_is_durable_whatever_the_database_was_set_to(
    postgresql: PostgresqlServer, url: str
) -> None:
    async def check(database: Database) -> None:
        def setting(name: str) -> Any:
            return database.run(lambda c: c.exec_driver_sql(f"SHOW {name}").scalar_one())

        assert await setting("synchronous_commit") == "on"
        assert await setting("transaction_isolation") == "read committed"
        assert await setting("statement_timeout") == "30s"

    name = name_of(url)
    postgresql.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    postgresql.run(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    on_database(url, check)


def test_a_full_disk_and_a_broken_statement_are_two_things(url: str) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        full = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '53100'; END $$"  # as the server says it
        with pytest.raises(errors.NoSpace):
            await database.run(lambda c: c.exec_driver_sql(full))
        with pytest.raises(errors.DatabaseUnavailable):
            await database.run(lambda c: c.exec_driver_sql(full.replace("53100", "25006")))  # a standby
        with pytest.raises(IntegrityError):
            await database.run(lambda c: principals.add(c, ANN, NOW))

    on_database(url, check)


def test_a_text_with_the_one_character_that_it_cannot_hold_is_stored_all_the_same(url: str) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        await database.run(
            lambda c: sessions.end(c, "s", reason="lost", detail="a\0b", now=NOW, record=sessions.Record())
        )
        row = await database.run(lambda c: sessions.find(c, "s"))
        assert row is not None
        assert row.ended_detail == "a\N{REPLACEMENT CHARACTER}b"

    on_database(url, check)


def test_a_database_that_cannot_hold_every_text_is_refused(postgresql: PostgresqlServer) -> None:
    async def nothing(_database: Database) -> None: ...

    with pytest.raises(errors.StartRefused, match="SQL_ASCII"):
        on_database(postgresql.create_database(migrated=False, options=ASCII), nothing)


def test_the_doctor_says_what_a_service_would_find(postgresql: PostgresqlServer, url: str, tmp_path: Path) -> None:
    def look(address: str) -> list[tuple[bool, str]]:
        return [(each.ok, each.detail) for each in doctor.find_database(Settings(database=address))]

    assert look("") == look(f"sqlite:///{tmp_path}/a.db") == []
    [(ok, detail)] = look(url)
    assert (ok, detail.startswith("PostgreSQL ")) == (True, True)
    [(ok, detail)] = look(postgresql.create_database(migrated=False, options=ASCII))
    assert (ok, "SQL_ASCII" in detail) == (False, True)
    [(ok, detail)] = look(f"postgresql://somebody:secret@/nothing?host={tmp_path}")
    assert (ok, "secret" in detail) == (False, False)


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg.types.string", None)
    with pytest.raises(errors.StartRefused, match="extra postgresql"):
        Database("postgresql://somebody@127.0.0.1:1/nothing")


@pytest.mark.parametrize("url", ["mysql://u:secret@h/d", "no url: secret", "postgresql+asyncpg://u:secret@h/d"])
def test_other_databases_are_refused_without_a_word_of_the_url(url: str) -> None:
    with pytest.raises(errors.SettingInvalid, match="postgresql://") as refused:
        Database(url)
    assert "secret" not in str(refused.value)


def test_a_server_that_does_not_answer_refuses_the_start(tmp_path: Path) -> None:
    async def nothing(_database: Database) -> None: ...

    with pytest.raises(errors.StartRefused, match="cannot be opened"):
        on_database(f"postgresql://somebody@/nothing?host={tmp_path}", nothing)


def test_what_is_not_answered_in_time_does_not_happen_later(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, ended = threading.Event(), threading.Event()

    def add(connection: Connection) -> None:
        principals.add(connection, ANN, NOW)
        hangs.wait(120)

    async def check(database: Database) -> None:
        event.listen(database._engine, "rollback", lambda _connection: ended.set())
        monkeypatch.setattr(databases, "DEADLINE_SECONDS", 0.2)
        try:
            with pytest.raises(errors.DatabaseUnavailable, match="in time"):
                await database.run(add)
        finally:
            hangs.set()
        monkeypatch.undo()
        assert await asyncio.to_thread(ended.wait, 120)
        assert await database.run(lambda c: principals.find_by_name(c, "ann")) is None

    on_database(url, check)


def test_a_session_that_is_copied_does_not_end_before_its_copy_is_there(url: str) -> None:
    locked, go_on = threading.Event(), threading.Event()
    waiting = f"SELECT 1 FROM pg_stat_activity WHERE datname = '{name_of(url)}' AND wait_event_type = 'Lock'"

    def copy(connection: Connection) -> None:
        sessions.find(connection, "s", lock=True)
        locked.set()
        assert go_on.wait(120)

    async def check(database: Database) -> None:
        await one_session(database)
        copying = asyncio.create_task(database.run(copy))
        await asyncio.to_thread(locked.wait, 120)
        end = partial(sessions.end, session_id="s", reason="stopped", detail="", now=NOW, record=Record())
        ending = asyncio.create_task(database.run(end))
        try:
            async with asyncio.timeout(120):
                while not ending.done() and await database.run(lambda c: c.exec_driver_sql(waiting).first()) is None:
                    await asyncio.sleep(0.05)
            assert not ending.done()
        finally:
            go_on.set()
        await asyncio.gather(copying, ending)

    on_database(url, check)
