"""How a bearer token becomes a caller, and where the first administrator comes from.

The first start makes the principal `admin` with a token: the given one (`SANDCELL_TOKEN`), or a new one that is shown
once. A given token that is not known yet becomes one more token of `admin` at any later start; a revoked one stays
revoked and is refused. With no token left that counts, a start makes a new one, so the operator is never locked out.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from sqlalchemy import Connection

from kernel_gateway.errors import Forbidden, NotFound, SettingInvalid, Unauthorized
from kernel_gateway.identity.principal import Caller, Principal, hash_token, new_token
from kernel_gateway.services.credentials.last_use import LastUse
from kernel_gateway.services.credentials.remembered import Remembered
from kernel_gateway.storage import principals
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.locks import hold

ADMIN = "admin"
LONGEST_TOKEN = 1_000


class Identity:
    """Knows tokens by their digests; remembers the last ones seen, and forgets them when one is revoked."""

    def __init__(
        self, database: Database, now: Callable[[], float] = time.time, last_use: LastUse | None = None
    ) -> None:
        self._database = database
        self._now = now
        shared = database.lease is not None
        self._remembered = Remembered[Caller](shared=shared)
        self._remembered_principals = Remembered[Principal](shared=shared)
        self.last_use = last_use or LastUse(database)

    async def open(self, given_token: str, now: float) -> str | None:
        """Make sure there is an administrator; returns the token when one was made."""
        return await self._database.run(lambda connection: _ensure_admin(connection, given_token, now))

    async def authenticate(self, bearer_token: str) -> Caller:
        """Who calls with this token; raises Unauthorized, the same for every token that does not count."""
        if not bearer_token or len(bearer_token) > LONGEST_TOKEN:
            raise Unauthorized
        digest = hash_token(bearer_token)
        caller = await self._remembered.ask(digest, lambda: self._look_up(digest))
        now = self._now()
        if caller is None or not caller.counts_at(now):
            raise Unauthorized
        self.last_use.note_token(caller.credential_id, now)
        return caller

    async def find_token(self, token_id: str) -> Caller:
        """Who has the token of this id, for what was derived from it; raises Unauthorized when it does not count."""
        question = f"id {token_id}"

        async def look_up() -> Caller | None:
            return await self._database.run(lambda connection: principals.find_by_token_id(connection, token_id))

        caller = await self._remembered.ask(question, look_up)
        if caller is None or not caller.counts_at(self._now()):
            raise Unauthorized
        return caller

    async def add_person(self, name: str, *, administrator: bool) -> Principal:
        """The principal of somebody whom an identity provider vouches for, made when new; raises Forbidden."""
        now = self._now()
        principal = await self._database.run(lambda connection: principals.find_or_add(connection, name, now))
        if principal.admin and not administrator:
            raise Forbidden(f"{name} is an administrator's name here, and your role is another")
        return await self.find_principal(principal.id)

    async def find_principal(self, principal_id: str) -> Principal:
        """A principal by its id; raises Unauthorized when it is disabled."""

        async def look_up() -> Principal | None:
            return await self._database.run(lambda connection: principals.find_enabled(connection, principal_id))

        found = await self._remembered_principals.ask(f"id {principal_id}", look_up)
        if found is None:
            raise Unauthorized
        return found

    async def find_looked_at(self, name: str) -> Principal:
        """A principal whom somebody looks at, disabled or not; raises NotFound."""

        async def look_up() -> Principal | None:
            return await self._database.run(lambda connection: principals.find_by_name(connection, name))

        found = await self._remembered_principals.ask(f"name {name}", look_up)
        if found is None:
            raise NotFound("there is no such principal yet")
        return found

    async def _look_up(self, digest: str) -> Caller | None:
        return await self._database.run(lambda connection: principals.find_by_digest(connection, digest))

    def forget(self) -> None:
        """Ask the database again for every token: one was revoked, or a principal disabled."""
        self._remembered.forget()
        self._remembered_principals.forget()


def _ensure_admin(connection: Connection, given_token: str, now: float) -> str | None:
    hold(connection, "administrator")
    admin = principals.find_by_name(connection, ADMIN)
    if admin is None:
        admin = Principal(str(uuid.uuid4()), ADMIN, admin=True)
        principals.add(connection, admin, now)
    if given_token:
        _take_given(connection, admin, hash_token(given_token), now)
        return None
    if principals.has_admin_token(connection, admin.id, now):
        return None
    made = new_token()
    _add(connection, admin, "first", hash_token(made), now)
    return made


def _take_given(connection: Connection, admin: Principal, digest: str, now: float) -> None:
    owner = principals.find_by_digest(connection, digest)
    if owner is not None:
        return
    if principals.knows_digest(connection, digest):
        raise SettingInvalid("the given token was revoked or replaced: give another one, or none")
    _add(connection, admin, "SANDCELL_TOKEN", digest, now)


def _add(connection: Connection, owner: Principal, name: str, digest: str, now: float) -> None:
    principals.add_token(connection, owner, token_id=str(uuid.uuid4()), name=name, digest=digest, now=now)
