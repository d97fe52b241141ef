"""SQLite: one connection (WAL, foreign keys, a busy timeout), and files that are their owner's alone."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, Engine, PoolProxiedConnection, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from kernel_gateway.errors import DatabaseUnavailable, GatewayError, NoSpace, StartRefused

BUSY_SECONDS = 5


def make_engine(url: URL) -> Engine:
    """One connection, whose transactions take the one writer's place at their beginning."""
    path = url.database
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


@contextlib.contextmanager
def beside_a_service(url: URL, *, read_only: bool) -> Iterator[Connection]:
    """A connection of its own in a transaction; what it writes is the caller's to commit. Raises StartRefused."""
    path = url.database
    if path and path != ":memory:" and not path.startswith("file:") and not os.access(path, os.R_OK):
        raise StartRefused(
            f"there is no database {path} that this user may read; --data-dir or SANDCELL_DATA_DIR names the service's"
        )
    engine = create_engine(_existing(url))
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
            if read_only:
                connection.exec_driver_sql("PRAGMA query_only = ON")
            connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
            yield connection
    finally:
        engine.dispose()


def translate(error: DBAPIError) -> GatewayError | None:
    """Our error for a full disk or an absent database; a constraint or a broken statement stays what it is."""
    if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return NoSpace("the disk that holds the database is full")
    if type(error).__name__ == "OperationalError":
        return DatabaseUnavailable(f"the database cannot be used: {error.orig}")
    return None


def _existing(url: URL) -> URL:
    """The address of a SQLite database that is not made when it is gone by now.

    Root, who may be asking, would own it, and the service could not open its own. The files that SQLite makes next to
    a database it gives to the database's owner by itself.
    """
    path = url.database
    if not path or path == ":memory:" or path.startswith("file:"):
        return url
    return url.set(database=f"file:{quote(path)}", query={**url.query, "mode": "rw", "uri": "true"})


def _close_to_others(path: Path) -> None:
    """The file, made if need be, for its owner alone; SQLite gives what it makes next to it the same mode."""
    with contextlib.suppress(OSError):  # what cannot be opened says so when it is
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for name in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                path.with_name(path.name + name).chmod(0o600)
