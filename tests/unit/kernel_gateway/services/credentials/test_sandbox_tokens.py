"""By which tokens the signature of an address is checked: those of live sessions, so many of each."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_gateway.errors import Unauthorized
from kernel_gateway.identity.principal import Caller
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.services.credentials.sandbox_tokens import MOST_KNOWN, SandboxTokens, sign_path
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
