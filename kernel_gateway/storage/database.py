"""One database: its engine, and `run`, which carries out a query in one transaction off the loop.

SQLite gets one thread and one connection (WAL, foreign keys, a busy timeout): one writer is all it has, and a second
thread would only wait. Queries that wait for it share a transaction (`shared_transactions`). Committed work survives a
`kill -9` of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, PoolProxiedConnection, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import DBAPIError

from kernel_gateway.errors import DatabaseUnavailable, GatewayError, NoSpace, StartRefused
from kernel_gateway.storage.migrations import schema
from kernel_gateway.storage.shared_transactions import SharedTransactions

T = TypeVar("T")
BUSY_SECONDS = 5
DEADLINE_SECONDS = 30.0
TOO_LATE = "the database did not answer in time"
THREADS = 8
"""Threads, and so connections, for a database other than SQLite."""


class Database:
    """Open it, run queries, close it."""

    def __init__(self, url: str) -> None:
        self._sqlite = make_url(url).get_backend_name() == "sqlite"
        self._engine = _sqlite_engine(url) if self._sqlite else create_engine(url, pool_size=THREADS)
        self._kept: Connection | None = None
        self._executor = ThreadPoolExecutor(1 if self._sqlite else THREADS, thread_name_prefix="database")
        self._shared: SharedTransactions | None = None
        if self._sqlite:
            self._shared = SharedTransactions(self._executor, self._transaction, deadline_seconds=DEADLINE_SECONDS)

    @property
    def sole_user(self) -> bool:
        """Whether only this process writes here, so that what it has read may be remembered."""
        return self._sqlite

    async def open(self) -> None:
        """Bring the tables to this version; raises StartRefused (DatabaseTooNew among them)."""
        try:
            await self._in_thread(lambda: _migrate(self._engine))
        except DBAPIError as error:
            raise StartRefused(f"the database cannot be opened: {error.orig}") from error

    async def run(self, query: Callable[[Connection], T]) -> T:
        """Run a query in one transaction, committed when this returns; on an exception nothing of it stays.

        It may be called twice, the first time without effect, and share its transaction with others.
        """
        try:
            if self._shared is None:
                return await self._in_thread(lambda: self._transaction(query))
            return await self._shared.run(query)
        except TimeoutError:
            raise DatabaseUnavailable(TOO_LATE) from None
        except DBAPIError as error:
            ours = _translate(error)
            if ours is None:
                raise
            raise ours from error

    async def aclose(self) -> None:
        """Wait for what runs, then close every connection."""
        try:
            await self._in_thread(self._dispose)
        finally:
            self._executor.shutdown(wait=False)

    def _transaction(self, query: Callable[[Connection], T]) -> T:
        if not self._sqlite:
            with self._engine.begin() as connection:
                return query(connection)
        # SQLite's one thread keeps its connection: taking it from the pool costs as much as a short transaction.
        if self._kept is None or self._kept.closed or self._kept.invalidated:
            self._kept = self._engine.connect()
        with self._kept.begin():
            return query(self._kept)

    def _dispose(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._engine.dispose()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await _in_time(asyncio.get_running_loop().run_in_executor(self._executor, work))


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await answer
    except TimeoutError:
        raise DatabaseUnavailable(TOO_LATE) from None


def reading(url: str) -> contextlib.AbstractContextManager[Connection]:
    """One transaction that sees the database as it is now, changes nothing and delays no writer of a running service.

    Raises StartRefused when there is no such database, or it is not of this version.
    """
    return _beside_a_service(url, read_only=True)


def writing(url: str) -> contextlib.AbstractContextManager[Connection]:
    """One transaction beside a service that may run; committed unless an exception leaves it. Raises as `reading`."""
    return _beside_a_service(url, read_only=False)


@contextlib.contextmanager
def _beside_a_service(url: str, *, read_only: bool) -> Iterator[Connection]:
    sqlite = make_url(url).get_backend_name() == "sqlite"
    path = make_url(url).database if sqlite else None
    if path and path != ":memory:" and not path.startswith("file:") and not os.access(path, os.R_OK):
        raise StartRefused(
            f"there is no database {path} that this user may read; --data-dir or SANDCELL_DATA_DIR names the service's"
        )
    engine = create_engine(_existing(url)) if sqlite else create_engine(url, isolation_level="REPEATABLE READ")
    try:
        with engine.connect() as connection:
            if sqlite:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
                if read_only:
                    connection.exec_driver_sql("PRAGMA query_only = ON")
                connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
            schema.require_up_to_date(connection)
            yield connection
            if not read_only:
                connection.commit()
    except DBAPIError as error:
        raise StartRefused(f"the database cannot be {'read' if read_only else 'written'}: {error.orig}") from error
    finally:
        engine.dispose()


def _existing(url: str) -> URL:
    """The address of a SQLite database that is not made when it is gone by now.

    Root, who may be asking, would own it, and the service could not open its own. The files that SQLite makes next to
    a database it gives to the database's owner by itself.
    """
    parts = make_url(url)
    path = parts.database
    if not path or path == ":memory:" or path.startswith("file:"):
        return parts
    return parts.set(database=f"file:{quote(path)}", query={**parts.query, "mode": "rw", "uri": "true"})


def _sqlite_engine(url: str) -> Engine:
    path = make_url(url).database
    if path and path != ":memory:":
        Path(path).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.startswith("file:"):  # an address, with options
            _close_to_others(Path(path))
    engine = create_engine(url, pool_size=1, max_overflow=0, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        for pragma in (
            f"busy_timeout = {BUSY_SECONDS * 1000}",
            "journal_mode = WAL",
            "synchronous = NORMAL",
            "foreign_keys = ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    # Not by an event of the engine's: with one, each statement asks whether anybody listens, a tenth of its time.
    engine.dialect.do_begin = _begin_immediately  # type: ignore[assignment, method-assign]
    return engine


def _begin_immediately(connection: PoolProxiedConnection) -> None:
    """Called by the engine as a transaction begins: what it has read must not change until it writes."""
    connection.cursor().execute("BEGIN IMMEDIATE")


def _close_to_others(path: Path) -> None:
    """The file, made if need be, for its owner alone; SQLite gives what it makes next to it the same mode."""
    with contextlib.suppress(OSError):  # what cannot be opened says so when it is
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for name in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + name).chmod(0o600)


def _migrate(engine: Engine) -> None:
    with engine.begin() as connection:
        schema.bring_up_to_date(connection)


def _translate(error: DBAPIError) -> GatewayError | None:
    """Our error for a full disk or an absent database; a constraint or a broken statement stays what it is."""
    if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return NoSpace("the disk that holds the database is full")
    if type(error).__name__ == "OperationalError":
        return DatabaseUnavailable(f"the database cannot be used: {error.orig}")
    return None
