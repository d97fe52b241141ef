"""What of a session is called durable: what ended in it, and nothing that an earlier session left in the store."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernel_gateway.services.mirroring.flushes import Flushes, sync_status
from kernel_gateway.storage.executions import ExecutionRow
from sandcell.models.sync import DurableExecution
from tests.doubles.away_store import AwayStore
from workspace_sync import AsOf, Mirror, open_store
from workspace_sync.mirroring.durable import DurableFiles

SECONDS = 120.0
PREFIX = "workspaces/sessions/one"


async def nothing() -> None:
    """Nobody stores what is durable."""


def ended(name: str, number: int) -> ExecutionRow:
    return ExecutionRow(
        name,
        "one",
        "ok",
        "python",
        "",
        generation=1,
        timeout_seconds=1.0,
        expect_generation=None,
        idempotency_key=None,
        request_digest=None,
        queued=0.0,
        started=1.0,
        ended=2.0,
        ended_number=number,
    )


def test_an_earlier_sessions_execution_is_not_taken_for_ours(tmp_path: Path) -> None:
    """The first execution ends while a flush is under way that was asked for before anything had ended."""
    store, live = AwayStore(open_store(f"file://{tmp_path / 'store'}")), tmp_path / "live"
    live.mkdir()
    (live / "kept").write_text("x")
    DurableFiles(store, PREFIX, 1_000_000).write_manifest([], execution=AsOf("earlier", 50))
    writing, rest = threading.Event(), threading.Event()

    def slow(key: str) -> None:
        if key.endswith("/kept"):
            writing.set()
            rest.wait(SECONDS)
        elif key.endswith("/late"):
            raise OSError("never")

    store.before_put = slow

    async def test(mirror: Mirror) -> None:
        flushes = Flushes("async", SECONDS, find_mirror=lambda: mirror, on_durable=nothing)
        first = flushes.request()
        assert first is not None
        assert await asyncio.to_thread(writing.wait, SECONDS)
        (live / "late").write_text("y")
        row = ended("ours", flushes.next_number())
        flushes.request(row)
        rest.set()
        await mirror.wait_flushed(first.number, SECONDS)
        assert flushes.sync().durable is None
        assert sync_status(row, flushes.sync()).durable is False
        store.before_put = lambda _: None
        await mirror.flush(SECONDS)
        assert flushes.sync().durable == DurableExecution("ours", 1)
        assert sync_status(row, flushes.sync()).durable is True

    async def run() -> None:
        with ThreadPoolExecutor(4) as executor:
            mirror = Mirror(str(live), store, PREFIX, executor=executor)
            try:
                await test(mirror)
            finally:
                rest.set()
                await mirror.aclose()

    asyncio.run(run())
