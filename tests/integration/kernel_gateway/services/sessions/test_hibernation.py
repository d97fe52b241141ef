"""Sessions that give up their sandbox: what is kept, who wakes them, and what a failure leaves."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import (
    Conflict,
    DatabaseUnavailable,
    DeadlinePassed,
    NoMemory,
    QuotaReached,
    SessionBusy,
    SessionLimit,
    StoreUnavailable,
)
from kernel_gateway.services.clock import rfc3339
from kernel_gateway.services.mirroring import mirrors
from kernel_gateway.services.replays.verdicts import CARRIED
from kernel_gateway.services.sessions.hibernating.hibernation import RETRY_SECONDS
from sandcell.models.commands import CommandRequest
from sandcell.models.sessions import ForkPoint, Session, StartSession
from tests.integration.kernel_gateway.services.conftest import Gateway, House

FILL = """
import numpy
value, listed = 40, [1, 2]
alias = listed
array = numpy.arange(300_000)
opened = open("/dev/null")
open("kept.txt", "w").write("from before")
import os
for place in ("notes/deep", ".cache/notes"):
    os.makedirs(f"/home/user/{place}", exist_ok=True)
    open(f"/home/user/{place}/note", "w").write("at home")
open("/home/user/locked", "w").close()
os.chmod("/home/user/locked", 0)
"""
CHECK = "(value + 2, alias is listed, int(array.sum()), open('kept.txt').read(), 'opened' in globals())"
CHECKED = "(42, True, 44999850000, 'from before', False)"
HOME = "(open('/home/user/notes/deep/note').read(), os.path.exists('/home/user/.cache/notes'))"
DAY = 86_400


def stored(house: House) -> list[str]:
    """What the store has of snapshots."""
    top = Path(house.settings.data_dir) / "store" / "variables"
    return sorted(str(each.relative_to(top)) for each in top.rglob("*") if each.is_file())


async def hibernate(gateway: Gateway, session: Session) -> Session:
    return await gateway.services.hibernation.hibernate(gateway.me, session.id)


async def fill(gateway: Gateway, **body: Any) -> Session:
    """A session with variables and a file."""
    session = await gateway.start(**body)
    ran = await gateway.run(session, FILL)
    assert ran.status == "ok", ran
    return session


async def say(gateway: Gateway, session: Session, command: str) -> str:
    request = CommandRequest(command, timeout_seconds=60.0)
    return (await gateway.services.commands.run(gateway.me, session.id, request)).stdout


@asynccontextmanager
async def held_put(gateway: Gateway) -> AsyncIterator[asyncio.Event]:
    """The copy of a snapshot to the store stops before it is there, and says so, until the block ends."""
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


def test_a_session_is_as_it_was_after_a_restart_of_the_service(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            session = await hibernate(gateway, await fill(gateway))
            report = session.hibernated
            assert (session.status, session.memory) == ("HIBERNATED", None)
            assert report is not None
            lost = [(each.name, each.why) for each in report.variables if each.outcome == "lost"]
            assert lost == [("opened", "an open file")]
            assert report.size_bytes > 300_000 * 8
            assert session.expires_at == report.until
            assert await gateway.services.runtime.list() == ()
            assert len(stored(house)) == 1
            (usage,) = (await gateway.services.retention.usage(gateway.me)).items
            assert (usage.live_sessions, usage.memory_bytes) == (0, 0)
            shown = (await gateway.show(session)).usage
            assert (shown.memory_bytes, shown.pids, shown.executions > 0) == (0, 0, True)
        async with house.gateway() as gateway:
            again = await gateway.show(session)
            assert (again.status, again.hibernated) == ("HIBERNATED", report)
            forked = await gateway.services.forks.start(gateway.me, StartSession(from_=ForkPoint(session.id)))
            assert await gateway.text(forked, "value, open('kept.txt').read()") == "(40, 'from before')"
            await gateway.services.sessions.stop(gateway.me, forked.id)
            assert (await gateway.show(session)).status == "HIBERNATED"
            assert await gateway.text(session, CHECK) == CHECKED
            woken = await gateway.show(session)
            assert (woken.status, woken.generation, woken.hibernated) == ("READY", 2, None)
            assert woken.restored is not None
            outcomes = {each.name: each.outcome for each in woken.restored.variables}
            assert (outcomes["array"], outcomes["opened"]) == ("restored", "lost")
            assert await gateway.text(session, HOME) == "('at home', False)"
            await replayed_in_one_kernel(gateway, session)
            assert (await gateway.run(session, "import os; os._exit(1)")).status == "died"
            kept = "os.path.exists('/home/user/.cache/sandcell/variables/index.json')"
            assert await gateway.text(session, f"import os; 'value' in globals(), {kept}") == "(False, False)"
            await gateway.services.sessions.stop(gateway.me, session.id)
            await gateway.services.checkpoints.remove_spent()  # what the fork began from

    asyncio.run(test())
    assert stored(house) == []


async def replayed_in_one_kernel(gateway: Gateway, session: Session) -> None:
    """A replay finds the variables in its kernel as the record did in the one of the session that was woken."""
    again = await gateway.services.forks.start(gateway.me, StartSession(from_=ForkPoint(session.id, replay=True)))
    assert await gateway.text(again, "value, open('kept.txt').read()") == "(40, 'from before')"
    assert again.from_ is not None
    assert [CARRIED in each.why for each in again.from_.different] == [True, False], "`opened` is there, and a cache"
    await gateway.services.sessions.stop(gateway.me, again.id)


def test_no_memory_and_no_place_leave_a_session_hibernated(house: House) -> None:
    async def test() -> None:
        async with house.gateway(live_sessions=1) as gateway:
            session = await hibernate(gateway, await fill(gateway))
            other = await gateway.start()  # in its place
            with pytest.raises(SessionLimit):
                await gateway.services.hibernation.resume(gateway.me, session.id)
            assert (await gateway.run(session, "1")).status == "rejected"
            await gateway.services.sessions.stop(gateway.me, other.id)
        async with house.gateway(memory_reserve_bytes=10**13) as gateway:
            with pytest.raises(NoMemory):
                await gateway.services.hibernation.resume(gateway.me, session.id)
            assert (await gateway.show(session)).status == "HIBERNATED"
            assert len(stored(house)) == 1

    asyncio.run(test())


def test_a_copy_that_takes_longer_than_it_may_is_not_left_in_the_store(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            session = await fill(gateway)
            async with held_put(gateway):
                with monkeypatch.context() as patches:
                    patches.setattr(mirrors, "STORE_SECONDS", 1.0)
                    with pytest.raises(DeadlinePassed):
                        await hibernate(gateway, session)
                await gateway.services.upkeep.sweep()  # it is looked for, and is not there yet
            await hibernate(gateway, session)
            assert await gateway.text(session, "value") == "40"

            async def nothing_is_left() -> bool:
                return stored(house) == []

            await gateway.until(nothing_is_left)

    asyncio.run(test())


def test_its_life(house: House) -> None:
    """One session through what may come, each part as the one before has left it."""

    async def test() -> None:
        async with house.gateway(hibernated_sessions=1, sweep_interval_seconds=10**6) as gateway:
            session = await fill(gateway, timeout_seconds=1_000, idle_timeout_seconds=1_000)
            await a_large_home(gateway)
            for part in (
                refusals,
                store_away,
                database_away,
                cut_off,
                uses_meanwhile,
                two_wakes,
                a_blank_kernel,
                time,
                the_end,
            ):
                await part(house, gateway, session)

    asyncio.run(test())


async def a_large_home(gateway: Gateway) -> None:
    """It is not kept, which is said; all else is."""
    session = await gateway.start(keep_variables_mb=1)
    await gateway.run(session, "value = 40; open('/home/user/large', 'wb').truncate(3 << 20)")
    report = (await hibernate(gateway, session)).hibernated
    assert report is not None
    assert "/home/user holds more than may be kept: " in "".join(report.lost), report.lost
    assert await gateway.text(session, "value, __import__('os').path.exists('/home/user/large')") == "(40, False)"
    await gateway.services.sessions.stop(gateway.me, session.id)


@asynccontextmanager
async def locked_database(house: House) -> AsyncIterator[None]:
    """Another process has the database, for longer than a statement waits for it."""
    with closing(
        sqlite3.connect(Path(house.settings.data_dir) / "state" / "sandcell.db", isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def database_away(house: House, gateway: Gateway, _session: Session) -> None:
    session = await fill(gateway)
    async with locked_database(house):
        with pytest.raises(DatabaseUnavailable):
            await hibernate(gateway, session)
    assert (await gateway.show(session)).status == "READY"
    assert await gateway.text(session, "value") == "40"
    await hibernate(gateway, session)
    async with locked_database(house):
        with pytest.raises(DatabaseUnavailable):
            await gateway.services.hibernation.resume(gateway.me, session.id)
        assert (await gateway.show(session)).status == "HIBERNATED"
        left = await gateway.services.runtime.list()
        assert session.id not in {each.sandbox_id for each in left}
    assert await gateway.text(session, "value, open('kept.txt').read()") == "(40, 'from before')"
    await gateway.services.sessions.stop(gateway.me, session.id)


async def cut_off(house: House, gateway: Gateway, _session: Session) -> None:
    """Code that wakes a session and is interrupted meanwhile has ended by the answer to that, and never runs."""
    session = await fill(gateway)
    await hibernate(gateway, session)
    live = await gateway.services.registry.require(gateway.me, session.id)
    waking = await gateway.submit(session, "ran = True")
    while live.running is None:
        await asyncio.sleep(0)
    ended = await gateway.services.executions.interrupt(gateway.me, session.id, waking.id)
    assert (ended.status, ended.started_at, ended.why) == ("interrupted", None, "it was interrupted before it began")
    assert await gateway.text(session, "value, 'ran' in globals()") == "(40, False)"
    await gateway.services.sessions.stop(gateway.me, session.id)


async def refusals(house: House, gateway: Gateway, session: Session) -> None:
    task = await gateway.services.commands.run(
        gateway.me, session.id, CommandRequest("sleep 1000", background=True, timeout_seconds=2_000.0)
    )
    with pytest.raises(SessionBusy, match="a task"):
        await hibernate(gateway, session)
    await gateway.services.tasks.stop(gateway.me, session.id, task.id)
    running = await gateway.submit(session, "import time; time.sleep(1000)")
    await gateway.until_running(session, running)
    with pytest.raises(SessionBusy, match="something runs"):
        await hibernate(gateway, session)
    await gateway.services.sessions.interrupt(gateway.me, session.id)
    await gateway.services.executions.wait(gateway.me, session.id, running.id)
    assert (await gateway.show(session)).status == "READY"


async def store_away(house: House, gateway: Gateway, session: Session) -> None:
    gateway.store.away = True
    with pytest.raises(StoreUnavailable):
        await hibernate(gateway, session)
    gateway.store.away = False
    assert await gateway.text(session, "value") == "40"
    session = await hibernate(gateway, session)
    gateway.store.away = True
    with pytest.raises(StoreUnavailable):
        await gateway.services.hibernation.resume(gateway.me, session.id)
    gateway.store.away = False
    assert (await gateway.show(session)).status == "HIBERNATED"
    assert await gateway.text(session, CHECK) == CHECKED
    assert (await gateway.show(session)).generation == 2


async def uses_meanwhile(house: House, gateway: Gateway, session: Session) -> None:
    """Code that comes while the session hibernates runs: in the kernel that is there, or in the next one."""
    live = await gateway.services.registry.require(gateway.me, session.id)
    for unless_used, generation in ((True, 2), (False, 3)):
        async with held_put(gateway) as reached:
            hibernating = asyncio.create_task(gateway.services.hibernation.begin(live, unless_used=unless_used))
            await reached.wait()
            execution = await gateway.submit(session, CHECK)
            assert live.busy
        if unless_used:
            with pytest.raises(SessionBusy):
                await hibernating
        else:
            await hibernating
        ran = await gateway.services.executions.wait(gateway.me, session.id, execution.id)
        assert ran.status == "ok", ran
        assert (ran.status, ran.generation, ran.outputs[-1]["data"]["text/plain"]) == ("ok", generation, CHECKED)


async def two_wakes(house: House, gateway: Gateway, session: Session) -> None:
    live = await gateway.services.registry.require(gateway.me, session.id)
    before, news = live.news.last_sequence, list[tuple[str, Any]]()
    await hibernate(gateway, session)
    with pytest.raises(Conflict, match="resume it first"):
        await gateway.services.sessions.set_lifetime(gateway.me, session.id, 10)
    other = await fill(gateway)
    with pytest.raises(QuotaReached, match=r"\(hibernated_sessions\): use or stop one"):
        await hibernate(gateway, other)
    assert await gateway.text(other, "value") == "40"
    await gateway.services.sessions.stop(gateway.me, other.id)
    said, text = await asyncio.gather(say(gateway, session, "cat kept.txt"), gateway.text(session, CHECK))
    assert (said, text, (await gateway.show(session)).generation) == ("from before", CHECKED, 4)
    async for each in await gateway.services.sessions.events(gateway.me, session.id, before):
        if each.event not in ("execution", "note"):
            news.append((each.event, each.data.get("generation")))
        if each.event == "generation":
            break
    assert news == [("hibernated", None), ("woken", 4), ("generation", 4)]


async def a_blank_kernel(house: House, gateway: Gateway, session: Session) -> None:
    """A command alone leaves the variables to the next code, also over another hibernation; a restart to nobody."""
    await hibernate(gateway, session)
    assert await say(gateway, session, "cat kept.txt") == "from before"
    await hibernate(gateway, session)
    assert await gateway.text(session, CHECK) == CHECKED
    await hibernate(gateway, session)
    await gateway.services.sessions.restart(gateway.me, session.id)
    assert await gateway.text(session, "'value' in globals()") == "False"
    assert (await gateway.show(session)).restored is None


async def time(house: House, gateway: Gateway, session: Session) -> None:
    """It hibernates by itself when it is idle; its own time stands still meanwhile."""
    live = await gateway.services.registry.require(gateway.me, session.id)
    live.hibernate_seconds = 100
    await gateway.run(session, "value = 41")
    left = live.row.expires - gateway.clock.now()
    await gateway.services.hibernation.look()
    assert not live.hibernated
    assert live.describe().hibernates_at == rfc3339(live.last_activity + 100)
    gateway.clock.advance(101)
    gateway.store.away = True
    await gateway.services.hibernation.look()
    gateway.store.away = False
    await gateway.services.hibernation.look()
    assert not live.hibernated, "it is tried again a while later"
    gateway.clock.advance(RETRY_SECONDS)
    await gateway.services.hibernation.look()
    assert live.hibernated
    gateway.clock.advance(13 * DAY)
    assert await gateway.text(session, "value") == "41"
    assert live.row.expires - gateway.clock.now() == pytest.approx(left - 101 - RETRY_SECONDS)


async def the_end(house: House, gateway: Gateway, session: Session) -> None:
    before = await hibernate(gateway, session)
    gateway.clock.step(3_600)  # the host's clock is set: its end is as far away as it was
    await gateway.services.upkeep.sweep()
    after = await gateway.show(session)
    assert before.hibernated is not None
    assert after.hibernated is not None
    assert after.hibernated.until == after.expires_at
    moved = [datetime.fromisoformat(each.hibernated.until) for each in (before, after) if each.hibernated]
    assert (moved[1] - moved[0]).total_seconds() == 3_600
    gateway.clock.advance(14 * DAY + 1)
    ended = await gateway.ended(session)
    assert ended.ended is not None
    told = f"it was hibernated, and kept until {after.hibernated.until}"
    assert (ended.ended.reason, ended.ended.detail) == ("state_ttl", told)
    await gateway.until(nothing_in(house))
    again = await fill(gateway, workspace_id=session.workspace_id)
    async with held_put(gateway) as reached:  # one that ends while it hibernates
        hibernating = asyncio.create_task(hibernate(gateway, again))
        await reached.wait()
        stopping = asyncio.create_task(gateway.services.sessions.stop(gateway.me, again.id))
        await asyncio.sleep(0.05)
    with pytest.raises(Exception, match="ended"):
        await hibernating
    assert (await stopping).status == "TERMINATED"
    await gateway.services.upkeep.sweep()
    assert stored(house) == []


def nothing_in(house: House) -> Callable[[], Any]:
    async def holds() -> bool:
        return stored(house) == []

    return holds
