"""Requests that carry a client token: repeated, they get the first answer, and what they ask for is done once.

A repeat joins a request under way; afterwards the answer is in the database for a day. Only answers are kept: what
failed is tried again. The same token with another request is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

import msgspec
import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from kernel_gateway.errors import GatewayError, IdempotencyConflict
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.clock import Clock
from kernel_gateway.storage import client_tokens
from kernel_gateway.storage.client_tokens import AnsweredRow, Key
from kernel_gateway.storage.database import Database

KEPT_SECONDS: Final = 86_400
Work = Callable[[], Coroutine[Any, Any, bytes]]
log = structlog.get_logger(__name__)


class ClientTokens:
    """One for the service; what is under way is in memory."""

    def __init__(self, database: Database, background: Background, clock: Clock) -> None:
        self._database = database
        self._background = background
        self._clock = clock
        self._under_way: dict[Key, tuple[str, asyncio.Task[bytes]]] = {}

    async def once(self, principal: Principal, operation: str, token: str | None, digest: str, work: Work) -> bytes:
        """The answer to a request, from `work` or from before; `digest` is of everything it asks for but the token.

        The work goes on when the caller goes away. Raises IdempotencyConflict, and what the work raises.
        """
        if token is None:
            return await self._background.carry_out(work(), operation)
        key = principal.id, operation, token
        found = self._under_way.get(key)
        if found is None:
            task = self._background.spawn(self._first(key, digest, work), f"{operation} by token")
            found = self._under_way[key] = digest, task
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        elif found[0] != digest:
            raise _mismatch()
        return await asyncio.shield(found[1])

    async def _first(self, key: Key, digest: str, work: Work) -> bytes:
        since = self._clock.now() - KEPT_SECONDS
        before = await self._database.run(lambda c: client_tokens.find(c, key, since))
        if before is not None:
            return read_answer(before, digest)
        answer = await work()
        await self._keep(key, AnsweredRow(digest, answer))
        return answer

    async def _keep(self, key: Key, answered: AnsweredRow) -> None:
        """What is done is done: an answer that cannot be kept is given all the same."""
        now = self._clock.now()

        try:
            await self._database.run(lambda c: keep(c, key, answered, now))
        except (GatewayError, IntegrityError) as error:
            log.warning("client_token_not_kept", operation=key[1], error=type(error).__name__)


def compute_digest(*parts: Any) -> str:
    """What makes two requests the same: plain values and structs, a `client_token` among their members left out."""
    plain = [
        {name: value for name, value in each.items() if name != "clientToken"} if isinstance(each, dict) else each
        for each in map(msgspec.to_builtins, parts)
    ]
    return hashlib.sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def keep(connection: Connection, key: Key, answered: AnsweredRow, now: float) -> None:
    """Keep an answer for as long as any is kept; raises IntegrityError when there is one."""
    client_tokens.remove_old(connection, now - KEPT_SECONDS)
    client_tokens.keep(connection, key, answered, now)


def read_answer(before: AnsweredRow, digest: str) -> bytes:
    """What was answered before to a request of this digest; raises IdempotencyConflict for one of another."""
    if before.digest != digest:
        raise _mismatch()
    return before.answer


def _mismatch() -> IdempotencyConflict:
    return IdempotencyConflict("this token or key was used with another request; use a new one for each request")
