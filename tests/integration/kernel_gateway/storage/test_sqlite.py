"""SQLite: its files, its one thread, a full disk, and root beside a service."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import IntegrityError

from kernel_gateway import errors
from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage import executions, principals, sessions
from kernel_gateway.storage.database import Database, reading, writing
from kernel_gateway.storage.executions import StoredOutcome
from kernel_gateway.storage.migrations import schema
from tests.integration.kernel_gateway.storage.rows import NOW, an_execution, on_database, one_session


def url(directory: Path) -> str:
    return f"sqlite:///{directory}/data/sandcell.db"


def describe_tables(path: Path) -> dict[str, Any]:
    """What SQLite knows of each table: columns, foreign keys, indexes with their columns and conditions."""
    with contextlib.closing(sqlite3.connect(path)) as raw:

        def ask(about: str, name: str, *, without: int = 0) -> list[Any]:
            """Its rows without the column that counts in the order in which things were made."""
            return sorted((*row[:without], *row[without + 1 :]) for row in raw.execute(f"PRAGMA {about}('{name}')"))

        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        indexes = dict(raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'"))
        return {
            table: (
                ask("table_xinfo", table),
                ask("foreign_key_list", table),
                sorted(
                    (*index[1:], *ask("index_xinfo", index[0], without=1), " ".join((indexes[index[0]] or "").split()))
                    for index in ask("index_list", table)
                ),
            )
            for table in tables
        }


def test_the_migrations_make_the_tables_that_an_empty_file_gets_without_alembic(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'migrated.db'}")
    with engine.begin() as connection:
        schema.migrate(connection, "head")
    engine.dispose()

    async def nothing(_database: Database) -> None: ...

    on_database(url(tmp_path), nothing)
    made = describe_tables(tmp_path / "data" / "sandcell.db")
    assert len(made) > 10
    assert made == describe_tables(tmp_path / "migrated.db")


def test_its_files_are_its_owners_alone_those_of_an_earlier_version_too(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    earlier = sqlite3.connect(tmp_path / "data" / "sandcell.db")
    earlier.execute("PRAGMA journal_mode = WAL")
    earlier.execute("CREATE TABLE unrelated (x)")

    async def look(_database: Database) -> None:
        modes = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path / "data").iterdir()}
        assert modes == dict.fromkeys(("sandcell.db", "sandcell.db-wal", "sandcell.db-shm"), 0o600)

    on_database(url(tmp_path), look)
    earlier.close()


def test_a_database_that_is_none_is_refused(tmp_path: Path) -> None:
    async def nothing(_database: Database) -> None: ...

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sandcell.db").write_bytes(b"no database" * 1000)
    with pytest.raises(errors.StartRefused):
        on_database(url(tmp_path), nothing)


class BusyDatabase:
    """A database whose one thread is held up, so that what is asked meanwhile waits together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._held, self._go_on = threading.Event(), threading.Event()

    async def __aenter__(self) -> None:
        def hold(_connection: Connection) -> None:
            self._held.set()
            assert self._go_on.wait(120)

        self._holding = asyncio.create_task(self._database.run(hold))
        await asyncio.to_thread(self._held.wait, 120)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(0)  # what was asked is in the queue by now
        self._go_on.set()
        await self._holding


def test_queries_that_wait_together_share_a_transaction(tmp_path: Path) -> None:
    async def check(database: Database) -> None:
        seen: list[object] = []

        def add(name: str, connection: Connection) -> str:
            seen.append(connection.get_transaction())
            principals.add(connection, Principal(name, name, admin=False), NOW)
            return name

        async with BusyDatabase(database):
            asked = [asyncio.create_task(database.run(partial(add, name))) for name in "abc"]
        assert await asyncio.gather(*asked) == ["a", "b", "c"]
        assert len(seen) == 3
        assert len(set(seen)) == 1

    on_database(url(tmp_path), check)


