"""A workspace of which a part cannot be read any more when its store is away: the store keeps what it has of that."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernel_gateway.services.mirroring.mirrors import prefix
from tests.integration.workspace_sync.hostile_trees import Workspace
from workspace_sync import DurableWorkspace
from workspace_sync.stores.local import LocalStore

WORKSPACE = "5b7c9d1e-2f3a-4b5c-8d7e-9f0a1b2c3d4e"
WITHOUT_RIGHTS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
"""A service does not run as root, who may open everything."""
SPOOL = """
import asyncio, sys
from pathlib import Path
from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import Spool
from kernels.sandbox import SandboxInfo
from workspace_sync.stores.local import LocalStore

async def dead(sandbox_id, path):
    raise PermissionError(13, "the sandbox has died")

async def main(top, workspace):
    mirrors = Mirrors(LocalStore(str(top / "store")), 4, dead)
    spool = Spool(top / "spool", mirrors)
    try:
        await spool.take(SandboxInfo("one", str(top / "live")), workspace)
        assert await spool.deliver(workspace)
    finally:
        mirrors.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


def test_what_a_dead_sandbox_kept_closed_stays_in_the_store(tmp_path: Path, executor: ThreadPoolExecutor) -> None:
    assert shutil.which("setpriv"), "util-linux is missing"
    live, store = tmp_path / "live", LocalStore(str(tmp_path / "store"))
    (live / "closed").mkdir(parents=True)
    (live / "closed/file").write_bytes(b"closed")
    (live / "closed/link").symlink_to("file")
    (live / "file").write_bytes(b"before")
    (live / "place").write_bytes(b"a file")
    workspace = Workspace(store, executor, tmp_path)
    workspace.prefix = prefix(WORKSPACE)
    workspace.flush(live)
    (live / "file").write_bytes(b"after")
    (live / "place").unlink()
    (live / "place").mkdir()
    (live / "closed").chmod(0)

    subprocess.run([*WITHOUT_RIGHTS, sys.executable, "-c", SPOOL, str(tmp_path), WORKSPACE], check=True)

    durable = DurableWorkspace(store, prefix(WORKSPACE))
    kinds = {info.path: info.kind for info in durable.list()}
    assert kinds == {
        "closed": "directory",
        "closed/file": "file",
        "closed/link": "link",
        "file": "file",
        "place": "directory",
    }
    assert b"".join(durable.open("closed/file")[1]) == b"closed"
    assert b"".join(durable.open("file")[1]) == b"after"
