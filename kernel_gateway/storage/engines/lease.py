"""The lease of one of several gateways of a PostgreSQL database: renewed all the time, and the fence at its writes.

Who has not renewed it in time may have been taken over from. So a gateway begins nothing once a part of the time has
passed (`require`), and a transaction that has written something commits only while the gateway's present life counts
(`fence`): that is asked in its last statement, which also keeps a takeover waiting until it has ended.
"""

from __future__ import annotations

import threading
import time
from typing import Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from kernel_gateway.errors import DatabaseUnavailable, StartRefused
from kernel_gateway.storage.states import gateways
from kernel_gateway.storage.states.gateways import Place

OWN_PART: Final = 0.6
"""Of the lease, counted from when its renewal was asked for: what is begun before may end until others take over."""
LOST: Final = "another gateway has taken over from this one"
_RENEW: Final = text(
    "UPDATE gateways SET expires = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + :lease"
    " WHERE id = :id AND epoch = :epoch"
)
_FENCE: Final = "SELECT pg_current_xact_id()::text FROM gateways WHERE id = %(id)s AND epoch = %(epoch)s FOR KEY SHARE"


class Lease:
    """`begin` once, `renew` again and again. Called from any thread; what is `lost` stays so."""

    def __init__(self, engine: Engine, place: Place) -> None:
        self.place = place
        self.lost = False
        self.left = False
        """Whether the gateway ends: nothing renews it any more."""
        self._engine = engine
        self._epoch = 0
        self._own_until = 0.0
        self._guard = threading.Lock()
        self._connection: Connection | None = None
        self._shown = False
        """Whether the connection shows already that the gateway lives: an earlier one, just lost, may still do."""

    @property
    def begun(self) -> bool:
        """Whether the gateway lives, or has lived."""
        return self._epoch > 0

    def require_alone(self, connection: Connection) -> None:
        """Called before tables are changed that others would not find as they know them; raises StartRefused."""
        if gateways.has_others(connection, self.place.gateway_id):
            raise StartRefused("other gateways use this database with another version of its tables: stop them first")

    def begin(self, connection: Connection) -> None:
        """Called once, in the transaction that opens the database: from now on the gateway lives."""
        with self._guard:
            self._connect()  # first: who lives is connected
        began = _now()
        self._epoch = gateways.begin(connection, self.place)
        self._own_until = began + self.place.lease_seconds * OWN_PART

    def renew(self) -> None:
        """Blocking; raises DatabaseUnavailable once another gateway has taken over, DBAPIError."""
        with self._guard:
            if self.left:
                return
            began = _now()
            try:
                connection = self._connect()
                lease = round(self.place.lease_seconds * 1_000_000)
                values = {"lease": lease, "id": self.place.gateway_id, "epoch": self._epoch}
                self.lost = self.lost or not connection.execute(_RENEW, values).rowcount
            except DBAPIError:
                self._drop()
                raise
            if self.lost:
                raise DatabaseUnavailable(LOST)
            self._own_until = began + self.place.lease_seconds * OWN_PART

    def require(self) -> None:
        """Called before anything is begun: the lease counts, or is renewed now; raises as `renew`."""
        if self.lost or _now() >= self._own_until:
            self.renew()

    def fence(self, connection: Connection) -> str:
        """The last statement of a transaction that writes: what the server calls it. Raises DatabaseUnavailable."""
        driver = connection.connection.driver_connection
        values = {"id": self.place.gateway_id, "epoch": self._epoch}
        found = driver.execute(_FENCE, values).fetchone()  # type: ignore[union-attr]
        if found is None:
            self.lost = True
            raise DatabaseUnavailable(LOST)
        return str(found[0])

    def release(self) -> None:
        """Close the connection; what the lease says is the caller's business."""
        with self._guard:
            self._drop()
        self._engine.dispose()

    def _connect(self) -> Connection:
        """Under the guard: the connection that shows, while it lasts, that the gateway lives."""
        if self._connection is None:
            self._connection, self._shown = self._engine.connect(), False
        if not self._shown:
            self._shown = gateways.connect(self._connection, self.place.gateway_id)
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _now() -> float:
    """Seconds that also pass while the host is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
