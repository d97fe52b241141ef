"""Which revision a database's tables are at, and how they get to this version's.

Alembic migrates tables that are there. It takes a fifth of the processor time of a start to import, so a database that
is up to date does without it, and so does an empty SQLite file, in which the tables are made as they are declared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, select

from kernel_gateway.errors import DatabaseTooNew, StartRefused
from kernel_gateway.storage.tables import metadata

MIGRATIONS: Final = Path(__file__).parent
REVISIONS: Final = tuple(sorted(file.name[1:5] for file in (MIGRATIONS / "versions").glob("v[0-9]*.py")))
"""Every revision that this version knows, by the names of the files in which they are; the newest is the last."""
ADDING: Final = frozenset({"0021", "0022"})
"""Those that only add what the version before does without: its gateways go on beside ours while they are replaced."""
_VERSION: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""As Alembic makes it."""


def bring_up_to_date(connection: Connection) -> None:
    """Make or migrate the tables, in the connection's transaction; raises DatabaseTooNew."""
    present = _find_revision(connection)
    if present == REVISIONS[-1]:
        return
    # PostgreSQL keeps Alembic's way: that both ways make the same is only shown for SQLite.
    if present is None and connection.dialect.name == "sqlite" and not inspect(connection).get_table_names():
        metadata.create_all(connection)
        _VERSION.create(connection)
        connection.execute(insert(_VERSION).values(version_num=REVISIONS[-1]))
        return
    migrate(connection, "head")


def disturbs_others(connection: Connection) -> bool:
    """Whether bringing the tables to this version takes away from a service of before; raises DatabaseTooNew."""
    present = _find_revision(connection)
    return present is None or any(each > present and each not in ADDING for each in REVISIONS)


def require_up_to_date(connection: Connection) -> None:
    """Raise StartRefused when the tables are not those of this version, DatabaseTooNew when they are a newer one's."""
    present = _find_revision(connection)
    if present != REVISIONS[-1]:
        raise StartRefused(
            f"the database is at revision {present}, and this version has {REVISIONS[-1]}: start its service first"
        )


def migrate(connection: Connection, revision: str) -> None:
    """Have Alembic bring the tables to a revision."""
    from alembic import command  # noqa: PLC0415 - most starts do without it
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _find_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION.name):
        return None
    present = connection.scalar(select(_VERSION.c.version_num))
    if present is not None and present not in REVISIONS:
        raise DatabaseTooNew(
            f"the database is at revision {present}, which this version does not know: "
            "start the newer version of Sandcell that wrote it, or give another database"
        )
    return present
