"""What a principal asks for on another's workspace: not found, and nothing of the other's is touched or held up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from sqlalchemy import select

from kernel_gateway.errors import NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.storage.tables import workspaces
from sandcell.models.workspaces import CopyFiles
from tests.integration.kernel_gateway.services.conftest import Gateway, Test

STRANGER = Principal("nobody", "nobody", admin=False)


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def touched(gateway: Gateway, workspace_id: str) -> float:
    await gateway.services.ledger.flush()
    found = select(workspaces.c.touched).where(workspaces.c.id == workspace_id)
    return float(await gateway.services.database.run(lambda c: c.execute(found).scalar_one()))


def test_a_stranger_keeps_no_workspace_young_and_no_session_waiting(on_gateway: Test) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        theirs = session.workspace_id
        await gateway.services.sessions.stop(gateway.me, session.id)
        await gateway.services.workspaces.write(gateway.me, theirs, "file", once(b"mine"))
        before = await touched(gateway, theirs)
        gateway.clock.advance(60.0)
        held = 0
        changes = gateway.services.durable_changes
        honest = changes.change

        def counting(workspace_id: str) -> object:
            nonlocal held
            held += workspace_id == theirs
            return honest(workspace_id)

        changes.change = counting  # type: ignore[method-assign,assignment]
        files = gateway.services.workspaces
        attempts: list[Callable[[], Awaitable[object]]] = [
            lambda: files.write(STRANGER, theirs, "file", once(b"x")),
            lambda: files.remove(STRANGER, theirs, "file"),
            lambda: files.read(STRANGER, theirs, "file"),
            lambda: files.list_files(STRANGER, theirs),
            lambda: gateway.services.removals.remove(STRANGER, theirs),
            lambda: gateway.services.file_copies.copy(STRANGER, theirs, CopyFiles(to=theirs, to_path="copy")),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound):
                await attempt()
        await asyncio.sleep(0)
        assert held == 0
        assert await touched(gateway, theirs) == before

    on_gateway(test)
