"""A service is killed at each step of taking a workspace into its spool, and of delivering it from there.

The steps are not listed: the first is killed, then the second, until the work comes to its end. The next start finds
one whole state, the older or the newer, and the store is given nothing that is a part of one.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.forked import Forked
from tests.integration.kernel_gateway.services.mirroring.killed_spool import WORKSPACE, spool_in, take
from workspace_sync import AsOf, DurableWorkspace
from workspace_sync.stores.local import LocalStore

OLDER = {"a": b"older", "sub/b": b"only in the older one"}
NEWER = {"a": b"newer", "c": b"only in the newer one"}
STATES = {1: OLDER, 2: NEWER}


@pytest.fixture(scope="module")
def process() -> Iterator[Forked]:
    forked = Forked("tests.integration.kernel_gateway.services.mirroring.killed_spool")
    yield forked
    forked.close()


def planted(top: Path, tree: dict[str, bytes]) -> Path:
    for name, content in tree.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(content)
    return top


async def prepared(top: Path) -> None:
    """A spool that holds the older state."""
    spool, mirrors = spool_in(top)
    await take(spool, planted(top / "older", OLDER), 1)
    mirrors.close()


class Delivered:
    """What came to the store when the service started again, and what the session was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, AsOf | None]] = []

    async def __call__(self, workspace_id: str, as_of: AsOf | None) -> None:
        self.told.append((workspace_id, as_of))


async def started_anew(top: Path) -> tuple[int, Delivered]:
    """Deliver what waits; the number of the state that is in the store then, which is a whole one."""
    delivered = Delivered()
    spool, mirrors = spool_in(top, delivered)
    spool.clear()
    waiting = spool.waiting()
    assert waiting in ([WORKSPACE], [])
    assert await spool.deliver(WORKSPACE) is bool(waiting)
    assert spool.waiting() == []
    assert list((top / "spool").iterdir()) == [], "nothing half done is left"
    mirrors.close()
    return stored(top), delivered


def stored(top: Path) -> int:
    durable = DurableWorkspace(LocalStore(str(top / "store")), f"workspaces/sessions/{WORKSPACE}")
    files = {}
    for each in durable.list():
        if each.kind == "file":
            _, chunks = durable.open(each.path)
            files[each.path] = b"".join(chunks)
    as_of = durable.execution()
    assert as_of is not None
    assert files == STATES[as_of.number]
    return as_of.number


def killed_at_every_step(process: Forked, top: Path, order: dict[str, Any]) -> list[int]:
    """The states that were in the store after each kill and a start."""
    asyncio.run(prepared(top / "0"))
    planted(top / "0" / "newer", NEWER)
    step, found = 1, []
    while True:
        place = shutil.copytree(top / "0", top / str(step))
        ended = process.carry_out({**order, "top": str(place), "directory": str(place / "newer"), "step": step})
        number, _ = asyncio.run(started_anew(place))
        found.append(number)
        shutil.rmtree(place)
        if ended:
            return found
        step += 1


def test_what_is_taken_is_there_whole_or_the_older_copy_is(process: Forked, tmp_path: Path) -> None:
    found = killed_at_every_step(process, tmp_path, {"what": "take"})
    assert (found[0], found[-1]) == (1, 2)
    assert len(found) > 5


def test_what_is_delivered_is_in_the_store_whole_or_waits_on(process: Forked, tmp_path: Path) -> None:
    found = killed_at_every_step(process, tmp_path, {"what": "deliver"})
    assert set(found) == {1}
    assert len(found) > 5


def test_who_waits_hears_what_was_delivered(tmp_path: Path) -> None:
    asyncio.run(prepared(tmp_path))
    number, delivered = asyncio.run(started_anew(tmp_path))
    assert (number, delivered.told) == (1, [(WORKSPACE, AsOf("execution-1", 1))])
