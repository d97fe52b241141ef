"""Sessions a second time: what the copy has, what the original keeps, and what a failure leaves."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_gateway.errors import (
    Conflict,
    QuotaReached,
    SessionBusy,
    SessionLimit,
    SessionTerminated,
    StoreUnavailable,
)
from kernel_gateway.services.replays.session_copies import Wanted
from sandcell.models.sessions import Session
from tests.integration.kernel_gateway.services.conftest import Gateway, House

FILL = """
import threading
value, listed, opened = 40, [1], open("/dev/null")
alias, thread = listed, threading.Thread(target=threading.Event().wait, daemon=True)
thread.start()
open("kept.txt", "w").write("from before")
"""
HAS = "(value, listed is alias, open('kept.txt').read(), 'opened' in globals())"
DAY = 86_400
BEGUN = Wanted("", "begun", kept_seconds=DAY, lifetime_seconds=1_000)


def stored(house: House, pattern: str) -> set[str]:
    """What is in the place of the first `*` of a pattern of files in the store."""
    store = Path(house.settings.data_dir) / "store"
    before = pattern.split("/").index("*")
    return {each.relative_to(store).parts[before] for each in store.glob(pattern) if each.is_file()}


async def copy(
    gateway: Gateway, session: Session, name: str = "copy", kept_seconds: float = DAY, *, snapshot: bool = False
) -> Session:
    wanted = Wanted(str(uuid.uuid4()), name, kept_seconds=kept_seconds, lifetime_seconds=1_000, snapshot=snapshot)
    return await gateway.services.session_copies.copy(gateway.me, session.id, wanted)


async def wake(gateway: Gateway, session: Session) -> Session:
    return await gateway.services.hibernation.resume(gateway.me, session.id)


@asynccontextmanager
async def held_put(gateway: Gateway) -> AsyncIterator[asyncio.Event]:
    """The variables stop on their way to the store, and the event says so, until the block ends."""
    reached, go_on, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def wait(key: str) -> None:
        if key.startswith("variables/"):
            loop.call_soon_threadsafe(reached.set)
            go_on.wait(120)

    gateway.store.before_put = wait
    try:
        yield reached
    finally:
        gateway.store.before_put = lambda _: None
        go_on.set()


def test_a_copy_has_what_the_original_had_and_neither_has_what_the_other_does(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(labels={"a": "b"})
            assert (await gateway.run(session, FILL)).status == "ok"
            copied = await copy(gateway, session)
            assert (copied.status, copied.name, copied.labels) == ("HIBERNATED", "copy", {"a": "b"})
            assert copied.workspace_id == copied.id
            assert copied.hibernated is not None
            lost = {each.name for each in copied.hibernated.variables if each.outcome == "lost"}
            assert lost == {"opened", "thread"}
            assert await gateway.text(session, "value, thread.is_alive(), opened.closed") == "(40, True, False)"
            assert (await gateway.show(session)).generation == 1
        async with house.gateway() as gateway:
            again = await copy(gateway, copied, "again")
            assert await gateway.text(copied, HAS) == "(40, True, 'from before', False)"
            assert await gateway.text(copied, "value = 41; listed.append(2); open('kept.txt', 'w').write('c')") == "1"
            assert await gateway.text(session, "value, listed, open('kept.txt').read()") == "(40, [1], 'from before')"
            assert (await wake(gateway, again)).status == "READY"
            assert await gateway.text(again, HAS) == "(40, True, 'from before', False)"
            notebook = await gateway.services.notebooks.notebook(gateway.me, again.id)
            assert f"began as a copy of `{copied.id}`".encode() in notebook
            for each in (session, copied, again):
                await gateway.services.sessions.stop(gateway.me, each.id)

    asyncio.run(test())
    assert stored(house, "variables/*") == set()


def test_a_snapshot_stays_as_it_is_and_others_begin_as_it_is(house: House) -> None:
    async def test() -> None:
        async with house.gateway(keep_sessions_on_shutdown=True) as gateway:
            session = await gateway.start(labels={"a": "b"})
            assert (await gateway.run(session, FILL)).status == "ok"
            older = await copy(gateway, session, "tried", snapshot=True)
            assert await gateway.text(session, "value = 41; listed.append(2); open('kept.txt', 'w').write('c')") == "1"
            snapshot = await copy(gateway, session, "tried", snapshot=True)
            assert (snapshot.status, snapshot.snapshot_of) == ("HIBERNATED", session.id)
        async with house.gateway() as gateway:
            copies, stranger = gateway.services.session_copies, replace(gateway.me, id="another")
            found = [copies.find_snapshot(gateway.me, each) for each in ("tried", snapshot.id, older.id)]
            assert [each and each.id for each in found] == [snapshot.id, snapshot.id, older.id]
            assert [copies.find_snapshot(gateway.me, each) for each in ("else", session.id)] == [None, None]
            assert copies.find_snapshot(stranger, snapshot.id) is None
            for use in (wake(gateway, older), gateway.services.sessions.restart(gateway.me, older.id)):
                with pytest.raises(Conflict, match="is a snapshot"):
                    await use
            refused = await gateway.run(older, "value = 0")
            assert (refused.status, refused.error and refused.error.name) == ("rejected", "Conflict")
            begun = await copies.start(gateway.me, older.id, replace(BEGUN, session_id=str(uuid.uuid4()), labels={}))
            assert (begun.status, begun.labels, begun.snapshot_of) == ("READY", {}, None)
            assert await gateway.text(begun, HAS) == "(40, True, 'from before', False)"
            await copies.remove(gateway.me, older.id)
            assert await gateway.text(begun, "value, open('kept.txt').read()") == "(40, 'from before')"
            for each in (session, snapshot, begun):
                await gateway.services.sessions.stop(gateway.me, each.id)
            assert stored(house, "variables/*") == set()
            assert older.id not in stored(house, "workspaces/sessions/*/workspace/*")

    asyncio.run(test())


def test_forks_run_each_as_the_session_was_and_one_that_has_no_place_keeps_no_other(house: House) -> None:
    async def test() -> None:
        async with house.gateway(sessions_per_principal=2) as gateway:
            session = await gateway.start()
            assert (await gateway.run(session, FILL)).status == "ok"
            wanted = [replace(BEGUN, session_id=str(uuid.uuid4())) for _ in range(2)]
            made = await gateway.services.session_copies.fork(gateway.me, session.id, wanted)
            fork, refused = sorted(made, key=lambda each: isinstance(each, SessionLimit))
            assert isinstance(fork, Session), [str(each) for each in made]
            assert isinstance(refused, SessionLimit), made
            assert await gateway.text(fork, HAS) == "(40, True, 'from before', False)"
            assert await gateway.text(session, "thread.is_alive()") == "True"
            left = {each.id for each in (await gateway.services.sessions.list(gateway.me, status="LIVE")).items}
            assert left == {session.id, fork.id}

    asyncio.run(test())


def test_what_keeps_a_session_from_being_copied_leaves_it_as_it_was(house: House) -> None:
    """One session through what may come, each part as the one before has left it."""

    async def test() -> None:
        async with house.gateway(hibernated_sessions=1, sweep_interval_seconds=10**6) as gateway:
            session = await gateway.start()
            assert (await gateway.run(session, FILL)).status == "ok"
            for part in (busy, store_away, quota, used_meanwhile, left_meanwhile, woken_meanwhile, ended_meanwhile):
                await part(gateway, session)
            await gateway.services.upkeep.sweep()
            assert stored(house, "variables/*") == set()
            assert stored(house, "workspaces/sessions/*/workspace/*") == {session.workspace_id}

    asyncio.run(test())


async def busy(gateway: Gateway, session: Session) -> None:
    running = await gateway.submit(session, "import time; time.sleep(1000)")
    await gateway.until_running(session, running)
    with pytest.raises(SessionBusy, match="something runs"):
        await copy(gateway, session)
    await gateway.services.sessions.interrupt(gateway.me, session.id)
    await gateway.services.executions.wait(gateway.me, session.id, running.id)


async def store_away(gateway: Gateway, session: Session) -> None:
    gateway.store.away = True
    with pytest.raises(StoreUnavailable):
        await copy(gateway, session)
    gateway.store.away = False
    assert await gateway.text(session, "value") == "40"


async def quota(gateway: Gateway, session: Session) -> None:
    first = await copy(gateway, session)
    with pytest.raises(QuotaReached):
        await copy(gateway, session)
    await end(gateway, first)
    expired = await copy(gateway, session, kept_seconds=60.0)
    gateway.clock.advance(61)
    assert (await gateway.ended(expired)).ended is not None
    await gateway.services.removals.remove(gateway.me, expired.workspace_id)


async def used_meanwhile(gateway: Gateway, session: Session) -> None:
    """What comes while it is taken waits, and is not in the copy."""
    async with held_put(gateway) as reached:
        copying = asyncio.create_task(copy(gateway, session))
        await reached.wait()
        execution = await gateway.submit(session, "value = 1; thread.is_alive()")
    ran = await gateway.services.executions.wait(gateway.me, session.id, execution.id)
    assert (ran.generation, ran.outputs[-1]["data"]["text/plain"]) == (1, "True")
    copied = await copying
    assert await gateway.text(copied, "value") == "40"
    await end(gateway, copied)


async def left_meanwhile(gateway: Gateway, session: Session) -> None:
    """A caller who goes away may find the copy, whole."""
    async with held_put(gateway) as reached:
        copying = asyncio.create_task(copy(gateway, session, "left"))
        await reached.wait()
        copying.cancel()
        await asyncio.wait({copying})

    async def found() -> list[Session]:
        listed = await gateway.services.sessions.list(gateway.me, status="HIBERNATED")
        return [each for each in listed.items if each.name == "left"]

    async def there() -> bool:
        return bool(await found())

    await gateway.until(there)
    (left,) = await found()
    assert await gateway.text(left, "value, open('kept.txt').read()") == "(1, 'from before')"
    await end(gateway, left)


async def woken_meanwhile(gateway: Gateway, session: Session) -> None:
    copied = await copy(gateway, session)
    async with held_put(gateway) as reached:
        copying = asyncio.create_task(copy(gateway, copied))
        await reached.wait()
        await wake(gateway, copied)
    with pytest.raises(SessionBusy, match="woken"):
        await copying
    await end(gateway, copied)


async def ended_meanwhile(gateway: Gateway, session: Session) -> None:
    async with held_put(gateway) as reached:
        copying = asyncio.create_task(copy(gateway, session))
        await reached.wait()
        stopping = asyncio.create_task(gateway.services.sessions.stop(gateway.me, session.id))
        await asyncio.sleep(0.05)
    with pytest.raises(SessionTerminated):
        await copying
    assert (await stopping).status == "TERMINATED"


async def end(gateway: Gateway, session: Session) -> None:
    await gateway.services.sessions.stop(gateway.me, session.id)
    await gateway.services.removals.remove(gateway.me, session.workspace_id)
