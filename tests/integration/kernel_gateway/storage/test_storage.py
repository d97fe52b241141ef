"""The database, whichever it is: migrations, durability, rows that come back as they went in, and the tokens in it."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import IntegrityError

from kernel_gateway import errors
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.clock import SystemClock
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.tokens import Tokens
from kernel_gateway.storage import audit, executions, principals, sessions
from kernel_gateway.storage.audit import AuditFilter, AuditRow
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.migrations import schema
from kernel_gateway.storage.sessions import SessionRow
from kernel_gateway.storage.tables import metadata
from tests.integration.kernel_gateway.storage.rows import NOW, an_execution, on_database, one_session


def connect(url: str) -> Engine:
    """Beside the service's own way; the driver is named, as SQLAlchemy has others by default."""
    return create_engine(url.replace("postgresql:", "postgresql+psycopg:"))


def test_the_migrations_make_the_tables_as_they_are_declared(empty_database_url: str) -> None:
    async def check(database: Database) -> None:
        found = await database.run(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
        assert found == []
        present = await database.run(lambda c: MigrationContext.configure(c).get_current_revision())
        assert present == schema.REVISIONS[-1]

    on_database(empty_database_url, check)
    on_database(empty_database_url, check)


def test_the_revisions_are_those_that_alembic_finds() -> None:
    script = ScriptDirectory(str(schema.MIGRATIONS))
    assert tuple(sorted(each.revision for each in script.walk_revisions())) == schema.REVISIONS
    assert schema.REVISIONS[-1] == script.get_current_head()


def test_a_database_of_the_first_version_is_brought_up_to_date(empty_database_url: str) -> None:
    engine = connect(empty_database_url)
    with engine.begin() as connection:
        schema.migrate(connection, "0001")
        principals.add(connection, Principal("p", "me", admin=True), NOW)
        connection.exec_driver_sql("INSERT INTO workspaces (id, principal_id, created) VALUES ('s', 'p', 1)")
        columns = (
            "id, principal_id, workspace_id, name, status, environment, generation, created, last_activity, expires"
        )
        labels = "X'7B7D'" if engine.dialect.name == "sqlite" else "'{}'"
        connection.exec_driver_sql(
            f"INSERT INTO sessions ({columns}, timeout_seconds, idle_timeout_seconds, labels, executions)"
            f" VALUES ('s', 'p', 's', 'n', 'READY', 'python', 1, 1, 1, 1, 1, 1, {labels}, 0)"
        )
    engine.dispose()

    async def check(database: Database) -> None:
        [row] = await database.run(sessions.list_live)
        assert (row.record.runtime, row.record.network.mode) == ("", "SANDBOX")
        await database.run(lambda c: audit.add_all(c, [AuditRow(NOW, "api", "Start", allowed=True, principal_id="p")]))
        rows, _ = await database.run(lambda c: audit.list_of(c, AuditFilter(), 10, None))
        assert [each.principal for each in rows] == ["me"]

    on_database(empty_database_url, check)


def test_a_database_of_a_newer_version_is_refused(database_url: str) -> None:
    async def nothing(_database: Database) -> None: ...

    on_database(database_url, nothing)
    engine = connect(database_url)
    with engine.begin() as raw:
        raw.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    with pytest.raises(errors.DatabaseTooNew, match="9999"):
        on_database(database_url, nothing)


def test_rows_come_back_as_they_went_in(database_url: str) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        await database.run(lambda c: executions.add(c, an_execution("e", "key")))
        row = await database.run(lambda c: executions.find(c, "s", "e"))
        assert row == an_execution("e", "key")
        session = await database.run(lambda c: sessions.find(c, "s", "p"))
        assert session is not None
        assert (session.created, session.labels) == (NOW, {"a": "é"})
        assert await database.run(lambda c: sessions.find(c, "s", "somebody")) is None
        with pytest.raises(IntegrityError):
            await database.run(lambda c: executions.add(c, an_execution("f", "key")))
        await database.run(lambda c: executions.add(c, an_execution("g")))
        page, cursor = await database.run(lambda c: executions.list_of(c, "s", 1, None))
        rest, end = await database.run(lambda c: executions.list_of(c, "s", 1, cursor))
        assert ([each.id for each in page + rest], end) == (["e", "g"], None)
        for cursor in ("!", "é", "bm8="):
            with pytest.raises(errors.InvalidRequest):
                await database.run(lambda c, cursor=cursor: executions.list_of(c, "s", 1, cursor))

    on_database(database_url, check)


def test_a_workspace_has_one_live_session(database_url: str) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        second = SessionRow("t", "p", "s", "n", "python", 1, NOW, NOW, NOW + 10, 10, 10, None, {})
        with pytest.raises(IntegrityError):
            await database.run(lambda c: sessions.add(c, second))
        record = sessions.Record()
        for reason in ("stopped", "ttl"):
            await database.run(
                lambda c, reason=reason: sessions.end(c, "s", reason=reason, detail="", now=NOW, record=record)
            )
        await database.run(lambda c: sessions.add(c, second))
        row = await database.run(lambda c: sessions.find(c, "s"))
        assert row is not None
        assert row.ended_reason == "stopped", "it ends once"

    on_database(database_url, check)


def test_a_row_that_begins_at_once_is_as_one_that_begins_later(database_url: str) -> None:
    async def check(database: Database) -> None:
        await one_session(database)
        await database.run(lambda c: executions.add(c, an_execution("e"), begun=3))
        await database.run(lambda c: executions.add(c, an_execution("f")))
        await database.run(lambda c: executions.begin(c, "f", 3, an_execution("f").queued))
        once = await database.run(lambda c: executions.find(c, "s", "e"))
        later = await database.run(lambda c: executions.find(c, "s", "f"))
        assert once is not None
        assert later is not None
        assert (once.status, once.generation, once.started) == ("running", 3, once.queued)
        assert msgspec.structs.replace(once, id="f") == later

    on_database(database_url, check)


def test_nobody_waits_for_a_database_that_is_closed(database_url: str) -> None:
    async def run() -> None:
        database = Database(database_url)
        await database.open()
        await database.aclose()
        for _ in range(2):
            with pytest.raises(RuntimeError):
                await database.run(lambda c: principals.find_by_name(c, "a"))

    asyncio.run(run())


KILLED = """
import asyncio, os, sys
from kernel_gateway.storage import principals
from kernel_gateway.storage.database import Database
from kernel_gateway.identity.principal import Principal

async def main():
    database = Database(sys.argv[1])
    await database.open()
    for number in range(10_000):
        await database.run(lambda c: principals.add(c, Principal(str(number), str(number), False), 1.0))
        os.write(1, b"%d\\n" % number)

asyncio.run(main())
"""


def test_what_was_acknowledged_survives_a_kill(database_url: str) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, database_url], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        acknowledged = [writer.stdout.readline() for _ in range(50)]
        writer.kill()
        acknowledged += writer.stdout.readlines()

    async def check(database: Database) -> None:
        last = acknowledged[-1].strip()
        assert await database.run(lambda c: principals.find_by_name(c, last)) is not None

    on_database(database_url, check)


