"""A process that takes a workspace into the spool, or delivers it, and is killed at one of its steps.

A step is a change of a name on disk (made, renamed, removed), as Python's audit events tell of it: the process is
killed before that step is done.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from kernel_gateway.services.mirroring.mirrors import Mirrors
from kernel_gateway.services.mirroring.spool import OnDelivered, Spool
from kernels.sandbox import SandboxInfo
from tests.doubles.forked import die, serve
from workspace_sync import AsOf
from workspace_sync.stores.local import LocalStore

WORKSPACE = "11111111-2222-3333-4444-555555555555"
NAMES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir"})
"""The audit events that count; `os.unlink` is told of as os.remove."""


async def ignore_delivery(workspace_id: str, as_of: AsOf | None) -> None:
    """Nobody is told."""


async def closed(sandbox_id: str, path: bytes) -> int:
    """Nothing in these workspaces is closed to the service."""
    raise FileNotFoundError(path)


def spool_in(top: Path, on_delivered: OnDelivered = ignore_delivery) -> tuple[Spool, Mirrors]:
    """The spool of a service, and its store, below one directory."""
    mirrors = Mirrors(LocalStore(str(top / "store")), 4, closed)
    return Spool(top / "spool", mirrors, on_delivered), mirrors


async def take(spool: Spool, directory: Path, number: int) -> None:
    info = SandboxInfo(WORKSPACE, workspace_directory=str(directory), workspace_ready=True)
    await spool.take(info, WORKSPACE, AsOf(f"execution-{number}", number))


def kill_at(step: int) -> None:
    left = step

    def hook(event: str, _: tuple[object, ...]) -> None:
        nonlocal left
        if event in NAMES:
            left -= 1
            if not left:
                die()

    sys.addaudithook(hook)


async def work(order: dict[str, Any]) -> None:
    """In a process of its own."""
    spool, mirrors = spool_in(Path(order["top"]))
    try:
        spool.clear()
        kill_at(order["step"])
        if order["what"] == "take":
            await take(spool, Path(order["directory"]), 2)
        else:
            await spool.deliver(WORKSPACE)
    finally:
        mirrors.close()


if __name__ == "__main__":
    serve(lambda order: asyncio.run(work(order)))
