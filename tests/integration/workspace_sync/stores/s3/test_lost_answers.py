"""What the store did although its answer was lost, and what code undid before it was asked again: nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.doubles.away_store import AwayStore
from workspace_sync import DurableWorkspace, Mirror, ObjectStore, TransferLimits, Written
from workspace_sync.errors import FlushIncomplete, StoreUnavailable
from workspace_sync.mirroring.durable import DurableFiles
from workspace_sync.stores.local import LocalStore

DEADLINE_SECONDS = 120.0
PREFIX = "workspaces/sessions/one"
LIMITS = TransferLimits(settle_seconds=0.01, retry_seconds=600.0, retry_max_seconds=600.0, flush_attempts=1)


class DeafStore(AwayStore):
    """Does what it is asked; of what is `unheard` the answer does not arrive."""

    def __init__(self, behind: ObjectStore) -> None:
        super().__init__(behind)
        self.unheard = ""

    def put(self, key: str, source: BinaryIO, size: int) -> Written:
        written = super().put(key, source, size)
        self._answer(key)
        return written

    def delete(self, keys: Iterable[str]) -> None:
        keys = list(keys)
        super().delete(keys)
        for key in keys:
            self._answer(key)

    def _answer(self, key: str) -> None:
        if self.unheard and key.endswith(self.unheard):
            raise StoreUnavailable("the connection broke off")


@asynccontextmanager
async def mirrored(tmp_path: Path, executor: ThreadPoolExecutor) -> AsyncIterator[tuple[Path, DeafStore, Mirror]]:
    live, store = tmp_path / "live", DeafStore(LocalStore(str(tmp_path / "store")))
    live.mkdir()
    mirror = Mirror(str(live), store, PREFIX, limits=LIMITS, executor=executor)
    try:
        yield live, store, mirror
    finally:
        await mirror.aclose()


async def flushed_unheard(mirror: Mirror, store: DeafStore, name: str) -> None:
    """A flush of which one answer is lost."""
    store.unheard = name
    with pytest.raises(FlushIncomplete, match="broke off"):
        await mirror.flush(DEADLINE_SECONDS)
    store.unheard = ""


def durable(store: ObjectStore, name: str) -> bytes:
    _, chunks = DurableWorkspace(store, PREFIX).open(name)
    return b"".join(chunks)


def test_a_removed_file_that_comes_back_is_sent_again(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    async def run() -> bytes:
        async with mirrored(tmp_path, executor) as (live, store, mirror):
            (live / "result").write_bytes(b"the same each time")
            await mirror.flush(DEADLINE_SECONDS)
            (live / "result").unlink()
            await flushed_unheard(mirror, store, "/result")
            (live / "result").write_bytes(b"the same each time")
            await mirror.flush(DEADLINE_SECONDS)
            return durable(store, "result")

    assert asyncio.run(run()) == b"the same each time"


def test_a_change_that_is_undone_is_undone_in_the_store(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    async def run() -> bytes:
        async with mirrored(tmp_path, executor) as (live, store, mirror):
            (live / "branch").write_bytes(b"main")
            await mirror.flush(DEADLINE_SECONDS)
            (live / "branch").write_bytes(b"test")
            await flushed_unheard(mirror, store, "/branch")
            (live / "branch").write_bytes(b"main")
            await mirror.flush(DEADLINE_SECONDS)
            return durable(store, "branch")

    assert asyncio.run(run()) == b"main"


def test_a_new_file_that_goes_again_does_not_stay_in_the_store(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    async def run() -> list[str]:
        async with mirrored(tmp_path, executor) as (live, store, mirror):
            await mirror.flush(DEADLINE_SECONDS)
            (live / "draft").write_bytes(b"never mind")
            await flushed_unheard(mirror, store, "/draft")
            (live / "draft").unlink()
            await mirror.flush(DEADLINE_SECONDS)
            return [info.path for info in DurableWorkspace(store, PREFIX).list()]

    assert asyncio.run(run()) == []


def test_a_mode_that_is_undone_is_undone_in_the_manifest(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    async def run() -> int:
        async with mirrored(tmp_path, executor) as (live, store, mirror):
            (live / "script").write_bytes(b"pass")
            (live / "script").chmod(0o644)
            await mirror.flush(DEADLINE_SECONDS)
            (live / "script").chmod(0o755)
            await flushed_unheard(mirror, store, "manifest.json")
            (live / "script").chmod(0o644)
            await mirror.flush(DEADLINE_SECONDS)
            manifest = DurableFiles(store, PREFIX, LIMITS.manifest_bytes).read_manifest()
            return manifest.entries[b"script"].mode

    assert asyncio.run(run()) == 0o644
