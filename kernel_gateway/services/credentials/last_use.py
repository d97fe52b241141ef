"""When credentials were last used: noted in memory with each call, written now and then, all in one transaction.

Noting costs a dictionary's entry, and nothing waits for it. A `kill -9` loses what was not written yet.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection

from kernel_gateway.storage import principals
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.tables import access_keys, tokens

MOST_NOTED: Final = 100_000
"""Credentials in memory between two writes; the use of further ones is not noted."""


class LastUse:
    """`token` and `key` note a use, `flush` writes all that was noted."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._tokens: dict[str, float] = {}
        self._keys: dict[str, float] = {}

    def note_token(self, token_id: str, now: float) -> None:
        """A token was used."""
        _note(self._tokens, token_id, now)

    def note_key(self, key_id: str, now: float) -> None:
        """An access key was used."""
        _note(self._keys, key_id, now)

    async def flush(self) -> None:
        """Write what was noted; what cannot be written is kept. Raises DatabaseUnavailable, NoSpace."""
        used_tokens, self._tokens = self._tokens, {}
        used_keys, self._keys = self._keys, {}
        if not used_tokens and not used_keys:
            return

        def store(connection: Connection) -> None:
            for table, used in ((tokens, used_tokens), (access_keys, used_keys)):
                if used:
                    principals.record_use(connection, table, used)

        try:
            await self._database.run(store)
        except BaseException:
            self._tokens = used_tokens | self._tokens
            self._keys = used_keys | self._keys
            raise


def _note(used: dict[str, float], credential_id: str, now: float) -> None:
    if credential_id in used or len(used) < MOST_NOTED:
        used[credential_id] = now
