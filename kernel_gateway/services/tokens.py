"""Bearer tokens, for administrators: create, list, revoke."""

from __future__ import annotations

import re
import uuid

from sqlalchemy import Connection

from kernel_gateway.errors import Forbidden, InvalidRequest, NotFound
from kernel_gateway.identity.authentication import Identity
from kernel_gateway.identity.principal import Principal, new_token, token_digest
from kernel_gateway.services.clock import Clock, rfc3339, rfc3339_or_none
from kernel_gateway.shapes import Page, TokenInfo
from kernel_gateway.storage import principals
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.principals import TokenRow

PRINCIPAL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
LONGEST_NAME = 200


class Tokens:
    """Raises Forbidden for everybody but administrators."""

    def __init__(self, database: Database, identity: Identity, clock: Clock) -> None:
        self._database = database
        self._identity = identity
        self._clock = clock

    async def create(self, principal: Principal, principal_name: str, token_name: str = "") -> TokenInfo:
        """A new token of that principal, who is created when new; the answer alone carries the secret."""
        require_administrator(principal, "tokens")
        require_names(principal_name, "a token", token_name)
        now, token_id, token = self._clock.now(), str(uuid.uuid4()), new_token()

        def add(connection: Connection) -> None:
            owner = principals.find_or_add(connection, principal_name, now)
            digest = token_digest(token)
            principals.add_token(connection, owner, token_id=token_id, name=token_name, digest=digest, now=now)

        await self._database.run(add)
        return TokenInfo(token_id, principal_name, token_name, rfc3339(now), token=token)

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[TokenInfo]:
        """Every principal's tokens, oldest first, revoked ones too."""
        require_administrator(principal, "tokens")
        rows, following = await self._database.run(lambda c: principals.list_tokens(c, limit, cursor))
        return Page([_info(row) for row in rows], following)

    async def revoke(self, principal: Principal, token_id: str) -> TokenInfo:
        """The token counts no longer, from now on."""
        require_administrator(principal, "tokens")
        now = self._clock.now()
        row = await self._database.run(lambda c: principals.revoke_token(c, token_id, now))
        self._identity.forget()
        if row is None:
            raise NotFound("there is no such token")
        return _info(row)


def require_administrator(principal: Principal, what: str) -> None:
    """Raises Forbidden for everybody else."""
    if not principal.admin:
        raise Forbidden(f"only an administrator manages {what}")


def require_names(principal_name: str, what: str, name: str) -> None:
    """Raises InvalidRequest for names that a principal, or what it gets, cannot have."""
    if not PRINCIPAL_NAME.fullmatch(principal_name):
        raise InvalidRequest("a principal's name is 1 to 100 letters, digits and . _ @ -, a letter or digit first")
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise InvalidRequest(f"the name of {what} is at most {LONGEST_NAME} printable characters")


def _info(row: TokenRow) -> TokenInfo:
    return TokenInfo(row.id, row.principal, row.name, rfc3339(row.created), rfc3339_or_none(row.revoked))
