"""The chain of audit records: what was changed, removed, added or cut off is named, across restarts and retention."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from kernel_gateway.identity.audit_key import AuditKey, PublicKey
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.audit.chain import BROKEN, DIGEST_SECONDS
from kernel_gateway.services.audit.log import Audit
from kernel_gateway.services.audit.verification import Report, lines_in_order, verify_database, verify_lines
from kernel_gateway.settings import Settings
from kernel_gateway.storage import audit_chain as stored
from kernel_gateway.storage.audit import AuditFilter
from kernel_gateway.storage.database import Database, reading
from tests.doubles.turned_clock import TurnedClock

ADMIN = Principal("1", "admin", admin=True)


class Log:
    """An audit log on a database and a file of its own."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        self.settings = Settings(data_dir=str(directory), **settings)
        self.url, self.state = self.settings.database_url, self.settings.state_path
        self.clock = TurnedClock()
        self.start()

    def start(self) -> None:
        self.database = Database(self.url)
        self.audit = Audit(self.database, self.clock, self.settings)

    async def open(self) -> None:
        await self.database.open()
        await self.audit.open()

    async def close(self) -> None:
        await self.audit.close()
        await self.database.aclose()

    async def restart(self) -> None:
        await self.close()
        self.start()
        await self.open()

    async def write(self, *targets: str) -> None:
        for each in targets:
            self.audit.record("egress", "connect", allowed=True, target=each, detail={"method": "GET"})
        await self.audit.flush()

    async def sql(self, statement: str, *values: Any) -> None:
        """As somebody does who has the database and not the key."""
        await self.database.run(lambda c: c.exec_driver_sql(statement, values))

    def verify(self, key: PublicKey | None = None) -> Report:
        with reading(self.url) as connection:
            return verify_database(connection, key or self.key)

    def verify_file(self, *, alone: bool = False) -> Report:
        lines = lines_in_order([*self.state.glob("audit.jsonl*")])
        if alone:
            return verify_lines(lines, self.key)
        with reading(self.url) as connection:
            return verify_lines(lines, self.key, connection)

    @property
    def key(self) -> PublicKey:
        return AuditKey.in_directory(self.state).public

    @property
    def file(self) -> Path:
        return self.state / "audit.jsonl"


def on(directory: Path, test: Callable[[Log], Coroutine[Any, Any, None]], **settings: Any) -> None:
    async def run() -> None:
        log = Log(directory, **settings)
        await log.open()
        try:
            await test(log)
        finally:
            await log.close()

    asyncio.run(run())


def names(report: Report) -> list[int | None]:
    return [each.number for each in report.problems]


