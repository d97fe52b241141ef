"""PostgreSQL: how connections are made, what its errors mean, and which of them another attempt cures.

Transactions are READ COMMITTED, several at once. What is decided by what was read stays true until the commit because
its row is locked (`with_for_update`), a unique index refuses the second one, or `storage.locks.hold` keeps others out.
psycopg is the driver: LGPL, used as it is and replaceable, and an extra of the distribution (`postgresql`).

One service uses a database: `Claim` is its lock on it, which ends with the connection that has it. Several gateways
share that lock, and each has a `Lease` besides.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, func, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from kernel_gateway.errors import DatabaseUnavailable, GatewayError, NoSpace, StartRefused
from kernel_gateway.storage.engines.lease import Lease
from kernel_gateway.storage.states.gateways import OPTION, Place

T = TypeVar("T")
STATEMENT_SECONDS: Final = 30
LOCK_SECONDS: Final = 20
"""Longest wait for what another transaction holds: each of ours is over in milliseconds."""
TRIES: Final = 6
LOOK_SECONDS: Final = 3.0
"""How often a service that is at work looks whether the database is still its own."""
OUTCOME_SECONDS: Final = 10.0
"""How long a server is asked what became of a commit whose answer was lost."""
_PAUSE_SECONDS = 0.01
_WROTE = "wrote"
_CLAIM: Final = 0x53616E6463656C6C
"""A number that no other program's lock has, one hopes: the word Sandcell."""
_CONNECTING = {
    "connect_timeout": "10",
    "application_name": "sandcell",
    "client_encoding": "utf8",
    # A server that is gone without a word is noticed within half a minute.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
"""What libpq is told unless the URL says otherwise."""
_SET_UP = f"""
SET default_transaction_isolation = 'read committed';
SET statement_timeout = '{STATEMENT_SECONDS}s';
SET lock_timeout = '{LOCK_SECONDS}s';
SET idle_in_transaction_session_timeout = '60s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SELECT set_config(name, '0', false) FROM pg_settings WHERE name = 'idle_session_timeout';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
"""  # noqa: S608 - of constants
"""On each connection. What is acknowledged is durable, whatever the role or the database was set to; of a host that is
gone without a word the server, too, hears within half a minute."""
_STANDSTILL: Final = "SET idle_in_transaction_session_timeout = {:.0f}"
_UNDONE = frozenset({"40001", "40P01"})
"""Undone by the server for the sake of another transaction: serialization failure, deadlock."""
_DISK_FULL = "53100"
# Connection, transaction state (a standby), rollback, resources, a lock's deadline, an operator's doing, system.
_NOT_NOW = ("08", "25", "40", "53", "55", "57", "58")


class Claim:
    """That no other service uses the database, or none but further gateways. Called from any thread."""

    def __init__(self, url: URL, place: Place | None = None) -> None:
        self._engine = _make(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self.lease: Lease | None = None
        if place is not None:
            self.lease = Lease(_make(url, poolclass=NullPool, isolation_level="AUTOCOMMIT"), place)
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._looked = 0.0

    def take(self, seconds: float) -> None:
        """Wait so long for the service that has it, perhaps just killed; raises StartRefused, DBAPIError."""
        give_up = time.monotonic() + seconds
        while not self._holds():
            if time.monotonic() > give_up:
                raise StartRefused(
                    "another service uses this database: stop it, or give this one a database of its own"
                    if self.lease is None
                    else "a service that is not one of several gateways uses this database: stop it first"
                )
            time.sleep(0.2)

    def require(self, *, now: bool = False, opening: bool = False) -> None:
        """Look every few seconds, or now, whether it is still ours; raises DatabaseUnavailable, DBAPIError.

        While the database is `opening` there is no lease yet.
        """
        if (now or time.monotonic() - self._looked > LOOK_SECONDS) and not self._holds():
            raise DatabaseUnavailable("another service has taken the database of this one")
        if self.lease is not None and not opening:
            self.lease.require()

    def release(self) -> None:
        with self._guard:
            self._drop()
        self._engine.dispose()
        if self.lease is not None:
            self.lease.release()

    def _holds(self) -> bool:
        with self._guard:
            if self._connection is not None:
                try:
                    self._connection.exec_driver_sql("SELECT 1")
                except DBAPIError:  # it is lost, and with it the lock: perhaps it is still free
                    self._drop()
            if self._connection is None:
                connection = self._engine.connect()
                lock = func.pg_try_advisory_lock if self.lease is None else func.pg_try_advisory_lock_shared
                if not connection.execute(select(lock(_CLAIM))).scalar():
                    connection.close()
                    return False
                self._connection = connection
            self._looked = time.monotonic()
            return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def make_engine(url: URL, connections: int, claim: Claim) -> Engine:
    """At most so many connections, each made when it is needed and only while the database is claimed."""
    gateway = None if claim.lease is None else claim.lease.place.gateway_id
    engine = _make(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=STATEMENT_SECONDS,
        execution_options={OPTION: gateway},
    )

    @event.listens_for(engine, "after_cursor_execute")
    def note(connection: Connection, _cursor: Any, _statement: str, _values: Any, context: Any, _many: Any) -> None:
        if context.isinsert or context.isupdate or context.isdelete:
            connection.info[_WROTE] = True

    @event.listens_for(engine, "connect")
    def look(connection: Any, _record: Any) -> None:
        try:  # a server that was restarted has forgotten all locks, and ended all connections
            claim.require(now=True, opening=True)
            if claim.lease is not None:  # one that stands still between two statements holds up its own takeover
                connection.execute(_STANDSTILL.format(claim.lease.place.lease_seconds * 1000))
                connection.commit()
        except BaseException:
            connection.close()
            raise

    return engine


def _make(url: URL, **options: Any) -> Engine:
    """Raises StartRefused where the driver is missing."""
    asked = {name: value for name, value in _CONNECTING.items() if name not in url.query}
    try:
        from psycopg.types.string import StrDumper  # noqa: PLC0415 - only where the database is PostgreSQL

        engine = create_engine(url.set(drivername="postgresql+psycopg"), connect_args=asked, **options)
    except ImportError as error:
        raise StartRefused(
            f"the database is PostgreSQL, and its driver cannot be loaded ({error}): "
            "install sandcell-server with the extra postgresql, or psycopg[binary]"
        ) from error

    class TextDumper(StrDumper):
        """PostgreSQL's texts hold every character but U+0000: an end of a session must not fail for one."""

        def dump(self, obj: str) -> Any:
            return super().dump(obj.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in obj else obj)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: Any) -> None:
        connection.adapters.register_dumper(str, TextDumper)
        before = connection.autocommit
        connection.autocommit = True
        connection.execute(_SET_UP)
        connection.autocommit = before

    return engine


def require_usable(connection: Connection) -> None:
    """Raises StartRefused for a database that cannot hold every text, and for one that only follows another."""
    found = connection.exec_driver_sql("SELECT current_setting('server_encoding'), pg_is_in_recovery()").one()
    encoding, follows = found
    if encoding != "UTF8":
        raise StartRefused(
            f"the database has the encoding {encoding}, and UTF8 is needed: create it with "
            "CREATE DATABASE ... TEMPLATE template0 ENCODING 'UTF8'"
        )
    if follows:
        raise StartRefused("the database is a standby that only follows another server: give the primary's address")


def carry_out(engine: Engine, claim: Claim, query: Callable[[Connection], T]) -> T:
    """One transaction; again when nothing of it stays and another attempt may succeed, as after a deadlock."""
    claim.require()
    for attempt in range(1, TRIES + 1):
        transaction = ""
        try:
            with engine.begin() as connection:
                found = query(connection)
                transaction = _name_written(connection, claim.lease)
            return found
        except DBAPIError as error:
            lost = error.connection_invalidated
            if lost and transaction and _was_committed(engine, transaction):
                return found
            if attempt == TRIES or not (lost or _code(error) in _UNDONE):
                raise
        time.sleep(random.uniform(0, _PAUSE_SECONDS * 2**attempt))  # noqa: S311 - so that two do not meet again
    raise AssertionError("the last attempt returns or raises")


def _name_written(connection: Connection, lease: Lease | None) -> str:
    """What the server calls this transaction; empty for one that has written nothing."""
    if not connection.info.pop(_WROTE, False):
        return ""
    if lease is not None:
        return lease.fence(connection)
    driver: Any = connection.connection.driver_connection
    return str(driver.execute("SELECT pg_current_xact_id()::text").fetchone()[0])


def _was_committed(engine: Engine, transaction: str) -> bool:
    """What became of a commit during which the connection broke, once the server says so; raises DBAPIError."""
    ask = text("SELECT pg_xact_status(CAST(:it AS xid8))").bindparams(it=transaction)
    give_up = time.monotonic() + OUTCOME_SECONDS
    while True:
        try:
            with engine.connect() as connection:
                status = connection.execute(ask).scalar()
            if status in {"committed", "aborted"}:
                return bool(status == "committed")
        except DBAPIError:  # a server that restarts is back in a moment
            if time.monotonic() > give_up:
                raise
        if time.monotonic() > give_up:
            raise DatabaseUnavailable("the database did not say what became of a transaction")
        time.sleep(0.1)


@contextlib.contextmanager
def beside_a_service(url: URL, *, read_only: bool) -> Iterator[Connection]:
    """A connection of its own in a transaction that sees one moment; what it writes is the caller's to commit."""
    engine = _make(url, isolation_level="REPEATABLE READ")
    try:
        with engine.connect() as connection:
            yield connection.execution_options(postgresql_readonly=read_only)
    finally:
        engine.dispose()


def translate(error: DBAPIError) -> GatewayError | None:
    """Our error for a full disk or an absent database; a constraint or a broken statement stays what it is.

    It goes to callers, and the server's words may have its address and its user's name: they are for the log.
    """
    code = _code(error)
    if code == _DISK_FULL:
        return NoSpace("the disk that holds the database is full")
    if type(error).__name__ in {"OperationalError", "InterfaceError"} or code.startswith(_NOT_NOW):
        return DatabaseUnavailable("the database cannot be used now")
    return None


def _code(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
