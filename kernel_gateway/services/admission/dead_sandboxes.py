"""Sandboxes of ended sessions: nothing runs in them, and what they still hold of the host is being removed.

A caller who stops a session waits for its end, not for this. Until it is done they count as sessions do, since they
hold a disk, mounts, control groups and a range of users. Those of a process that was killed belong to nobody, and the
next start removes them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from kernels.cancelling import cancel_all
from kernels.errors import KernelsError
from kernels.sandbox import SandboxRuntime

REMOVALS_AT_ONCE: Final = 4
REST_SECONDS: Final = 0.05
"""How long a removal rests first. It takes processor time from what its session's end still does for who waits for it,
as saving the notebook.
"""
DESTROY_SECONDS: Final = 60.0
CLOSE_SECONDS: Final = 30.0
"""With the drain and the last flushes it has to fit into what a supervisor waits for an end: 180 s under systemd."""
log = structlog.get_logger(__name__)


class DeadSandboxes:
    """`in` says whether a sandbox is still to be removed here. What resists is tried again by `retry`."""

    def __init__(self, runtime: SandboxRuntime) -> None:
        self._runtime = runtime
        self._owners: dict[str, str] = {}
        self._removing: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(REMOVALS_AT_ONCE)

    def __contains__(self, sandbox_id: str) -> bool:
        return sandbox_id in self._owners

    def count(self, principal_id: str | None = None) -> int:
        """How many there are, or how many sessions of this principal have left. Any thread may ask."""
        owners = list(self._owners.values())
        return len(owners) if principal_id is None else owners.count(principal_id)

    def remove(self, sandbox_id: str, principal_id: str) -> None:
        """Remove what is left of a sandbox soon; returns at once. It counts from now on."""
        self._owners[sandbox_id] = principal_id
        if sandbox_id not in self._removing:
            removing = asyncio.create_task(self._remove(sandbox_id), name=f"removal of sandbox {sandbox_id}")
            self._removing[sandbox_id] = removing
            removing.add_done_callback(lambda _done: self._removing.pop(sandbox_id, None))

    def retry(self) -> None:
        """Called by the sweep: begin again with those that could not be removed."""
        for sandbox_id, principal_id in list(self._owners.items()):
            self.remove(sandbox_id, principal_id)

    async def wait_for_one(self, principal_id: str | None = None, seconds: float | None = None) -> bool:
        """Wait until a removal has ended, of any session or of this principal's; false when none is under way.

        Also when it failed, and without an end of one when so many seconds have passed. Each removal has a deadline
        of its own from when its turn comes; a few run at once, and the others wait for theirs.
        """
        removing = [task for each, task in self._removing.items() if principal_id in (None, self._owners.get(each))]
        if removing:
            await asyncio.wait(removing, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(removing)

    async def aclose(self) -> None:
        """The service ends: wait a while for removals that are under way. What is left then is the next start's."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                while await self.wait_for_one():
                    pass
        except TimeoutError:
            log.error("sandboxes_not_destroyed", sandboxes=len(self._removing))
            await cancel_all(self._removing.values())

    async def _remove(self, sandbox_id: str) -> None:
        await asyncio.sleep(REST_SECONDS)
        async with self._turns:
            try:
                async with asyncio.timeout(DESTROY_SECONDS):
                    await self._runtime.destroy(sandbox_id)
            except (KernelsError, OSError, TimeoutError) as error:
                log.error("sandbox_not_destroyed", sandbox=sandbox_id, error=str(error))
            else:
                del self._owners[sandbox_id]
