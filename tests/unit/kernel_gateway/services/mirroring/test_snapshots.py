"""Snapshots in the store whose copies were given up: what the store makes all the same does not stay."""

from __future__ import annotations

import asyncio
import io
import threading
from pathlib import Path

import pytest

from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.snapshots import Snapshots
from workspace_sync.store import Written
from workspace_sync.stores.local import LocalStore

WAIT_SECONDS = 60.0


class Slow(LocalStore):
    """Copies once it is let, as a store that is far away."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.began, self.may_go_on = threading.Event(), threading.Event()

    def copy(self, source: str, target: str, *, etag: str = "", size: int | None = None) -> Written:
        self.began.set()
        assert self.may_go_on.wait(WAIT_SECONDS)
        return super().copy(source, target, etag=etag)


async def refuse(_sandbox_id: str, _path: str) -> int:
    raise PermissionError


@pytest.mark.parametrize("after_it_was_made", [False, True])
def test_a_copy_that_is_given_up_is_not_there(tmp_path: Path, *, after_it_was_made: bool) -> None:
    async def check() -> None:
        store = Slow(str(tmp_path / "store"))
        store.put("variables/one", io.BytesIO(b"values"), 6)
        mirrors = Mirrors(store, 1, refuse)
        snapshots = Snapshots(mirrors, tmp_path / "snapshots", lambda _size: None)
        copying = asyncio.ensure_future(snapshots.copy("one", "other"))
        await asyncio.to_thread(store.began.wait, WAIT_SECONDS)
        if after_it_was_made:
            store.may_go_on.set()
            mirrors.executor.submit(lambda: None).result(WAIT_SECONDS)  # it is made, and this loop does not know yet
        copying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await copying
        store.may_go_on.set()
        await mirrors.run(lambda: None)
        assert [each.key for each in store.list("variables/")] == ["variables/one"]
        await snapshots.copy("one", "other")
        assert [each.key for each in store.list("variables/")] == ["variables/one", "variables/other"]
        mirrors.close()

    asyncio.run(check())
