"""Workspaces that wait in the spool with what is closed to the service itself, and deeper than a stack."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernel_gateway.services.mirroring.mirrors import prefix
from tests.integration.workspace_sync.hostile_trees import Workspace, picture, removed
from workspace_sync.stores.local import LocalStore

WORKSPACE = "5b7c9d1e-2f3a-4b5c-8d7e-9f0a1b2c3d4e"
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""A service does not run as root, who may open everything."""
DELIVER = """
import asyncio, sys
from pathlib import Path
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from workspace_sync.stores.local import LocalStore

async def closed(sandbox_id, path):
    raise PermissionError

async def main(top, workspace):
    mirrors = Mirrors(LocalStore(str(top / "store")), 4, closed)
    try:
        assert await Spool(top / "spool", mirrors).deliver(workspace)
    finally:
        mirrors.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "live"
    directory.mkdir()
    with removed(directory):
        yield directory


def test_what_is_closed_or_deep_is_delivered_and_leaves_nothing_behind(
    live: Path, tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    assert shutil.which("setpriv"), "util-linux is missing"
    (live / "closed/inner").mkdir(parents=True)
    (live / "closed/inner/file").write_bytes(b"in two closed directories")
    (live / "file").write_bytes(b"closed")
    (live / "link").symlink_to("closed/inner/file")
    for name in ("file", "closed/inner", "closed"):
        (live / name).chmod(0)
    (live / "kept").mkdir()
    (live / "kept/file").write_bytes(b"in a directory that nothing can be removed from")
    (live / "kept").chmod(0o555)
    at = os.open(live, os.O_RDONLY)
    for _ in range(1_050):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    spooled = Workspace(LocalStore(str(tmp_path / "spool" / WORKSPACE)), executor, tmp_path)
    spooled.prefix = prefix(WORKSPACE)
    spooled.flush(live)
    subprocess.run([*WITHOUT_RIGHTS, sys.executable, "-c", DELIVER, str(tmp_path), WORKSPACE], check=True)
    assert list((tmp_path / "spool").iterdir()) == []
    delivered = Workspace(LocalStore(str(tmp_path / "store")), executor, tmp_path)
    delivered.prefix = prefix(WORKSPACE)
    again, _ = delivered.restore()
    with removed(again):
        assert picture(again) == picture(live)
