"""Rows that the tests of the database write, and a database to write them to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage import principals, sessions
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.executions import ExecutionRow
from kernel_gateway.storage.sessions import SessionRow

NOW = 1_700_000_000.123456


def on_database(url: str, test: Callable[[Database], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        database = Database(url)
        try:
            await database.open()
            await test(database)
        finally:
            await database.aclose()

    asyncio.run(run())


async def one_session(database: Database) -> None:
    row = SessionRow("s", "p", "s", "n", "python", 1, NOW, NOW, NOW + 10, 10, 10, None, {"a": "é"})
    await database.run(lambda c: principals.add(c, Principal("p", "me", admin=True), NOW))
    await database.run(lambda c: sessions.add_workspace(c, "s", "p", NOW))
    await database.run(lambda c: sessions.add(c, row))


def an_execution(execution_id: str, key: str | None = None) -> ExecutionRow:
    return ExecutionRow(execution_id, "s", "queued", "python", "é\0", 1, 1.5, None, key, "digest", NOW)
