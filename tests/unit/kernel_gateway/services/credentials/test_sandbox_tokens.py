"""By which tokens the signature of an address is checked: those of live sessions, so many of each."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kernel_gateway.errors import LimitReached, Unauthorized
from kernel_gateway.identity.principal import Caller
from kernel_gateway.services.credentials import sandbox_tokens
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.sandbox_tokens import (
    MOST_KNOWN,
    MOST_REFUSED,
    MOST_TRYING,
    REFUSED_SECONDS,
    SandboxTokens,
    sign_path,
)
from kernel_gateway.services.sessions.live_session import LiveSession
from kernel_gateway.services.sessions.registry import Registry
from kernel_gateway.settings import Settings
from kernel_gateway.storage.database import Database
from kernel_gateway.storage.sessions import SessionRow
from tests.doubles.turned_clock import TurnedClock

TOKEN = "the-token-of-the-first-administrator"


def make_session(clock: TurnedClock) -> LiveSession:
    own_id = str(uuid.uuid4())
    return LiveSession(SessionRow(own_id, "p", own_id, "n", "e", 1, 0, 0, 1, 1, 1, None, {}), clock)


async def check(tokens: SandboxTokens, token: str) -> tuple[Caller, str]:
    """Who signed an address by this token, and for which session."""
    signature = sign_path(token, "a", "read", "", "")
    return await tokens.check_signature(signature, path="a", operation="read", user="", expiration="")


async def scene(directory: Path) -> None:
    clock, database = TurnedClock(), Database(f"sqlite:///{directory / 'database'}")
    await database.open()
    try:
        identity, registry = Identity(database, clock.now), Registry(database)
        await identity.open(TOKEN, clock.now())
        caller = await identity.authenticate(TOKEN)
        settings = replace(Settings(), data_dir=str(directory), secrets_key="00" * 32)
        tokens = SandboxTokens(settings, clock, database, identity, registry)
        mine, busy = make_session(clock), make_session(clock)
        for each in (mine, busy):
            registry.add(each)
        token = tokens.derive(caller.credential_id, mine.id)
        for _ in range(3_000):
            gone = tokens.derive(caller.credential_id, str(uuid.uuid4()))
            tokens.derive(str(uuid.uuid4()), busy.id)
        assert await check(tokens, token) == (caller, mine.id)
        assert len(tokens._list_known()) == 1 + MOST_KNOWN
        with pytest.raises(Unauthorized):
            await check(tokens, gone)
        registry.remove(mine)
        with pytest.raises(Unauthorized):
            await check(tokens, token)
        other = make_session(clock)
        registry.add(other)
        tokens.derive(caller.credential_id, other.id)
        assert set(tokens._known) == {busy.id, other.id}
    finally:
        await database.aclose()


def test_nobody_s_tokens_push_out_those_of_others(tmp_path: Path) -> None:
    asyncio.run(scene(tmp_path))


class Slow:
    """A database that has no tokens, and says so when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.let = asyncio.Event()

    async def run(self, _query: Any) -> list[tuple[str, str]]:
        self.asked += 1
        await self.let.wait()
        return []


def test_few_wrong_signatures_wait_and_each_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        clock, slow, now = TurnedClock(), Slow(), [100.0]
        registry, settings = Registry(cast("Database", slow)), replace(Settings(), secrets_key="00" * 32)
        parts = (cast("Database", slow), cast("Identity", None), registry)
        tokens = SandboxTokens(settings, clock, *parts, monotonic=lambda: now[0])

        async def refusal(token: str) -> type[Exception] | None:
            try:
                await check(tokens, token)
            except (LimitReached, Unauthorized) as error:
                return type(error)
            return None

        asking = [asyncio.create_task(refusal(str(number))) for number in range(MOST_TRYING + 3)]
        done, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert {each.result() for each in done} == {LimitReached}  # at once, while the others wait
        slow.let.set()
        assert (await asyncio.gather(*asking)).count(Unauthorized) == MOST_TRYING == slow.asked
        assert await refusal("0") is Unauthorized
        assert slow.asked == MOST_TRYING
        now[0] += REFUSED_SECONDS
        for number in range(MOST_REFUSED + 1):
            assert await refusal(str(number)) is Unauthorized
        assert slow.asked == MOST_TRYING + MOST_REFUSED + 1
        assert len(tokens._refused) == MOST_REFUSED
        slow.let.clear()
        monkeypatch.setattr(sandbox_tokens, "TRY_SECONDS", 0.01)
        assert await refusal("another") is LimitReached
        assert tokens._trying == 0

    asyncio.run(act())
