"""One database: its engine, and `run`, which carries out a query in one transaction off the loop.

SQLite gets one thread and one connection: one writer is all it has, and a second thread would only wait. Queries that
wait for it share a transaction (`engines.shared_transactions`). PostgreSQL gets threads, each with a connection.
Committed work survives a `kill -9` of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import structlog
from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from kernel_gateway import metrics
from kernel_gateway.errors import DatabaseUnavailable, SettingInvalid, StartRefused
from kernel_gateway.storage.engines import postgresql, sqlite
from kernel_gateway.storage.engines.lease import Lease
from kernel_gateway.storage.engines.shared_transactions import GivenUp, SharedTransactions
from kernel_gateway.storage.locks import hold
from kernel_gateway.storage.migrations import schema
from kernel_gateway.storage.states.gateways import Place

log = structlog.get_logger(__name__)
T = TypeVar("T")
DEADLINE_SECONDS = 30.0
TOO_LATE = "the database did not answer in time"
CLAIM_SECONDS = 15.0
"""How long a start waits for the end of a service that has the database and was killed a moment ago."""
THREADS = 8
"""Threads, and so connections, for a database other than SQLite."""


class Database:
    """Open it, run queries, close it."""

    def __init__(self, url: str, place: Place | None = None) -> None:
        """`place` is that of one of several gateways. Raises StartRefused, SettingInvalid among them."""
        parts = _parse(url)
        self._sqlite = _is_sqlite(parts)
        self._claim = None if self._sqlite else postgresql.Claim(parts, place)
        self._engine = postgresql.make_engine(parts, THREADS, self._claim) if self._claim else sqlite.make_engine(parts)
        self._kept: Connection | None = None
        self._executor = ThreadPoolExecutor(1 if self._sqlite else THREADS, thread_name_prefix="database")
        self._shared: SharedTransactions | None = None
        if self._sqlite:
            self._shared = SharedTransactions(self._executor, self._transaction, deadline_seconds=DEADLINE_SECONDS)

    @property
    def lease(self) -> Lease | None:
        """That of one of several gateways; None where the database is this service's alone."""
        return None if self._claim is None else self._claim.lease

    def require_lease(self) -> None:
        """Blocking: of several gateways this one may begin something; raises DatabaseUnavailable."""
        try:
            if self.lease is not None:
                self.lease.require()
        except DBAPIError as error:
            log.warning("database_failed", error=str(error.orig))
            raise DatabaseUnavailable("the gateway's lease cannot be renewed") from error

    async def open(self) -> None:
        """Bring the tables to this version; raises StartRefused (DatabaseTooNew among them)."""
        try:
            await self._in_thread(self._prepare)
        except DBAPIError as error:
            raise StartRefused(f"the database cannot be opened: {error.orig}") from error

    async def run(self, query: Callable[[Connection], T]) -> T:
        """Run a query in one transaction, committed when this returns; on an exception nothing of it stays.

        It may be called more than once, before the last time without effect, and share its transaction with others.
        What has not come to its commit by the deadline, or when the caller is cancelled, is rolled back.
        """
        began = time.monotonic()
        try:
            if self._shared is None:
                found = await self._run_apart(query)
            else:
                found = await self._shared.run(query)
        except TimeoutError:
            metrics.count_query_error()
            raise DatabaseUnavailable(TOO_LATE) from None
        except DBAPIError as error:
            ours = sqlite.translate(error) if self._sqlite else postgresql.translate(error)
            if ours is None:
                raise
            if not self._sqlite:  # whose words are in the error that callers get
                log.warning("database_failed", error=str(error.orig))
            metrics.count_query_error()
            raise ours from error
        metrics.note_query(began)
        return found

    async def aclose(self) -> None:
        """Wait for what runs, then close every connection."""
        if self._shared is not None:
            self._shared.leave()
        try:
            await self._in_thread(self._dispose)
        finally:
            self._executor.shutdown(wait=False)

    def _prepare(self) -> None:
        if self._claim is not None:
            self._claim.take(CLAIM_SECONDS)
        with self._engine.begin() as connection:
            if not self._sqlite:
                postgresql.require_usable(connection)
            hold(connection, "tables")  # of gateways that start at once one makes them
            if self.lease is not None and schema.disturbs_others(connection):
                self.lease.require_alone(connection)
            schema.bring_up_to_date(connection)
            if self.lease is not None:
                self.lease.begin(connection)

    def _transaction(self, query: Callable[[Connection], T]) -> T:
        if self._claim is not None:
            return postgresql.carry_out(self._engine, self._claim, query)
        # SQLite's one thread keeps its connection: taking it from the pool costs as much as a short transaction.
        if self._kept is None or self._kept.closed or self._kept.invalidated:
            self._kept = self._engine.connect()
        with self._kept.begin():
            return query(self._kept)

    async def _run_apart(self, query: Callable[[Connection], T]) -> T:
        """In a transaction of its own; raises TimeoutError."""
        caller = _Caller()
        carry_out = partial(self._transaction, partial(caller.ask, query))
        work = asyncio.get_running_loop().run_in_executor(self._executor, carry_out)
        work.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait({work}, timeout=DEADLINE_SECONDS)
            if not work.done() and not caller.give_up():
                await asyncio.wait({work}, timeout=DEADLINE_SECONDS)  # its commit is under way
        except asyncio.CancelledError:
            caller.give_up()
            work.cancel()  # where it has not begun it never will
            raise
        if not work.done():
            work.cancel()
            raise TimeoutError
        try:
            return work.result()
        except GivenUp:  # its commit was broken off and tried again, past the deadline
            raise TimeoutError from None

    def _dispose(self) -> None:
        if self._kept is not None:
            self._kept.close()
        self._engine.dispose()
        if self._claim is not None:
            self._claim.release()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await _in_time(asyncio.get_running_loop().run_in_executor(self._executor, work))