def test_nobody_else_writes_between_what_a_transaction_reads_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel_gateway.storage.engines.sqlite.BUSY_SECONDS", 0)

    def read(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT 1")
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "data" / "sandcell.db", timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("BEGIN IMMEDIATE")

    async def test(database: Database) -> None:
        await database.run(read)
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "sandcell.db", timeout=0)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(errors.DatabaseUnavailable, match="locked"):
                await database.run(read)
            other.rollback()
        await database.run(read)

    on_database(url(tmp_path), test)


def test_a_query_that_fails_harms_none_that_shares_its_transaction(tmp_path: Path) -> None:
    async def check(database: Database) -> None:
        def add(name: str, connection: Connection) -> None:
            principals.add(connection, Principal(name, name, admin=False), NOW)
            if name == "b":
                raise errors.NotFound("there is no such thing")

        async with BusyDatabase(database):
            asked = [asyncio.create_task(database.run(partial(add, name))) for name in "abcd"]
            twin = asyncio.create_task(database.run(partial(add, "a")))
            await asyncio.sleep(0)
            asked[2].cancel()
        ended = await asyncio.gather(*asked, twin, return_exceptions=True)
        assert [type(each) for each in ended] == [
            type(None),
            errors.NotFound,
            asyncio.CancelledError,
            type(None),
            IntegrityError,
        ]
        found = [await database.run(partial(principals.find_by_name, name=name)) for name in "abcd"]
        assert [each is not None for each in found] == [True, False, False, True]

    on_database(url(tmp_path), check)


def test_what_is_committed_is_answered_before_the_next_has_its_turn(tmp_path: Path) -> None:
    answered, tries = threading.Event(), list[int]()

    def fail_together_and_wait_alone(_connection: Connection) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise errors.NotFound("the group is rolled back")
        assert answered.wait(120)

    async def check(database: Database) -> None:
        add = partial(principals.add, principal=Principal("a", "a", admin=False), now=NOW)
        async with BusyDatabase(database):
            first = asyncio.create_task(database.run(add))
            second = asyncio.create_task(database.run(fail_together_and_wait_alone))
        await first
        answered.set()
        await second

    on_database(url(tmp_path), check)


def test_what_is_not_answered_in_time_is_told_so_and_does_not_run_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, hangs, ran = threading.Event(), threading.Event(), []

    def hang(connection: Connection) -> None:
        principals.add(connection, Principal("late", "late", admin=False), NOW)
        begun.set()
        hangs.wait(120)

    async def test(database: Database) -> None:
        monkeypatch.setattr(database._shared, "_deadline_seconds", 0.1)
        first = asyncio.create_task(database.run(hang))
        await asyncio.to_thread(begun.wait, 120)
        second = asyncio.create_task(database.run(lambda _: ran.append("second")))
        try:
            for late in (first, second):
                with pytest.raises(errors.DatabaseUnavailable, match="in time"):
                    await late
        finally:
            hangs.set()
        monkeypatch.undo()
        assert await database.run(lambda _: "third") == "third"
        assert ran == []
        assert await database.run(lambda c: principals.find_by_name(c, "late")) is None, "it was said to have failed"

    on_database(url(tmp_path), test)


@pytest.mark.parametrize("ends", [True, False])
def test_a_commit_that_is_under_way_at_the_deadline_has_as_long_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    begun, hangs = threading.Event(), threading.Event()

    def hang_once(_connection: Connection) -> None:
        if not begun.is_set():
            begun.set()
            hangs.wait(120)

    async def test(database: Database) -> None:
        shared: Any = database._shared
        add = partial(principals.add, principal=Principal("p", "late", admin=False), now=NOW)
        event.listen(database._engine, "commit", hang_once)
        monkeypatch.setattr(shared, "_deadline_seconds", 0.1)
        adding = asyncio.create_task(database.run(add))
        await asyncio.to_thread(begun.wait, 120)
        try:
            while not any(again for _, _, again in shared._deadlines) and not adding.done():
                if ends:
                    monkeypatch.setattr(shared, "_deadline_seconds", 120)  # the next one
                await asyncio.sleep(0.01)
            if not ends:
                with pytest.raises(errors.DatabaseUnavailable, match="in time"):
                    await adding
        finally:
            hangs.set()
        if ends:
            await adding
        monkeypatch.undo()
        assert await database.run(lambda c: principals.find_by_name(c, "late")) is not None

    on_database(url(tmp_path), test)


