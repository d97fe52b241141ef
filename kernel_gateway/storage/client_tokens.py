"""Queries on answers given before, by the token that a client repeats with a request."""

from __future__ import annotations

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, insert, select

from kernel_gateway.storage.columns import micros
from kernel_gateway.storage.tables import client_tokens

Key = tuple[str, str, str]
"""Principal, operation, token."""


class AnsweredRow(msgspec.Struct, frozen=True):
    """`digest` is of the request, `answer` what it was answered with."""

    digest: str
    answer: bytes


def find(connection: Connection, key: Key, since: float, *, lock: bool = False) -> AnsweredRow | None:
    """The answer, if it is not older; with `lock` it stays that before the transaction ends."""
    query = select(client_tokens.c.digest, client_tokens.c.answer).where(*_is(key))
    query = query.where(client_tokens.c.created >= micros(since))
    row = connection.execute(query.with_for_update() if lock else query).first()
    return AnsweredRow(row.digest, row.answer) if row else None


def keep(connection: Connection, key: Key, answered: AnsweredRow, now: float) -> None:
    """Remember an answer; raises IntegrityError when there is one already."""
    principal_id, operation, token = key
    connection.execute(
        insert(client_tokens).values(
            principal_id=principal_id,
            operation=operation,
            token=token,
            digest=answered.digest,
            answer=answered.answer,
            created=micros(now),
        )
    )


def forget(connection: Connection, key: Key) -> None:
    connection.execute(delete(client_tokens).where(*_is(key)))


def remove_old(connection: Connection, before: float) -> None:
    """Forget answers that are older."""
    connection.execute(delete(client_tokens).where(client_tokens.c.created < micros(before)))


def _is(key: Key) -> tuple[ColumnElement[bool], ...]:
    principal_id, operation, token = key
    return (
        client_tokens.c.principal_id == principal_id,
        client_tokens.c.operation == operation,
        client_tokens.c.token == token,
    )
