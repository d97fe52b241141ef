"""Attach tokens: a session's owner makes them for people, whose Jupyter clients attach to that one session with them.

Only the Jupyter face takes them. One counts until it expires, is revoked, or its session ends.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable

from sqlalchemy import Connection

from kernel_gateway.errors import InvalidRequest, NotFound, QuotaReached, Unauthorized
from kernel_gateway.identity.principal import Caller, Principal, hash_token
from kernel_gateway.services.attach.attachments import AttachedPrincipal
from kernel_gateway.services.clock import Clock, rfc3339, rfc3339_or_none
from kernel_gateway.services.credentials.authentication import LONGEST_TOKEN, Identity
from kernel_gateway.services.credentials.remembered import Remembered
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.storage import attach_tokens
from kernel_gateway.storage.attach_tokens import AttachTokenRow, OwnedToken
from kernel_gateway.storage.database import Database
from sandcell.models.attach import ATTACH_PREFIX, AttachToken, CreateAttachToken
from sandcell.models.model import Page

# The pure part of attach tokens: what one looks like, and making new ones. Only their SHA-256 is stored.


def new_attach_token() -> str:
    """A token that cannot be guessed, and that no other interface takes: 256 random bits."""
    return ATTACH_PREFIX + secrets.token_urlsafe(32)


def is_attach_token(token: str) -> bool:
    """Whether a token says of itself that it is one."""
    return token.startswith(ATTACH_PREFIX)


MOST_ATTACH_TOKENS = 100
"""Tokens of one session that count at once."""


class AttachTokens:
    """Made, listed and revoked by the session's owner; another principal's session is not found."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        identity: Identity,
        clock: Clock,
        end_calls: Callable[[str], object],
    ) -> None:
        self._end_calls = end_calls
        self._database = database
        self._registry = registry
        self._identity = identity
        self._clock = clock
        self._remembered = Remembered[OwnedToken](shared=database.lease is not None)

    async def create(self, principal: Principal, session_id: str, body: CreateAttachToken) -> AttachToken:
        """A new token for a live session; the answer alone carries the secret.

        Raises NotFound, SessionTerminated, InvalidRequest, QuotaReached.
        """
        if not body.name.isprintable():
            raise InvalidRequest("the name of an attach token is printable text", field="name")
        live = await self._registry.require(principal, session_id)
        now, token = self._clock.now(), new_attach_token()
        can = tuple(dict.fromkeys(body.can))
        row = AttachTokenRow(str(uuid.uuid4()), live.id, body.name, can, now, now + body.ttl_seconds)

        def add(connection: Connection) -> None:
            if attach_tokens.count_live(connection, live.id, now) >= MOST_ATTACH_TOKENS:
                raise QuotaReached(
                    f"{MOST_ATTACH_TOKENS} attach tokens of this session count, which is the most: revoke one",
                    quota=MOST_ATTACH_TOKENS,
                )
            attach_tokens.add(connection, principal, row, hash_token(token))

        await self._database.run(add)
        made = _describe(row)
        made.token = token
        return made

    async def list(
        self, principal: Principal, session_id: str, limit: int = 100, cursor: str | None = None
    ) -> Page[AttachToken]:
        """The session's tokens, oldest first, those that count no longer too."""
        await self._registry.row(principal, session_id)
        rows, following = await self._database.run(lambda c: attach_tokens.list_of(c, session_id, limit, cursor))
        return Page([_describe(row) for row in rows], following)

    async def revoke(self, principal: Principal, session_id: str, token_id: str) -> AttachToken:
        """The token counts no longer, from now on; clients that are connected with it are let go."""
        await self._registry.row(principal, session_id)
        now = self._clock.now()
        row = await self._database.run(lambda c: attach_tokens.revoke(c, session_id, token_id, now))
        self._remembered.forget()
        self._end_calls(token_id)
        if row is None:
            raise NotFound("the session has no such attach token")
        return _describe(row)

    async def visitor(self, token: str) -> AttachedPrincipal:
        """Who comes to the Jupyter face with this token, an attach token or a principal's own; raises Unauthorized."""
        if not is_attach_token(token):
            caller = await self._identity.authenticate(token)
            return AttachedPrincipal(caller.principal, caller.principal.name, caller)
        if len(token) > LONGEST_TOKEN:
            raise Unauthorized
        digest = hash_token(token)
        found = await self._remembered.ask(digest, lambda: self._look_up(digest))
        if found is None or not self._counts(found):
            raise Unauthorized
        row, owner = found.row, found.owner
        author = row.name or f"{owner.name} (attached)"
        caller = Caller(owner, "run", row.id, row.expires)
        return AttachedPrincipal(
            owner, author, caller, session_id=row.session_id, can=frozenset(row.can), attached=True
        )

    def forget(self) -> None:
        """Ask the database again for every token: a principal was disabled."""
        self._remembered.forget()

    def _counts(self, found: OwnedToken) -> bool:
        live = self._registry.find(found.owner, found.row.session_id)
        return found.row.expires > self._clock.now() and live is not None and live.ending is None

    async def _look_up(self, digest: str) -> OwnedToken | None:
        return await self._database.run(lambda connection: attach_tokens.find_by_digest(connection, digest))


def _describe(row: AttachTokenRow) -> AttachToken:
    return AttachToken(
        id=row.id,
        session_id=row.session_id,
        name=row.name,
        can=list(row.can),  # type: ignore[arg-type]
        created_at=rfc3339(row.created),
        expires_at=rfc3339(row.expires),
        revoked_at=rfc3339_or_none(row.revoked),
    )
