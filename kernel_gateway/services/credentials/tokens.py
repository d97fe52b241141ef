"""Bearer tokens, for administrators: create, list, rotate, revoke."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from kernel_gateway.errors import Conflict, Forbidden, GatewayError, InternalError, InvalidRequest, NotFound
from kernel_gateway.identity.principal import PRINCIPAL_NAME, Principal, hash_token, new_token
from kernel_gateway.services.clock import Clock, rfc3339, rfc3339_or_none
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.storage import principals
from kernel_gateway.storage.access_keys import AccessKeyRow
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.principals import TokenRow
from sandcell.models.credentials import Scope, TokenInfo
from sandcell.models.model import Page

LONGEST_NAME = 200


class Tokens:
    """Raises Forbidden for everybody but administrators."""

    def __init__(
        self,
        database: Database,
        identity: Identity,
        clock: Clock,
        end_calls: Callable[[str], object] = lambda _credential_id: None,
    ) -> None:
        """`end_calls` hangs up on the calls that are under way with a credential."""
        self._end_calls = end_calls
        self._database = database
        self._identity = identity
        self._clock = clock

    async def create(
        self,
        principal: Principal,
        principal_name: str,
        token_name: str = "",
        *,
        scope: Scope | None = None,
        ttl_seconds: int | None = None,
    ) -> TokenInfo:
        """A new token of that principal, who is created when new; the answer alone carries the secret.

        Its scope is by default all that the principal may; without `ttl_seconds` it counts until it is revoked.
        """
        require_administrator(principal, "tokens")
        require_names(principal_name, "a token", token_name)
        now, token_id, token = self._clock.now(), str(uuid.uuid4()), new_token()

        def add(connection: Connection) -> TokenRow | None:
            owner = principals.find_or_add(connection, principal_name, now)
            principals.add_token(
                connection,
                owner,
                token_id=token_id,
                name=token_name,
                digest=hash_token(token),
                now=now,
                scope=scope or whole_scope(owner),
                expires=expiry(now, ttl_seconds),
            )
            return principals.find_token(connection, token_id)

        return self._describe(await self._database.run(add), token)

    async def rotate(self, principal: Principal, token_id: str, overlap_seconds: int = 0) -> TokenInfo:
        """Another token in place of this one, of the same principal, name, scope and lifetime; the answer carries it.

        The old one counts for `overlap_seconds` more, at most as long as it would have. Raises Forbidden, NotFound,
        Conflict: it counts no longer.
        """
        require_administrator(principal, "tokens")
        now, new_id, token = self._clock.now(), str(uuid.uuid4()), new_token()

        def replace(connection: Connection) -> TokenRow | None:
            old = principals.find_token(connection, token_id, lock=True)
            if old is None:
                raise NotFound("there is no such token")
            if old.revoked is not None or (old.expires is not None and old.expires <= now):
                raise Conflict("the token counts no longer: create another one")
            owner = principals.find_or_add(connection, old.principal, now)
            lifetime = None if old.expires is None else now + old.expires - old.created
            digest = hash_token(token)
            principals.add_token(
                connection,
                owner,
                token_id=new_id,
                name=old.name,
                digest=digest,
                now=now,
                scope=old.scope,
                expires=lifetime,
            )
            if overlap_seconds:
                principals.shorten_token(connection, token_id, now + overlap_seconds)
            else:
                principals.revoke_token(connection, token_id, now)
            return principals.find_token(connection, new_id)

        try:
            row = await self._database.run(replace)
        finally:  # also when nobody waits for the answer any more, since the change is made all the same
            self._identity.forget()
            asyncio.get_running_loop().call_later(overlap_seconds, self._end_calls, token_id)
        return self._describe(row, token)

    async def list(self, principal: Principal, limit: int = 100, cursor: str | None = None) -> Page[TokenInfo]:
        """Every principal's tokens, oldest first, revoked ones too."""
        require_administrator(principal, "tokens")
        with contextlib.suppress(GatewayError):  # what is stored can still be read
            await self._identity.last_use.flush()
        rows, following = await self._database.run(lambda c: principals.list_tokens(c, limit, cursor))
        return Page([_info(row) for row in rows], following)

    async def revoke(self, principal: Principal, token_id: str) -> TokenInfo:
        """The token counts no longer, from now on."""
        require_administrator(principal, "tokens")
        now = self._clock.now()
        try:
            row = await self._database.run(lambda c: principals.revoke_token(c, token_id, now))
        finally:  # also when nobody waits for the answer any more, since the change is made all the same
            self._identity.forget()
            self._end_calls(token_id)
        if row is None:
            raise NotFound("there is no such token")
        return _info(row)

    def _describe(self, row: TokenRow | None, token: str) -> TokenInfo:
        if row is None:
            raise InternalError("a token that was just made is not there")
        shown = _info(row)
        shown.token = token
        return shown


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


def whole_scope(owner: Principal) -> Scope:
    """The scope of a credential that may do all that its principal may."""
    return "admin" if owner.admin else "run"


def expiry(now: float, ttl_seconds: int | None) -> float | None:
    """When a credential of this lifetime ends."""
    return None if ttl_seconds is None else now + ttl_seconds


def credential(row: TokenRow | AccessKeyRow) -> dict[str, Any]:
    """What tokens and access keys show alike."""
    return {
        "id": row.id,
        "principal": row.principal,
        "name": row.name,
        "created_at": rfc3339(row.created),
        "revoked_at": rfc3339_or_none(row.revoked),
        "scope": row.scope,
        "expires_at": rfc3339_or_none(row.expires),
        "last_used_at": rfc3339_or_none(row.last_used),
    }


def _info(row: TokenRow) -> TokenInfo:
    return TokenInfo(**credential(row))
