"""Blocking jobs of one attempt: how many threads are asked for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from workspace_sync.threads import Threads


class Counted(ThreadPoolExecutor):
    """Counts what it is given."""

    given = 0

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        self.given += 1
        return super().submit(work, *arguments, **named)


@pytest.mark.parametrize(
    ("items", "most"),
    [([], 0), (iter(()), 0), (range(1), 1), ([1, 2], 2), (iter([1, 2, 3]), 4), (range(1000), 4)],
    ids=["nothing", "nothing, not known before", "one", "two", "not known how many", "many"],
)
def test_no_more_threads_are_asked_than_there_are_jobs(items: Iterable[int], most: int) -> None:
    done: list[int] = []
    expected = list(items) if not hasattr(items, "__next__") else None
    with Counted(8) as executor:
        asyncio.run(Threads(executor, 4).each(done.append, items))
        assert executor.given <= most
    assert expected is None or sorted(done) == expected


def test_a_job_that_comes_first_is_done_too() -> None:
    done: list[int] = []
    with ThreadPoolExecutor(2) as executor:
        asyncio.run(Threads(executor, 2).each(done.append, iter(range(100))))
    assert sorted(done) == list(range(100))
