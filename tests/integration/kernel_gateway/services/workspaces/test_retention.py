"""What workspaces hold is counted as they change; those that nobody uses are removed when the operator wants it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from kernel_gateway.errors import Forbidden, InvalidRequest, NotFound
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.workspaces.retention import SPOOLED
from kernel_gateway.storage.audit import AuditFilter
from kernel_gateway.storage.tables import workspaces
from sandcell.models.usage import ExpireWorkspaces, PrincipalUsage
from tests.integration.kernel_gateway.services.conftest import Gateway, House, Test

DAY = 86_400.0
TWO_WEEKS = 14 * 86_400


async def once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def write(gateway: Gateway, workspace_id: str, path: str, content: bytes) -> None:
    await gateway.services.workspaces.write(gateway.me, workspace_id, path, once(content))


async def an_ended_one(gateway: Gateway, code: str = "open('kept', 'w').write('x' * 10)") -> str:
    """A workspace whose session has ended."""
    session = await gateway.start()
    await gateway.run(session, code)
    await gateway.services.sessions.stop(gateway.me, session.id)
    return session.workspace_id


async def counts(gateway: Gateway, workspace_id: str) -> tuple[int | None, int | None]:
    shown = await gateway.services.workspaces.get(gateway.me, workspace_id)
    return shown.file_count, shown.size_bytes


async def own_usage(gateway: Gateway) -> PrincipalUsage:
    (own,) = (await gateway.services.retention.usage(replace(gateway.me, admin=False))).items
    return own


async def forget_counts(gateway: Gateway, workspace_id: str) -> None:
    """As in a database of a version that counted nothing."""
    await gateway.services.ledger.flush()
    blank = update(workspaces).where(workspaces.c.id == workspace_id).values(file_count=None, size_bytes=None)
    await gateway.services.database.run(lambda c: c.execute(blank).rowcount)


def test_what_a_workspace_holds_is_counted_by_every_way_it_changes(on_gateway: Test) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        workspace_id = session.workspace_id
        await gateway.run(
            session, "open('a', 'w').write('x' * 10); open('b', 'w').write('y' * 5)", sync="before_return"
        )
        assert await counts(gateway, workspace_id) == (2, 15)
        await gateway.run(session, "import os; os.remove('b')", sync="before_return")
        assert await counts(gateway, workspace_id) == (1, 10)
        live = await own_usage(gateway)
        assert (live.live_workspaces, live.live_sessions, live.live_sessions_most) == (1, 1, 100)
        assert min(live.memory_bytes, live.disk_bytes, live.cpu_seconds) > 0
        await gateway.services.sessions.stop(gateway.me, session.id)

        await write(gateway, workspace_id, "c", b"z" * 100)
        assert await counts(gateway, workspace_id) == (2, 110)
        await gateway.services.workspaces.remove(gateway.me, workspace_id, "a")
        assert await counts(gateway, workspace_id) == (1, 100)
        own = await own_usage(gateway)
        assert own.cpu_seconds >= live.cpu_seconds
        kept = {"live_sessions_most": 100, "cpu_seconds": own.cpu_seconds}
        assert own == PrincipalUsage(gateway.me.name, 1, 0, 0, 1, 100, 0, **kept)

        await forget_counts(gateway, workspace_id)
        assert (await own_usage(gateway)).not_counted == 1
        assert await counts(gateway, workspace_id) == (1, 100)
        assert (await own_usage(gateway)).not_counted == 0
        await gateway.services.removals.remove(gateway.me, workspace_id)
        assert await own_usage(gateway) == PrincipalUsage(gateway.me.name, 0, 0, 0, 0, 0, 0, **kept)

    on_gateway(test)


def test_processor_time_is_that_of_all_sandboxes_of_a_session(on_gateway: Test) -> None:
    spin = "import time\nwhile time.process_time() < 3: pass"

    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        assert (await gateway.run(session, spin)).status == "ok"
        first = await own_usage(gateway)
        assert first.cpu_seconds >= 3
        pid = Path(gateway.services.settings.data_dir) / "sandboxes" / session.id / "bundle" / "pid"
        os.kill(int(pid.read_text()), signal.SIGKILL)

        async def replaced() -> bool:
            return (await gateway.run(session, "1")).generation == 2

        await gateway.until(replaced)
        assert (await own_usage(gateway)).cpu_seconds > first.cpu_seconds
        ended = await gateway.services.sessions.stop(gateway.me, session.id)
        assert ended.usage.cpu_seconds > first.cpu_seconds
        assert (await own_usage(gateway)).cpu_seconds == pytest.approx(ended.usage.cpu_seconds, abs=1e-5)

    on_gateway(test)


def test_usage_is_by_principal_and_others_see_their_own_alone(on_gateway: Test) -> None:
    async def test(gateway: Gateway) -> None:
        for name in ("beta", "alpha"):
            await gateway.services.tokens.create(gateway.me, name, "")
        everybody = [each.principal for each in (await gateway.services.retention.usage(gateway.me)).items]
        assert everybody == sorted(["alpha", "beta", gateway.me.name])
        first = await gateway.services.retention.usage(gateway.me, limit=2)
        assert first.next_cursor is not None
        rest = await gateway.services.retention.usage(gateway.me, limit=2, cursor=first.next_cursor)
        assert [each.principal for each in (*first.items, *rest.items)] == everybody
        assert [each.principal for each in (await gateway.services.retention.usage(stranger())).items] == []
        with pytest.raises(Forbidden):
            await gateway.services.retention.expire(stranger(), ExpireWorkspaces(days=1))
        with pytest.raises(InvalidRequest, match="say days"):
            await gateway.services.retention.expire(gateway.me, ExpireWorkspaces())

    on_gateway(test)


def stranger() -> Principal:
    return Principal("nobody", "nobody", admin=False)


def test_what_nobody_used_for_long_is_removed_and_nothing_else(on_gateway: Test) -> None:
    async def test(gateway: Gateway) -> None:
        retention = gateway.services.retention
        old, read, written, used = [await an_ended_one(gateway) for _ in range(4)]
        spooled = await an_ended_one(gateway)
        await gateway.services.ledger.flush()
        gateway.clock.advance(29 * DAY)
        live = await gateway.start(workspace_id=used, idle_timeout_seconds=TWO_WEEKS, timeout_seconds=TWO_WEEKS)
        entry, chunks = await gateway.services.workspaces.read(gateway.me, read, "kept")
        assert b"".join([chunk async for chunk in chunks]) == b"x" * entry.size
        await write(gateway, written, "more", b"1")
        copy = gateway.services.settings.state_path / "spool" / spooled
        gateway.clock.advance(DAY + 60)

        async with gateway.services.spool._lock(spooled):  # else it might be delivered between the two
            copy.mkdir(parents=True)
            rehearsed = await retention.expire(gateway.me, ExpireWorkspaces(days=30))
            assert rehearsed.dry_run is True
            assert {(each.workspace_id, each.kept) for each in rehearsed.workspaces} == {
                (old, None),
                (spooled, SPOOLED),
            }
            assert await counts(gateway, old) == (1, 10)

            done = await retention.expire(gateway.me, ExpireWorkspaces(days=30, dry_run=False))
            assert done.workspaces == rehearsed.workspaces
            copy.rmdir()
        with pytest.raises(NotFound):
            await gateway.services.workspaces.get(gateway.me, old)
        for each in (read, written, spooled, live.workspace_id):
            await gateway.services.workspaces.get(gateway.me, each)
        mirrors = gateway.services.mirrors
        assert await mirrors.run(mirrors.durable(old).list) == []
        assert len(await mirrors.run(mirrors.durable(read).list)) == 1

        records = (await gateway.services.audit.list(gateway.me, AuditFilter(kind="retention"))).items
        assert [(each.event, each.target, each.allowed) for each in records] == [("ExpireWorkspace", old, True)]
        assert [records[0].detail[word] for word in ("days", "file_count", "size_bytes")] == [30, 1, 10]

    on_gateway(test)


def test_the_service_removes_them_by_itself_when_that_is_set(house: House) -> None:
    async def test() -> None:
        async with house.gateway(workspace_retention_days=30) as gateway:
            workspace_id = await an_ended_one(gateway)
            await gateway.services.ledger.flush()
            gateway.clock.advance(29 * DAY)
            await gateway.services.upkeep.sweep()
            assert await counts(gateway, workspace_id) == (1, 10)
            gateway.clock.advance(2 * DAY)

            async def gone() -> bool:
                gateway.clock.advance(600)  # a sweep may have been under way when it was turned, and waits for the next
                page = await gateway.services.workspaces.list(gateway.me)
                return workspace_id not in [each.id for each in page.items]

            await gateway.until(gone)

    asyncio.run(test())


def test_a_user_who_comes_back_at_the_last_moment_keeps_all(on_gateway: Test) -> None:
    async def test(gateway: Gateway) -> None:
        workspace_id = await an_ended_one(gateway)
        await gateway.services.ledger.flush()
        before = gateway.clock.now() + 10
        gateway.clock.advance(100 * DAY)
        await write(gateway, workspace_id, "more", b"1")
        assert await gateway.services.removals.expire(workspace_id, untouched_since=before) is None
        assert await counts(gateway, workspace_id) == (2, 11)

    on_gateway(test)


def test_nothing_is_removed_unless_the_operator_wants_it(on_gateway: Test) -> None:
    async def test(gateway: Gateway) -> None:
        workspace_id = await an_ended_one(gateway)
        gateway.clock.advance(36_000 * DAY)
        await gateway.services.retention.sweep()
        assert await counts(gateway, workspace_id) == (1, 10)

    on_gateway(test)
