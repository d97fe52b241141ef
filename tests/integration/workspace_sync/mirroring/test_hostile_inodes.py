"""File systems give the number of a file that is gone to the next one; times and sizes are anybody's to choose."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integration.workspace_sync.hostile_trees import DEADLINE_SECONDS, Workspace
from workspace_sync.stores.local import LocalStore

SIZE = 4096
MOMENT = (10**18, 10**18)


@pytest.fixture
def local(executor: ThreadPoolExecutor, tmp_path: Path) -> Workspace:
    return Workspace(LocalStore(str(tmp_path / "store")), executor, tmp_path)


def write(path: Path, content: bytes) -> int:
    path.write_bytes(content)
    os.utime(path, ns=MOMENT)
    return path.stat().st_ino


def test_another_file_of_the_same_number_size_and_time_is_not_taken_for_the_one_that_is_gone(local: Workspace) -> None:
    """As when an archive of fixed times is unpacked over another one."""
    live = local.directory()

    async def scenario() -> None:
        mirror = local.mirror(live)
        try:
            for attempt in range(50):
                old, new = live / f"old-{attempt}", live / f"new-{attempt}"
                number = write(old, b"a" * SIZE)
                time.sleep(0.05)  # noqa: ASYNC251 - until what is known of the file is trusted
                await mirror.flush(DEADLINE_SECONDS)
                await mirror.flush(DEADLINE_SECONDS)
                old.unlink()
                again = write(new, b"b" * SIZE)
                await mirror.flush(DEADLINE_SECONDS)
                assert await asyncio.to_thread(local.content, new.name) == b"b" * SIZE
                if number == again:
                    return
            pytest.fail("this file system gives no number twice")
        finally:
            await mirror.aclose()

    asyncio.run(scenario())
