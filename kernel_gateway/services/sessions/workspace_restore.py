"""How a new sandbox gets its workspace: laid out before the session is READY, complete before any code runs.

Calls that run code or look at files wait in `done`. A workspace counts as ready, for this process and for the one after
a restart, only once nothing is missing: what ends before that is thrown away, and the store keeps all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import structlog

from kernel_gateway.errors import WorkspaceRestoring, translated
from kernel_gateway.services.background import Background
from kernels.cancelling import cancel_all
from workspace_sync import Mirror, RestoreReport
from workspace_sync.errors import WorkspaceSyncError

log = structlog.get_logger(__name__)
CLOSE_SECONDS = 10.0
LOGGED = 20
"""How many names that are left out the log tells; the session's notebook counts them all."""


class WorkspaceRestored(msgspec.Struct, frozen=True):
    """A new sandbox's workspace was filled with this."""

    report: RestoreReport


class WorkspaceRestore:
    """The workspace of one new sandbox. `on_complete` is awaited once all is there, before any waiting call goes on."""

    def __init__(
        self, background: Background, mirror: Mirror, on_complete: Callable[[RestoreReport], Awaitable[None]]
    ) -> None:
        self.mirror = mirror
        self.complete = False
        self._background = background
        self._on_complete = on_complete
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    async def begin(self) -> bool:
        """Lay the workspace out; whether that was all, else its files follow in the background.

        Raises WorkspaceSyncError.
        """
        return await self.mirror.begin_restore()

    def go_on(self) -> asyncio.Task[None]:
        """See it to its end in the background: what has failed is begun again."""
        if self._task is None or self._task.done():
            self._task = self._background.spawn(self._finish(), "restore of a workspace")
        return self._task

    async def done(self, seconds: float) -> None:
        """Wait until all is there, or the sandbox has been given up.

        Raises WorkspaceRestoring (retryable), which says how far it is, NoSpace and similar errors.
        """
        if self._is_over():
            return
        task = self.go_on()
        await asyncio.wait([task], timeout=seconds)
        if not self._is_over():
            with translated():
                await (task if task.done() and not task.cancelled() else self.mirror.wait_restored(0.0))  # says how far
            raise WorkspaceRestoring("the workspace is about to be complete: try again")

    def _is_over(self) -> bool:
        return self.complete or self._closed

    async def aclose(self) -> None:
        """Stop, with the mirror; the store keeps all."""
        self._closed = True
        await self.mirror.aclose()
        if self._task is not None:
            await cancel_all([self._task], CLOSE_SECONDS)

    async def _finish(self) -> None:
        try:
            report = await self.mirror.wait_restored()
        except WorkspaceSyncError as error:
            if not self._closed:
                log.warning("workspace_not_restored", error=str(error))
            raise
        for each in report.skipped[:LOGGED]:
            log.warning("not_restored", path=each.path, reason=each.reason)
        await self._on_complete(report)
        self.complete = True
