"""Queries on what each of several gateways has counted against limits of how often: each writes its own, all read all.

Times are the database's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlalchemy import BigInteger, Connection, cast, delete, extract, func, select, text

from kernel_gateway.storage.columns import micros
from kernel_gateway.storage.states.gateways import own
from kernel_gateway.storage.tables import uses

Counted = Mapping[tuple[str, str], int]
"""How many of what, by which key, since they are counted."""
KEPT_SECONDS: Final = 60.0
"""How long a count stands that does not change: who has not used anything for so long begins at nothing."""
SEEN_SECONDS: Final = 5.0
"""What has changed within them is read, so that a look that is late or fails misses nothing."""
_NOW: Final = cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
_PUT: Final = text(
    "INSERT INTO uses (gateway_id, what, key, taken, at)"
    " VALUES (:id, :what, :key, :taken, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
    " ON CONFLICT (gateway_id, what, key) DO UPDATE SET taken = excluded.taken, at = excluded.at"
)


def exchange(
    connection: Connection, changed: Counted, seen_seconds: float = SEEN_SECONDS
) -> dict[tuple[str, str, str], int]:
    """Write what this gateway has counted, and read what the others have lately: by gateway, what, and key."""
    gateway = own(connection)
    rows = [{"id": gateway, "what": what, "key": key, "taken": n} for (what, key), n in sorted(changed.items())]
    if rows:
        connection.execute(_PUT, rows)
    lately = select(uses).where(uses.c.gateway_id != gateway, uses.c.at > _NOW - micros(seen_seconds))
    found = {(row.gateway_id, row.what, row.key): row.taken for row in connection.execute(lately)}
    if changed:
        connection.execute(delete(uses).where(uses.c.gateway_id == gateway, uses.c.at < _NOW - micros(KEPT_SECONDS)))
    return found
