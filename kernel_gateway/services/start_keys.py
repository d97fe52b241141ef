"""Starts of sessions with an idempotency key: the key is stored with the session's row, in one transaction.

So any gateway knows, also after a crash, which session it stands for. A start that was refused or failed leaves the key
free, for the next attempt. Starts that take cells to run, forks among them, keep theirs as `ClientTokens` does.
"""

from __future__ import annotations

from typing import Final

import msgspec
from sqlalchemy import Connection

from kernel_gateway.errors import IdempotencyConflict
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.client_tokens import KEPT_SECONDS, compute_digest, keep, read_answer
from kernel_gateway.storage import client_tokens, sessions
from kernel_gateway.storage.client_tokens import AnsweredRow, Key
from sandcell.models.sessions import StartSession

OPERATION: Final = "StartSession"
START_FAILED: Final = "start_failed"
"""Why a session has ended that never ran."""


class StartKey(msgspec.Struct, frozen=True):
    """A key as it came with a request of this digest."""

    key: Key
    digest: str


def make_start_key(principal: Principal, token: str, body: StartSession) -> StartKey:
    """The key of a principal's request to start a session."""
    return StartKey((principal.id, OPERATION, token), compute_digest(body))


def find_started(connection: Connection, asked: StartKey, now: float) -> str | None:
    """The session that was started with the key; raises IdempotencyConflict where the request was another."""
    before = client_tokens.find(connection, asked.key, now - KEPT_SECONDS)
    return None if before is None else _read_started(connection, before, asked)


def keep_started(connection: Connection, asked: StartKey, session_id: str, now: float) -> None:
    """From now on the key stands for this session, which the same transaction adds.

    Raises IdempotencyConflict, or IntegrityError, where another has been started with it meanwhile.
    """
    before = client_tokens.find(connection, asked.key, now - KEPT_SECONDS, lock=True)
    if before is not None:
        if _read_started(connection, before, asked) is not None:
            raise IdempotencyConflict("a session has been started with this key", session_id=session_id)
        # Of a start that failed. Nothing is forgotten that was not seen: another gateway may have just kept it.
        client_tokens.forget(connection, asked.key)
    keep(connection, asked.key, AnsweredRow(asked.digest, session_id.encode()), now)


def _read_started(connection: Connection, before: AnsweredRow, asked: StartKey) -> str | None:
    session_id = read_answer(before, asked.digest).decode()
    row = sessions.find(connection, session_id)
    return None if row is None or row.ended_reason == START_FAILED else session_id