def test_the_first_administrator_and_tokens(database_url: str) -> None:
    async def check(database: Database) -> None:
        identity = Identity(database)
        tokens = Tokens(database, identity, SystemClock())
        first = await identity.open("", NOW)
        assert first is not None
        assert await identity.open("", NOW) is None
        admin = (await identity.authenticate(first)).principal
        assert admin.admin
        assert await identity.open("a-given-token", NOW) is None
        assert (await identity.authenticate("a-given-token")).principal == admin
        made = await tokens.create(admin, "somebody", "laptop")
        somebody = (await identity.authenticate(made.token or "")).principal
        assert not somebody.admin
        with pytest.raises(errors.Forbidden):
            await tokens.list(somebody)
        listed = (await tokens.list(admin)).items
        assert [each.name for each in listed] == ["first", "SANDCELL_TOKEN", "laptop"]
        assert all(each.token is None for each in listed)
        await tokens.revoke(admin, made.id)
        for wrong in (made.token or "", "", "wrong", "x" * 5000, "\ud800"):
            with pytest.raises(errors.Unauthorized):
                await identity.authenticate(wrong)
        with pytest.raises(errors.NotFound):
            await tokens.revoke(admin, "nothing")
        for bad in ("", "a b", "x" * 101, "-x"):
            with pytest.raises(errors.InvalidRequest):
                await tokens.create(admin, bad)
        for each in listed:
            await tokens.revoke(admin, each.id)
        with pytest.raises(errors.SettingInvalid, match="revoked"):
            await identity.open("a-given-token", NOW)
        assert await identity.open("", NOW) is not None, "nobody is locked out for good"
        tokens_stored = await database.run(lambda c: c.exec_driver_sql("SELECT * FROM tokens").all())
        assert first not in repr(tokens_stored)

    on_database(database_url, check)


def test_the_files_that_later_executions_left_are_known_where_all_of_them_are_told(database_url: str) -> None:
    def left(*paths: str, change: str = "added", **more: object) -> dict[str, object]:
        return {"files": [{"path": each, "change": change} for each in paths], **more}

    async def check(database: Database) -> None:
        async def ran(name: str, provenance: dict[str, object] | None) -> None:
            row = msgspec.structs.replace(an_execution(name), started=NOW, ended=NOW, provenance=provenance)
            await database.run(lambda c: executions.add_ended(c, row))

        async def after(name: str) -> executions.WrittenFiles:
            return await database.run(lambda c: executions.find_written_after(c, "s", name))

        await one_session(database)
        await ran("first", left("a"))
        await ran("second", left("b", "c"))
        await ran("third", left("a", change="removed"))
        await ran("late", {"late_of": "second"})
        assert await after("") == executions.WrittenFiles(frozenset("abc"), complete=True)
        assert await after("first") == executions.WrittenFiles(frozenset("bc"), complete=True)
        assert await after("second") == executions.WrittenFiles(frozenset(), complete=True)
        assert await after("absent") == executions.WrittenFiles()
        await ran("many", left("d", files_omitted=1))
        assert await after("third") == executions.WrittenFiles(frozenset("d"))
        for unknown in ({"files_unknown": "the sandbox is gone"}, None):
            await ran(f"unknown {unknown}", unknown)
            assert not (await after("many")).complete

    on_database(database_url, check)