def test_a_full_disk_is_told_to_all_who_share_a_transaction(tmp_path: Path) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        pages = await database.run(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        await database.run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}"))
        large = [msgspec.structs.replace(an_execution(name), code="x" * 1_000_000) for name in "ef"]
        async with BusyDatabase(database):
            asked = [asyncio.create_task(database.run(partial(executions.add, row=row))) for row in large]
            reads = asyncio.create_task(database.run(lambda c: sessions.find(c, "s")))
        ended = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in ended] == [errors.NoSpace, errors.NoSpace]
        assert await reads is not None
        await database.run(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1000000"))
        await database.run(lambda c: executions.add(c, large[0]))

    on_database(url(tmp_path), check)


def test_a_full_database_says_so_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        pages = await database.run(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
        await database.run(lambda c: c.exec_driver_sql(f"PRAGMA max_page_count = {pages}"))
        outcome = StoredOutcome(stdout="x" * 1_000_000)
        await database.run(lambda c: executions.add(c, an_execution("e")))
        ended = msgspec.structs.replace(an_execution("e"), status="ok", outcome=outcome, ended=NOW)
        with pytest.raises(errors.NoSpace):
            await database.run(lambda c: executions.finish(c, ended))
        await database.run(lambda c: c.exec_driver_sql("PRAGMA max_page_count = 1000000"))
        await database.run(lambda c: executions.finish(c, ended))
        row = await database.run(lambda c: executions.find(c, "s", "e"))
        assert row is not None
        assert row.outcome == outcome

    on_database(url(tmp_path), check)


def test_no_statement_of_an_execution_looks_through_a_table(tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []

    def note(*told: Any) -> None:
        seen.append((told[2], told[3]))

    async def check(database: Database) -> None:
        await one_session(database)
        row = an_execution("e")
        ended = msgspec.structs.replace(row, status="ok", outcome=StoredOutcome(), ended=NOW)
        event.listen(database._engine, "before_cursor_execute", note)
        await database.run(lambda c: executions.add(c, row))
        await database.run(lambda c: executions.begin(c, row.id, 1, NOW))
        await database.run(lambda c: executions.finish(c, ended))
        event.remove(database._engine, "before_cursor_execute", note)

    on_database(url(tmp_path), check)
    assert len(seen) >= 3
    with sqlite3.connect(tmp_path / "data" / "sandcell.db") as connection:
        for statement, parameters in seen:
            plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)]
            assert not any(step.startswith("SCAN ") for step in plan), (statement, plan)


def test_root_beside_a_service_leaves_no_files_of_its_own_in_the_directory_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top, owner = tmp_path / "a name that is escaped in an address: #", 12_345
    path, address = top / "data" / "sandcell.db", url(top)
    on_database(url(top), one_session)
    for each in (path.parent, *path.parent.iterdir()):
        os.chown(each, owner, owner)

    def owners() -> set[int]:
        return {each.stat().st_uid for each in path.parent.iterdir()}

    with writing(address) as connection:
        connection.exec_driver_sql("UPDATE principals SET name = name")
        assert len(list(path.parent.iterdir())) > 1, "with the files in which SQLite keeps what is not in it yet"
        assert owners() == {owner}
    with reading(address) as connection:
        connection.exec_driver_sql("SELECT * FROM principals").all()
        assert owners() == {owner}
    assert owners() == {owner}
    monkeypatch.setattr(os, "access", lambda *_: True)  # it was there a moment ago
    for each in path.parent.iterdir():
        each.unlink()
    for transaction in (reading, writing):
        with pytest.raises(errors.StartRefused), transaction(address):
            pass
    assert list(path.parent.iterdir()) == []
