"""Queries on what stands for a credential: browsers that are signed in and links that sign in once, by digests of their
secrets; and for which sandboxes tokens were derived from which credentials, the newest of each live session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, delete, insert, select, text, update

from kernel_gateway.storage.columns import micros, seconds
from kernel_gateway.storage.tables import sandbox_tokens, sessions, sign_ins

_ADD: Final = text(
    "INSERT INTO sandbox_tokens (session_id, credential_id) VALUES (:session, :credential) ON CONFLICT DO NOTHING"
)


class Person(msgspec.Struct, frozen=True):
    """Somebody whom an identity provider vouched for: who, by which name, in which role, and whom they may look at.

    `rules` is the digest of the settings that made that of them.
    """

    principal_id: str
    name: str
    role: str
    looks_at: tuple[str, ...] = ()
    rules: str = ""


@dataclass(frozen=True)
class SignInRow:
    """What a secret stands for, until when.

    `link`: it is only good for signing in, once, for no longer than until `most`, when what its maker called with ends.
    `person` is there in place of a token, `looks_at` the principal that they look at, empty for their own.
    """

    credential_id: str
    expires: float
    link: bool
    most: float | None
    person: Person | None = None
    looks_at: str = ""


def add(connection: Connection, digest: str, row: SignInRow, now: float, most: int) -> None:
    """One more; those that are over go, and of the same credential the oldest that are more than `most`."""
    connection.execute(delete(sign_ins).where(sign_ins.c.expires <= micros(now)))
    connection.execute(
        insert(sign_ins).values(
            digest=digest,
            credential_id=row.credential_id,
            expires=micros(row.expires),
            link=row.link,
            most=None if row.most is None else micros(row.most),
            person=None if row.person is None else msgspec.json.encode(row.person),
            looks_at=row.looks_at,
        )
    )
    newest = select(sign_ins.c.number).where(sign_ins.c.credential_id == row.credential_id)
    kept = newest.order_by(sign_ins.c.number.desc()).limit(most).scalar_subquery()
    of_it = sign_ins.c.credential_id == row.credential_id
    connection.execute(delete(sign_ins).where(of_it, sign_ins.c.number.not_in(kept)))


def find(connection: Connection, digest: str) -> SignInRow | None:
    """What a secret stands for, by its digest; whether that is over, the caller sees."""
    found = connection.execute(select(sign_ins).where(sign_ins.c.digest == digest)).first()
    return None if found is None else _read(found)


def look_at(connection: Connection, digest: str, name: str) -> None:
    connection.execute(update(sign_ins).where(sign_ins.c.digest == digest).values(looks_at=name))


def remove(connection: Connection, digest: str) -> bool:
    """It counts no longer; whether it was there: of those who use a link at once one finds it."""
    return bool(connection.execute(delete(sign_ins).where(sign_ins.c.digest == digest)).rowcount)


def _read(row: Row[Any]) -> SignInRow:
    return SignInRow(
        row.credential_id,
        seconds(row.expires),
        row.link,
        None if row.most is None else seconds(row.most),
        None if row.person is None else msgspec.json.decode(row.person, type=Person),
        row.looks_at,
    )


def keep_derived(connection: Connection, session_id: str, credential_id: str, most: int) -> None:
    """This one, and of the same session the newest of the others; nothing of sessions that have ended."""
    of_it = sandbox_tokens.c.session_id == session_id
    connection.execute(_ADD, {"session": session_id, "credential": credential_id})
    newest = select(sandbox_tokens.c.number).where(of_it).order_by(sandbox_tokens.c.number.desc()).limit(most)
    connection.execute(delete(sandbox_tokens).where(of_it, sandbox_tokens.c.number.not_in(newest.scalar_subquery())))
    ended = select(sandbox_tokens.c.session_id).join(sessions).where(sessions.c.status == "TERMINATED")
    connection.execute(delete(sandbox_tokens).where(sandbox_tokens.c.session_id.in_(ended.scalar_subquery())))


def list_derived(connection: Connection, most: int) -> list[tuple[str, str]]:
    """Session and credential, of the sessions that live; the newest first."""
    query = select(sandbox_tokens.c.session_id, sandbox_tokens.c.credential_id).join(sessions)
    query = query.where(sessions.c.status != "TERMINATED").order_by(sandbox_tokens.c.number.desc()).limit(most)
    return [(row.session_id, row.credential_id) for row in connection.execute(query)]
