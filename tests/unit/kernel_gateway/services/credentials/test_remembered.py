"""What is remembered of the database's answers, and when it is asked again."""

from __future__ import annotations

import asyncio

import pytest

from kernel_gateway.services.credentials import remembered
from kernel_gateway.services.credentials.remembered import Remembered


class Asked:
    """Answers in upper case, or not at all, and counts."""

    def __init__(self) -> None:
        self.times = 0

    async def answer(self, question: str) -> str | None:
        self.times += 1
        await asyncio.sleep(0)
        return question.upper() or None


def test_an_answer_is_asked_for_once_until_something_is_forgotten() -> None:
    async def check() -> None:
        kept, asked = Remembered[str](), Asked()
        for _ in range(3):
            assert await kept.ask("a", lambda: asked.answer("a")) == "A"
        assert asked.times == 1
        kept.forget()
        assert await kept.ask("a", lambda: asked.answer("a")) == "A"
        assert asked.times == 2

    asyncio.run(check())


def test_no_answer_is_not_remembered() -> None:
    async def check() -> None:
        kept, asked = Remembered[str](), Asked()
        for _ in range(2):
            assert await kept.ask("", lambda: asked.answer("")) is None
        assert asked.times == 2

    asyncio.run(check())


def test_an_answer_that_was_on_its_way_at_a_revocation_is_not_remembered() -> None:
    async def check() -> None:
        kept, asked = Remembered[str](), Asked()
        under_way = asyncio.create_task(kept.ask("a", lambda: asked.answer("a")))
        while not asked.times:
            await asyncio.sleep(0)
        kept.forget()
        assert await under_way == "A"
        await kept.ask("a", lambda: asked.answer("a"))
        assert asked.times == 2

    asyncio.run(check())


def test_it_holds_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "MOST_REMEMBERED", 3)

    async def check() -> None:
        kept, asked = Remembered[str](), Asked()
        for question in ("a", "b", "c", "d"):
            assert await kept.ask(question, lambda q=question: asked.answer(q)) == question.upper()  # type: ignore[misc]
        assert len(kept._answers) == 1

    asyncio.run(check())


def test_where_others_may_revoke_an_answer_counts_for_a_second() -> None:
    async def check() -> None:
        now = [0.0]
        kept, asked = Remembered[str](shared=True, monotonic=lambda: now[0]), Asked()
        for now[0], times in ((0.0, 1), (1.0, 1), (1.1, 2), (2.0, 2), (2.2, 3)):
            assert await kept.ask("a", lambda: asked.answer("a")) == "A"
            assert asked.times == times

    asyncio.run(check())
