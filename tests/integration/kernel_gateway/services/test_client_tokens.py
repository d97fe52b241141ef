"""Client tokens on a real database: done once, joined while under way, remembered over a restart, and for a day."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kernel_gateway.errors import Conflict, IdempotencyConflict
from kernel_gateway.identity.principal import Principal
from kernel_gateway.services.background import Background
from kernel_gateway.services.client_tokens import KEPT_SECONDS, ClientTokens, compute_digest
from kernel_gateway.services.credentials.authentication import Identity
from kernel_gateway.storage import principals
from kernel_gateway.storage.database import Database
from tests.doubles.turned_clock import TurnedClock

Test = Callable[[ClientTokens, Principal, TurnedClock], Coroutine[Any, Any, None]]
TOKEN = "a" * 40


def opened(directory: Path, test: Test) -> None:
    """One life of a gateway, as far as client tokens go."""

    async def run() -> None:
        database, background, clock = Database(f"sqlite:///{directory}/sandcell.db"), Background(), TurnedClock()
        await database.open()
        try:
            await Identity(database).open("the token of the administrator", 1.0)
            me = await database.run(lambda c: principals.find_by_name(c, "admin"))
            assert me is not None
            await test(ClientTokens(database, background, clock), me, clock)
        finally:
            await background.aclose()
            await database.aclose()

    asyncio.run(run())


class Work:
    """Answers with how often it was done."""

    def __init__(self) -> None:
        self.done = 0
        self.error: Exception | None = None

    async def __call__(self) -> bytes:
        self.done += 1
        await asyncio.sleep(0.01)
        if self.error is not None:
            raise self.error
        return str(self.done).encode()


def test_a_repeat_is_answered_as_before_also_after_a_restart(tmp_path: Path) -> None:
    work = Work()

    async def test(tokens: ClientTokens, me: Principal, _clock: TurnedClock) -> None:
        assert await tokens.once(me, "Start", TOKEN, "same", work) == b"1"
        with pytest.raises(IdempotencyConflict):
            await tokens.once(me, "Start", TOKEN, "other", work)

    opened(tmp_path, test)
    opened(tmp_path, test)
    assert work.done == 1


def test_repeats_join_what_is_under_way(tmp_path: Path) -> None:
    async def test(tokens: ClientTokens, me: Principal, _clock: TurnedClock) -> None:
        work = Work()
        first = asyncio.create_task(tokens.once(me, "Start", TOKEN, "same", work))
        await asyncio.sleep(0)
        second = asyncio.create_task(tokens.once(me, "Start", TOKEN, "same", work))
        with pytest.raises(IdempotencyConflict):
            await tokens.once(me, "Start", TOKEN, "other", work)
        first.cancel()  # a client that goes away takes nothing from the others
        assert await second == b"1"

    opened(tmp_path, test)


def test_tokens_are_those_of_a_principal_and_an_operation(tmp_path: Path) -> None:
    async def test(tokens: ClientTokens, me: Principal, _clock: TurnedClock) -> None:
        work = Work()
        assert await tokens.once(me, "Start", TOKEN, "same", work) == b"1"
        assert await tokens.once(me, "Stop", TOKEN, "same", work) == b"2"
        assert await tokens.once(me, "Start", "b" * 40, "same", work) == b"3"
        assert await tokens.once(me, "Start", None, "same", work) == b"4"
        assert await tokens.once(me, "Start", None, "same", work) == b"5"

    opened(tmp_path, test)


def test_what_failed_is_tried_again(tmp_path: Path) -> None:
    async def test(tokens: ClientTokens, me: Principal, _clock: TurnedClock) -> None:
        work = Work()
        work.error = Conflict("not now")
        with pytest.raises(Conflict):
            await tokens.once(me, "Start", TOKEN, "same", work)
        work.error = None
        assert await tokens.once(me, "Start", TOKEN, "same", work) == b"2"

    opened(tmp_path, test)


def test_answers_are_forgotten_after_a_day(tmp_path: Path) -> None:
    async def test(tokens: ClientTokens, me: Principal, clock: TurnedClock) -> None:
        work = Work()
        await tokens.once(me, "Start", TOKEN, "same", work)
        clock.advance(KEPT_SECONDS + 1)
        await tokens.once(me, "Start", "b" * 40, "same", work)
        assert await tokens.once(me, "Start", TOKEN, "same", work) == b"3"

    opened(tmp_path, test)


def test_a_digest_is_of_everything_but_the_token() -> None:
    one = compute_digest("id", {"name": "n", "clientToken": "x"})
    assert one == compute_digest("id", {"clientToken": "y", "name": "n"})
    assert one != compute_digest("id", {"name": "m"})
    assert one != compute_digest("other", {"name": "n"})
