"""Whole workspaces removed: refused while live, the record kept, finished when the store is back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from kernel_gateway.errors import NotFound, StoreUnavailable, WorkspaceInUse
from kernel_gateway.services.mirroring.mirrors import prefix
from kernel_gateway.storage import sessions
from sandcell.models.workspaces import CopyFiles
from tests.integration.kernel_gateway.services.conftest import Gateway, House


async def bytes_of(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def workspace(gateway: Gateway, name: str) -> str:
    """A workspace that no session has used, with a file and a notebook beside it."""
    now, me = gateway.clock.now(), gateway.me
    await gateway.services.database.run(lambda c: sessions.add_workspace(c, name, me.id, now))
    await gateway.services.workspaces.write(me, name, "out/ten", bytes_of(b"0123456789"))
    gateway.services.mirrors.durable(name).put_beside("history.ipynb", b"{}")
    return name


def keys(gateway: Gateway, name: str) -> list[str]:
    return sorted(each.key.removeprefix(prefix(name) + "/") for each in gateway.store.list(prefix(name) + "/"))


def test_a_workspace_is_removed_and_its_record_stays(on_gateway: Callable[..., None]) -> None:
    async def test(gateway: Gateway) -> None:
        name, removals, me = await workspace(gateway, "one"), gateway.services.removals, gateway.me
        told = await removals.remove(me, name, dry_run=True)
        assert (told.file_count, told.size_bytes, told.kept, told.pending) == (1, 10, ["history.ipynb"], False)
        assert keys(gateway, name) == ["history.ipynb", "manifest.json", "workspace/out/ten"]
        done = await removals.remove(me, name)
        assert (done.paths, done.dry_run) == (told.paths, False)
        assert keys(gateway, name) == ["history.ipynb"]
        for gone in (
            removals.remove(me, name),
            gateway.services.workspaces.get(me, name),
            gateway.services.workspaces.write(me, name, "x", bytes_of(b"")),
            gateway.start(workspace_id=name),
        ):
            with pytest.raises(NotFound):
                await gone
        assert (await gateway.services.workspaces.list(me)).items == []

    on_gateway(test)


def test_a_live_one_is_refused_and_what_happens_beside_is_seen(on_gateway: Callable[..., None]) -> None:
    async def test(gateway: Gateway) -> None:
        session = await gateway.start()
        await gateway.run(session, "open('kept', 'w').write('x')")
        for rehearsed in (True, False):
            with pytest.raises(WorkspaceInUse):
                await gateway.services.removals.remove(gateway.me, session.workspace_id, dry_run=rehearsed)
        assert await gateway.services.removals.expire(session.workspace_id) is None
        await gateway.services.removals.finish_all()
        await gateway.services.sessions.stop(gateway.me, session.id)
        assert (await gateway.services.workspaces.stat(gateway.me, session.workspace_id, "kept")).size == 1

    on_gateway(test)


def test_what_the_store_does_not_do_now_it_does_later(house: House) -> None:
    async def begin() -> None:
        async with house.gateway() as gateway:
            name, removals = await workspace(gateway, "one"), gateway.services.removals
            gateway.store.away = True
            with pytest.raises(StoreUnavailable):
                await removals.remove(gateway.me, name)
            assert (await gateway.services.workspaces.list(gateway.me)).items != []
            assert await removals.expire(name) is True
            await removals.finish_all()
            with pytest.raises(NotFound):
                await removals.remove(gateway.me, name)

    async def go_on() -> None:
        async with house.gateway() as gateway:
            assert "workspace/out/ten" in keys(gateway, "one")
            await gateway.services.removals.finish_all()
            assert keys(gateway, "one") == ["history.ipynb"]
            assert list((gateway.services.settings.state_path / "removals").iterdir()) == []

    asyncio.run(begin())
    asyncio.run(go_on())


def test_a_session_waits_for_a_change_of_its_files(on_gateway: Callable[..., None]) -> None:
    """A file that is being written when the session starts is there when its code runs."""

    async def test(gateway: Gateway) -> None:
        name = await workspace(gateway, "one")
        arriving, rest = threading.Event(), threading.Event()

        def slow(key: str) -> None:
            if key.endswith("/late"):
                arriving.set()
                rest.wait(120)

        gateway.store.before_put = slow
        put = gateway.services.workspaces.write(gateway.me, name, "late", bytes_of(b"first rest"))
        writing = asyncio.create_task(put)
        assert await asyncio.to_thread(arriving.wait, 90)
        starting = asyncio.create_task(gateway.start(workspace_id=name))

        async def held() -> bool:
            return bool((await gateway.services.sessions.list(gateway.me)).items)

        await gateway.until(held)
        rest.set()
        await writing
        session = await starting
        assert await gateway.text(session, "open('late').read()") == "'first rest'"
        with pytest.raises(WorkspaceInUse):
            await gateway.services.workspaces.write(gateway.me, name, "x", bytes_of(b""))

    on_gateway(test)


def test_a_listing_goes_on_beyond_what_one_page_may_hold(house: House) -> None:
    async def test() -> None:
        async with house.gateway(files_listed=5) as gateway:
            name, found, cursor = await workspace(gateway, "one"), [], None
            long = "/".join(["d" * 250] * 16)
            for number in range(11):
                await gateway.services.workspaces.write(gateway.me, name, f"{long}/{number:02}", bytes_of(b""))
            while True:
                page = await gateway.services.workspaces.list_files(gateway.me, name, long, limit=5, cursor=cursor)
                found += [each.path for each in page.items]
                if (cursor := page.next_cursor) is None:
                    break
            assert found == [f"{long}/{number:02}" for number in range(11)]

    asyncio.run(test())


def test_no_session_waits_for_copies_that_a_store_holds_up(house: House) -> None:
    async def test() -> None:
        async with house.gateway(transfer_threads=1, flush_deadline_seconds=60.0) as gateway:
            one, two = await workspace(gateway, "one"), await workspace(gateway, "two")
            arriving, rest = threading.Event(), threading.Event()

            def slow(key: str) -> None:
                if "/two/" in key:
                    arriving.set()
                    rest.wait(120)

            gateway.store.before_put = slow
            copying = asyncio.create_task(
                gateway.services.file_copies.copy(gateway.me, one, CopyFiles(to=two, to_path="copy"))
            )
            try:
                assert await asyncio.to_thread(arriving.wait, 90)
                session = await gateway.start()
                execution = await gateway.run(session, "open('kept', 'w').write('x')", sync="before_return")
                assert execution.sync.durable is True
            finally:
                rest.set()
            assert (await copying).paths == ["copy/out", "copy/out/ten"]

    asyncio.run(test())
