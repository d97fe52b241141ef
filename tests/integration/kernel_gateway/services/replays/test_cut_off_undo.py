"""An undo that is cut off by the end of the service: the next one finishes it before anything else runs."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from kernel_gateway.storage.states import checkpoints as rows
from sandcell.models.sessions import Session, UndoRequest
from tests.integration.kernel_gateway.services.conftest import Gateway, House

STATE = "(log, open('log').read(), __import__('os').path.exists('made'))"


async def fill(gateway: Gateway, *, kept: bool) -> Session:
    session = await gateway.start()
    await gateway.run(session, "log = [1]; open('log', 'w').write('1')")
    if kept:
        await gateway.services.checkpoints.create(gateway.me, session.id)
    await gateway.run(session, "log.append('bad'); open('log', 'w').write('bad'); open('made', 'w').close()")
    return session


async def begin_undo(gateway: Gateway, session: Session) -> None:
    """It stops when files are back, and variables are not."""
    live, stopped = gateway.services.registry.get(session.id), asyncio.Event()
    assert live is not None

    async def hang() -> None:
        stopped.set()
        await asyncio.Event().wait()

    cast("Any", live.sandbox.kernel).restart = hang
    work = gateway.services.undo.undo(gateway.me, session.id, UndoRequest(1))
    gateway.services.background.spawn(work, "an undo")
    async with asyncio.timeout(120):
        await stopped.wait()


async def undo_notes(gateway: Gateway, session: Session) -> list[str]:
    notebook = json.loads(await gateway.services.notebooks.notebook(gateway.me, session.id))
    notes = ["".join(each["source"]) for each in notebook["cells"] if each["cell_type"] == "markdown"]
    return [each.split(".")[0] for each in notes if each.startswith("**Undo")]


def test_the_next_service_finishes_it_before_anything_runs(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            kept, built, lost = [await fill(gateway, kept=each) for each in (True, False, True)]
            for each in (kept, built, lost):
                await begin_undo(gateway, each)
            queued = [await gateway.submit(each, STATE) for each in (kept, built, lost)]
            (its,) = (await gateway.services.checkpoints.list(gateway.me, lost.id)).items
            await gateway.services.database.run(lambda c: rows.spend(c, its.id))
        async with house.gateway(sweep_interval_seconds=10**6) as gateway:
            for session, execution in zip((kept, built, lost), queued, strict=True):
                ran = await gateway.services.executions.wait(gateway.me, session.id, execution.id)
                assert ran.outputs[-1]["data"]["text/plain"] == (
                    "([1, 'bad'], '1', False)" if session is lost else "([1], '1', False)"
                )
                notes = await undo_notes(gateway, session)
                assert notes[0].startswith("**Undo**, back to how it was after cell")
                assert notes[1].startswith("**Undo failed:**" if session is lost else "**Undone:** cell")
            live = gateway.services.registry.get(kept.id)
            assert live is not None
            assert live.row.record.undoing is None
            assert len(live.row.record.undone) == 1
            assert {each.session_id for each in await gateway.services.database.run(rows.list_spent)} == {
                built.id,
                lost.id,
            }

    asyncio.run(test())
