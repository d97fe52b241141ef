"""Where a session's files and notebook lie in the store, and the mirrors that carry them there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from kernels.sandbox import SandboxInfo
from workspace_sync import DurableWorkspace, Mirror, ObjectStore, TransferLimits

NOTEBOOK = "history.ipynb"
STORE_SECONDS = 300.0
"""Longest time one piece of work on the store takes."""
T = TypeVar("T")


class Mirrors:
    """One store, and the threads that move files to and from it."""

    def __init__(self, store: ObjectStore, threads: int) -> None:
        self.store = store
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix="transfer")

    def mirror(self, info: SandboxInfo, workspace_id: str) -> Mirror:
        """The mirror of a live sandbox's workspace."""
        owner = info.user_uid, info.user_gid
        return Mirror(
            info.workspace_directory,
            self.store,
            prefix(workspace_id),
            owner=owner,
            limits=TransferLimits(),
            executor=self.executor,
        )

    def durable(self, workspace_id: str) -> DurableWorkspace:
        """The files of a workspace in the store."""
        return DurableWorkspace(self.store, prefix(workspace_id))

    async def run(self, work: Callable[[], T]) -> T:
        """Carry out a blocking piece of work on the store in one of the threads; raises what it raises, in time."""
        async with asyncio.timeout(STORE_SECONDS):
            return await asyncio.get_running_loop().run_in_executor(self.executor, work)

    def close(self) -> None:
        self.executor.shutdown(wait=False, cancel_futures=True)


def prefix(workspace_id: str) -> str:
    """Under it lie `workspace/`, `manifest.json` and `history.ipynb`."""
    return f"workspaces/sessions/{workspace_id}"