class _Caller:
    """Who waits for a transaction, as its thread sees it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._gave_up = self._commits = False

    def ask(self, query: Callable[[Connection], T], connection: Connection) -> T:
        """In the thread: what the query gives, unless nobody waits for its commit; then raises GivenUp."""
        self._require(commits=False)
        found = query(connection)
        self._require(commits=True)
        return found

    def _require(self, *, commits: bool) -> None:
        with self._guard:
            if self._gave_up:
                raise GivenUp
            self._commits = commits

    def give_up(self) -> bool:
        """Whether nothing of it stays; else its commit is under way."""
        with self._guard:
            self._gave_up = True
            return not self._commits


async def _in_time(answer: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await answer
    except TimeoutError:
        metrics.count_query_error()
        raise DatabaseUnavailable(TOO_LATE) from None


def reading(url: str) -> contextlib.AbstractContextManager[Connection]:
    """One transaction that sees the database as it is now, changes nothing and delays no writer of a running service.

    Raises StartRefused when there is no such database, or it is not of this version.
    """
    return _beside_a_service(url, read_only=True)


def writing(url: str) -> contextlib.AbstractContextManager[Connection]:
    """One transaction beside a service that may run; committed unless an exception leaves it. Raises as `reading`."""
    return _beside_a_service(url, read_only=False)


def describe(url: str) -> str:
    """What a service would find at a PostgreSQL server, for a person; changes nothing. Raises StartRefused."""
    parts = _parse(url)
    try:
        with postgresql.beside_a_service(parts, read_only=True) as connection:
            postgresql.require_usable(connection)
            found = connection.exec_driver_sql("SELECT current_setting('server_version'), current_database()").one()
    except DBAPIError as error:
        raise StartRefused(f"the database cannot be opened: {error.orig}") from error
    return "PostgreSQL {}, database {}".format(*found)


@contextlib.contextmanager
def _beside_a_service(url: str, *, read_only: bool) -> Iterator[Connection]:
    parts = _parse(url)
    connect = sqlite.beside_a_service if _is_sqlite(parts) else postgresql.beside_a_service
    try:
        with connect(parts, read_only=read_only) as connection:
            schema.require_up_to_date(connection)
            yield connection
            if not read_only:
                connection.commit()
    except DBAPIError as error:
        raise StartRefused(f"the database cannot be {'read' if read_only else 'written'}: {error.orig}") from error


def _parse(url: str) -> URL:
    """Raises SettingInvalid, without the URL: it may have a password."""
    with contextlib.suppress(ArgumentError, ValueError):
        parts = make_url(url)
        if parts.drivername in {"sqlite", "sqlite+pysqlite", "postgres", "postgresql", "postgresql+psycopg"}:
            return parts
    raise SettingInvalid(
        "database must be postgresql://user:password@host:5432/name or sqlite:////absolute/path, or empty"
    )


def _is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"
