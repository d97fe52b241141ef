"""Starts with an idempotency key: one session for a key, at once, over failures and restarts, and for a day."""

from __future__ import annotations

import asyncio

import pytest

from kernel_gateway import errors
from kernel_gateway.services.client_tokens import KEPT_SECONDS
from kernel_gateway.services.start_keys import make_start_key
from sandcell.models.sessions import Session, StartSession
from tests.integration.kernel_gateway.services.conftest import Gateway, House
from tests.integration.kernel_gateway.services.lost_kernels import lose_kernels_when_open

BODY = StartSession(name="wanted once")


async def start(gateway: Gateway, token: str = "key", body: StartSession = BODY) -> Session:
    key = make_start_key(gateway.me, token, body)
    return await gateway.services.sessions.start(gateway.me, body, key=key)


async def list_ids(gateway: Gateway) -> list[str]:
    return [each.id for each in (await gateway.services.sessions.list(gateway.me)).items]


def test_a_key_starts_one_session(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            started = await asyncio.gather(*(start(gateway) for _ in range(4)))
            (only,) = {each.id for each in started}
            assert await list_ids(gateway) == [only]
            assert await gateway.text(started[-1], "1 + 1") == "2"
            with pytest.raises(errors.IdempotencyConflict):
                await start(gateway, body=StartSession(name="another"))
            other = await start(gateway, "other key")
            assert other.id != only
            await gateway.services.sessions.stop(gateway.me, only)
            assert ((again := await start(gateway)).id, again.status) == (only, "TERMINATED")
        async with house.gateway() as gateway:
            assert (await start(gateway)).id == only, "a restart forgets no key"
            gateway.clock.advance(KEPT_SECONDS + 1)
            assert (await start(gateway)).id not in {only, other.id}, "keys count for a day"

    asyncio.run(test())


def test_who_left_before_the_answer_finds_the_session(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            leaving = asyncio.create_task(start(gateway))
            await gateway.until(lambda: _is_listed(gateway))
            leaving.cancel()
            assert [(await start(gateway)).id] == await list_ids(gateway)

    asyncio.run(test())


async def _is_listed(gateway: Gateway) -> bool:
    return bool(await list_ids(gateway))


def test_a_start_that_was_refused_or_failed_leaves_the_key_free(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            with pytest.raises(errors.UnknownEnvironment):
                await start(gateway, body=StartSession("nowhere"))
            with monkeypatch.context() as patches:
                lose_kernels_when_open(patches, house.settings.data_dir)
                with pytest.raises(errors.SandboxUnavailable):
                    await start(gateway)
            (failed,) = await list_ids(gateway)
            works = await start(gateway)
            assert works.id != failed
            assert works.status == "READY"
            assert (await start(gateway)).id == works.id

    asyncio.run(test())


def test_a_key_frees_no_workspace(house: House) -> None:
    async def test() -> None:
        async with house.gateway() as gateway:
            holds = await gateway.start()
            with pytest.raises(errors.WorkspaceInUse):
                await start(gateway, body=StartSession(workspace_id=holds.workspace_id))

    asyncio.run(test())