def test_what_was_written_is_whole_across_batches_digests_and_restarts(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a")
        await log.write("b", "c")
        log.clock.advance(DIGEST_SECONDS)
        await log.audit.sign()
        await log.restart()
        await log.write("d")
        log.clock.advance(DIGEST_SECONDS)
        await log.audit.sign()
        report = log.verify()
        assert (report.problems, report.records, report.first, report.last) == ([], 6, 1, 6)
        assert (report.digests, report.signed, report.outside) == (2, True, 0)
        await log.restart()
        for alone in (True, False):
            report = log.verify_file(alone=alone)
            assert (report.problems, report.records, report.digests) == ([], 6, 2)
        assert log.state.joinpath("audit.key").stat().st_mode & 0o777 == 0o600

    on(tmp_path, check)


CHANGES: list[tuple[str, Any]] = [
    ("at", 1_700_000_000_000_000),
    ("at", "never"),
    ("at", 1 << 62),
    ("principal_id", "another"),
    ("session_id", "another"),
    ("kind", "api"),
    ("event", "http"),
    ("allowed", 0),
    ("reason", "because"),
    ("reason", b"because"),
    ("target", "elsewhere"),
    ("detail", b'{"method":"PUT"}'),
    ("detail", b'{"method":"GET"]'),
    ("detail", '{"method":"GET"}'),
    ("hash", "0" * 64),
    ("hash", None),
]


def test_a_record_of_which_anything_was_changed_is_named(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b", "c", "d")
        for number in (3, 4):
            for column, value in CHANGES:
                query = f"SELECT {column} FROM audit WHERE number = {number}"
                was = await log.database.run(lambda c, query=query: c.exec_driver_sql(query).scalar_one())  # type: ignore[misc]
                await log.sql(f"UPDATE audit SET {column} = ? WHERE number = {number}", value)
                report = log.verify()
                assert names(report) == [number], (column, value)
                text = report.problems[0].text
                if isinstance(value, str) and column not in {"at", "hash", "detail"}:
                    assert "its columns were changed, its hash was not" in text
                if column == "hash":
                    assert "its hash was" in text
                await log.sql(f"UPDATE audit SET {column} = ? WHERE number = {number}", was)
                assert log.verify().whole

    on(tmp_path, check, audit_files=0)


async def _delete(log: Log) -> None:
    await log.sql("DELETE FROM audit WHERE number IN (3, 4)")


async def _swap(log: Log) -> None:
    for old, new in ((3, 99), (5, 3), (99, 5)):
        await log.sql("UPDATE audit SET number = ? WHERE number = ?", new, old)


async def _cut_the_tail(log: Log) -> None:
    await log.sql("DELETE FROM audit WHERE number >= 3")


async def _move_up(log: Log) -> None:
    await log.sql("DELETE FROM audit WHERE number = 3")
    for number in (4, 5, 6):
        await log.sql("UPDATE audit SET number = ? WHERE number = ?", number - 1, number)


async def _add(log: Log) -> None:
    columns = "at, kind, event, allowed, reason, target, detail"
    await log.sql(f"INSERT INTO audit (number, {columns}) SELECT 7, {columns} FROM audit WHERE number = 6")


async def _remove_the_oldest(log: Log) -> None:
    await log.sql("DELETE FROM audit WHERE number = 1")


@pytest.mark.parametrize(
    ("how", "number", "what"),
    [
        (_delete, 3, "records 3 to 4 are missing, made after "),
        (_swap, 3, "record 3, connect of "),
        (_cut_the_tail, 3, "records 3 to 6 are missing at the end"),
        (_move_up, 3, "record 3, connect of "),
        (_add, 7, "it was added"),
        (_remove_the_oldest, 1, "record 1 is missing"),
    ],
)
def test_records_that_are_missing_moved_or_added_are_named(tmp_path: Path, how: Any, number: int, what: str) -> None:
    async def check(log: Log) -> None:
        await log.write(*"abcdef")
        await how(log)
        report = log.verify()
        assert names(report) == [number]
        assert what in report.problems[0].text
        await log.restart()
        await log.write("later")
        assert names(log.verify()) == [number], "what is written later hides nothing"

    on(tmp_path, check, audit_files=0)


def test_an_end_that_was_forged_or_removed_is_named_and_never_continued(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write(*"abcd")
        forged = await log.database.run(lambda c: head(c) | {"number": 2, "hash": hash_of(c, 2)})
        await log.sql("DELETE FROM audit WHERE number > 2")
        await log.sql("UPDATE audit_chain SET statement = ? WHERE name = 'head'", json.dumps(forged).encode())
        [problem] = log.verify().problems
        assert "head is not signed with this key" in problem.text
        await log.restart()
        await log.write("e")
        [found] = (await log.audit.list(ADMIN, AuditFilter(event=BROKEN))).items
        assert (found.kind, found.number, found.allowed) == ("audit", 5, False)
        report = log.verify()
        assert names(report) == [3]
        assert "records 3 to 4 are missing" in report.problems[0].text
        await log.sql("DELETE FROM audit_chain WHERE name = 'floor'")
        assert [each.text for each in log.verify().problems][1:] == ["the chain's floor is gone"]

    on(tmp_path, check)


@pytest.mark.parametrize("how", ["DELETE FROM audit_chain WHERE name = 'head'", "DELETE FROM audit_chain"])
def test_a_chain_without_its_head_is_broken_for_good(tmp_path: Path, how: str) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b")
        await log.sql(how)
        assert "the chain's head is gone" in [each.text for each in log.verify().problems]
        await log.write("c")
        await log.restart()
        await log.write("d")
        report = log.verify()
        assert names(report)[0] == 3
        assert "the service found the chain broken" in report.problems[0].text
        assert report.records == 2

    on(tmp_path, check, audit_files=0)


def test_a_database_put_back_under_a_running_service_is_noticed(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b")
        old = await log.database.run(both_ends)
        await log.write("c", "d")
        await log.sql("DELETE FROM audit WHERE number > 2")
        await log.sql("UPDATE audit_chain SET statement = ?, signature = ? WHERE name = 'head'", *old)
        assert log.verify().whole, "by itself the database is what it was"
        await log.write("e")
        report = log.verify()
        assert names(report) == [3]
        assert "records 3 to 4 are missing" in report.problems[0].text

    on(tmp_path, check, audit_files=0)


def test_a_database_put_back_while_the_service_rests_is_told_by_the_file(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b")
        old = await log.database.run(both_ends)
        await log.write("c", "d")
        await log.restart()
        await log.sql("DELETE FROM audit WHERE number > 2")
        await log.sql("UPDATE audit_chain SET statement = ?, signature = ? WHERE name = 'head'", *old)
        assert log.verify().whole
        report = log.verify_file()
        assert names(report) == [3]
        assert "is not in the database" in report.problems[0].text
        assert log.verify_file(alone=True).whole

    on(tmp_path, check)


def test_another_key_does_not_verify_and_no_key_verifies_hashes_alone(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a")
        log.clock.advance(DIGEST_SECONDS)
        await log.audit.sign()
        other = AuditKey.in_directory(tmp_path / "other").public
        texts = [each.text for each in log.verify(other).problems]
        assert len(texts) == 3
        assert all("is not signed with this key" in each for each in texts)
        with reading(log.url) as connection:
            report = verify_database(connection, None)
        assert (report.whole, report.signed) == (True, False)
        log.state.joinpath("audit.key").unlink()
        await log.restart()
        await log.write("b")
        assert (
            "not signed with this service's key"
            in (await log.audit.list(ADMIN, AuditFilter(event=BROKEN))).items[0].reason
        )

    on(tmp_path, check)


def test_a_digest_of_which_anything_was_changed_is_named(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b")
        log.clock.advance(DIGEST_SECONDS)
        await log.audit.sign()
        await log.audit.sign()
        assert (await log.database.run(head))["number"] == 3, "one digest, and none of the digest alone"
        await log.restart()
        text = log.file.read_text()
        digest = json.loads(text.splitlines()[-1])["additionalEventData"]["detail"]
        assert digest["digest"]["first"] == 1
        assert digest["digest"]["last"] == 2
        assert digest["digest"]["key"] == log.key.text
        log.file.write_text(text.replace('"first":1', '"first":2'))
        assert names(log.verify_file()) == [3]

    on(tmp_path, check)


def test_retention_moves_the_floor_and_what_is_kept_stays_whole(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("old", "old")
        log.clock.advance(86_400 * 2 + 1)
        await log.write("new", "newer")
        await log.audit.sweep()
        report = log.verify()
        assert (report.problems, report.first, report.records) == ([], 3, 2)
        await log.restart()
        assert log.verify_file().whole, "the file may have what retention removed from the database"
        await log.write("newest")
        assert log.verify().records == 3
        await log.sql("DELETE FROM audit WHERE number = 3")
        assert names(log.verify()) == [3]
        log.clock.advance(86_400 * 3)
        await log.audit.sweep()
        await log.write("after")
        report = log.verify()
        assert (report.problems, report.first, report.last) == ([], 6, 6)
        columns = "at, kind, event, allowed, reason, target, detail"
        await log.sql(f"INSERT INTO audit (number, {columns}) SELECT 5, {columns} FROM audit WHERE number = 6")
        assert "record 5 is there again" in log.verify().problems[0].text

    on(tmp_path, check, audit_retention_days=2)


def test_records_from_before_there_was_a_chain_are_counted_and_stay(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        columns = "number, at, kind, event, allowed, reason, target, detail"
        for number in (7, 9):
            await log.sql(f"INSERT INTO audit ({columns}) VALUES (?, 1, 'api', 'Old', 1, '', '', X'7B7D')", number)
        assert "there is no chain" in log.verify().problems[0].text
        await log.write("a")
        report = log.verify()
        assert (report.problems, report.outside, report.first) == ([], 2, 10)

    on(tmp_path, check, audit_files=0)


def test_two_writers_make_one_chain(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        other = Log(tmp_path, audit_files=0)
        await other.open()
        for number in range(10):
            for each in (log, other):
                each.audit.record("egress", "connect", allowed=True, target=str(number))
            await asyncio.gather(log.audit.flush(), other.audit.flush())
        report = log.verify()
        assert (report.problems, report.records) == ([], 20)
        await other.close()

    on(tmp_path, check)


@pytest.mark.parametrize(
    ("edit", "number", "what"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], 3, "record 3 is missing, made after "),
        (lambda lines: [lines[0], lines[2], lines[1], lines[3]], 2, "record 2 is missing"),
        (lambda lines: [lines[0], lines[1].replace(b'"b"', b'"x"'), *lines[2:]], 2, "its hash is of another line"),
        (lambda lines: [*lines[:2], b'{"eventName":"forged"}', *lines[2:]], None, ""),
        (lambda lines: [*lines, lines[3]], None, ""),
    ],
)
def test_lines_of_a_file_are_held_against_each_other(tmp_path: Path, edit: Any, number: int | None, what: str) -> None:
    async def check(log: Log) -> None:
        await log.write(*"abcd")
        await log.restart()
        lines = log.file.read_bytes().splitlines()
        log.file.write_bytes(b"".join(each + b"\n" for each in edit(lines)))
        report = log.verify_file(alone=True)
        assert names(report) == ([number] if number else [])
        assert not number or what in report.problems[0].text
        assert report.outside == (b'{"eventName":"forged"}' in log.file.read_bytes())

    on(tmp_path, check)


def test_lines_that_are_written_while_a_file_is_verified_are_left_for_the_next_time(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write("a", "b")
        await log.restart()
        lines = lines_in_order([log.file])
        with reading(log.url) as connection:
            assert stored.newest(connection) == 2
            await log.write("c")
            await log.restart()
            assert log.file.read_bytes().count(b"\n") == 3
            report = verify_lines(lines, log.key, connection)
        assert (report.problems, report.records, report.outside) == ([], 2, 0)

    on(tmp_path, check)


def test_a_file_says_what_was_changed_in_the_database(tmp_path: Path) -> None:
    async def check(log: Log) -> None:
        await log.write(*"abc")
        await log.restart()
        await log.sql("UPDATE audit SET target = 'x', principal_id = 'p' WHERE number = 2")
        [problem] = log.verify_file().problems
        assert problem.number == 2
        assert problem.text.endswith("is another in the database: target, principal_id")
        await log.sql("UPDATE audit SET target = 'b', principal_id = NULL, detail = X'7B7D' WHERE number = 2")
        assert log.verify_file().problems[0].text.endswith("is another in the database: detail")

    on(tmp_path, check)


def head(connection: Connection) -> dict[str, Any]:
    found = connection.exec_driver_sql("SELECT statement FROM audit_chain WHERE name = 'head'").scalar_one()
    return dict(json.loads(found))


def both_ends(connection: Connection) -> tuple[bytes, bytes]:
    query = "SELECT statement, signature FROM audit_chain WHERE name = 'head'"
    found = connection.exec_driver_sql(query).one()
    return found[0], found[1]


def hash_of(connection: Connection, number: int) -> str:
    return str(connection.exec_driver_sql("SELECT hash FROM audit WHERE number = ?", (number,)).scalar_one())
