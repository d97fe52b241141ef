"""Files that wait on this host for the store, of a workspace that another gateway has had meanwhile."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest

from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from workspace_sync.stores.local import LocalStore


async def closed(_sandbox_id: str, _path: str) -> int:
    raise PermissionError


@pytest.mark.parametrize("name", ["moved", "moved.whole"])
def test_they_are_kept_and_never_delivered(tmp_path: Path, name: str) -> None:
    async def check() -> None:
        store = LocalStore(str(tmp_path / "store"))
        store.put("workspaces/sessions/moved/workspace/file", io.BytesIO(b"newer"), 5)
        for each in (name, "own"):
            (tmp_path / "spool" / each).mkdir(parents=True)
            (tmp_path / "spool" / each / "file").write_bytes(b"older")
        mirrors = Mirrors(store, 1, closed)
        spool = Spool(tmp_path / "spool", mirrors)
        assert spool.waiting() == ["moved", "own"]
        spool.set_aside("moved")
        spool.set_aside("unknown")
        for again in (spool, Spool(tmp_path / "spool", mirrors)):
            again.clear()
            assert again.waiting() == ["own"]
            assert not await again.deliver("moved")
        [aside] = (tmp_path / "spool").glob("moved-*.aside")
        assert (aside / "file").read_bytes() == b"older"
        with store.get("workspaces/sessions/moved/workspace/file") as stream:
            assert stream.read() == b"newer"
        mirrors.close()

    asyncio.run(check())
