"""A real PostgreSQL server of the tests' own: a Unix socket in a temporary directory, and no other way to it.

PostgreSQL refuses to run as root: it runs as the user of Debian's package, or as nobody. Its files are never synced, so
that it starts within a second; what a test kills is a service or a connection, never the host.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine
from sqlalchemy.exc import DBAPIError

from kernel_gateway.storage.migrations import schema

MIGRATED = "migrated"
OWNER = "sandcell"


def find_programs() -> Path | None:
    """The directory of `initdb` and `postgres`: Debian has it outside of PATH."""
    found = [Path(each) for each in (shutil.which("initdb"),) if each]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), reverse=True)
    return found[0].resolve().parent if found else None


class PostgresqlServer:
    """Makes databases, each with an address for the setting `database`."""

    def __init__(self, programs: Path, directory: Path) -> None:
        self._programs, self._directory = programs, directory
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        user = pwd.getpwnam("postgres" if _has_user("postgres") else "nobody")
        self._as: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        if os.geteuid() != 0:
            self._as = {}
        else:
            os.chown(directory, user.pw_uid, user.pw_gid)
        directory.chmod(0o711)  # the socket is for the service's user as well

    def create(self) -> None:
        """Make its files, start it, and make the database that others are copies of."""
        choices = (f"--username={OWNER}", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        command = [self._programs / "initdb", "--pgdata", self._directory / "data", *choices]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, cwd=self._directory, **self._as
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.start()
        self.run(f"CREATE DATABASE {MIGRATED}")
        engine = self.connect(MIGRATED)
        with engine.begin() as connection:
            schema.bring_up_to_date(connection)
        engine.dispose()

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = ("listen_addresses=", "fsync=off", "max_connections=200", "shared_buffers=16MB", "autovacuum=off")
        self._log = (self._directory / "log").open("ab")
        self._process = subprocess.Popen(
            [
                *(self._programs / "postgres", "-D", self._directory / "data", "-k", self._directory),
                *(each for option in options for each in ("-c", option)),
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
            cwd=self._directory,
            **self._as,
        )
        give_up = time.monotonic() + 120
        while True:
            with suppress(DBAPIError):
                return self.run("SELECT 1")
            log = (self._directory / "log").read_text()
            assert self._process.poll() is None, log
            assert time.monotonic() < give_up, log
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it; its connections are closed. SIGQUIT: at once, as in a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(120)
            self._process = None
            self._log.close()

    def create_database(self, *, migrated: bool = True, options: str = "") -> str:
        """The address of a new database: with the tables of this version, or empty."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} {f'TEMPLATE {MIGRATED}' if migrated else ''} {options}")
        return self.address(name)

    def address(self, database: str) -> str:
        return f"postgresql://{OWNER}@/{database}?host={self._directory}"

    def connect(self, database: str = "postgres", **options: Any) -> Engine:
        """An engine besides the service's."""
        return create_engine(self.address(database).replace("postgresql:", "postgresql+psycopg:"), **options)

    def run(self, statement: str, database: str = "postgres") -> None:
        """One statement, outside of any transaction."""
        engine = self.connect(database, isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql(statement)
        finally:
            engine.dispose()


@contextmanager
def postgresql_server(programs: Path) -> Iterator[PostgresqlServer]:
    """One that is stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="scpg", dir="/tmp") as directory:  # short: it has a socket
        server = PostgresqlServer(programs, Path(directory))
        try:
            server.create()
            yield server
        finally:
            server.stop(signal.SIGQUIT)


def _has_user(name: str) -> bool:
    with suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False
