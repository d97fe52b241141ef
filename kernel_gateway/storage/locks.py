"""What no row stands for is held by its name: a quota that is counted, a name that is still free.

SQLite has one writer, so that what a transaction has read stays true until its end. PostgreSQL has many: there a row
that is decided by is locked (`with_for_update`), and where there is none, `hold` keeps out who holds the same.
"""

from __future__ import annotations

import hashlib

from sqlalchemy import BigInteger, Connection, func, literal, select


def hold(connection: Connection, what: str, which: str = "") -> None:
    """Until the transaction ends nobody else holds this; waits for who does.

    Ask before looking: a statement sees what was committed when it began.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(literal(number_of(what, which), BigInteger()))))


def number_of(what: str, which: str) -> int:
    """What PostgreSQL calls it; two names with the same number would only wait for each other."""
    return int.from_bytes(hashlib.sha256(f"{what}\0{which}".encode()).digest()[:8], "big", signed=True)
